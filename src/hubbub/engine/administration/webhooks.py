"""Administration of all users' webhooks and their topics."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from hubbub.domain.errors import Conflict, NotFound, NotSubscribed, Timeout, Unavailable
from hubbub.domain.messages import Message
from hubbub.domain.topics import SubscriptionKey
from hubbub.domain.webhooks import WEBHOOK_OWNER, Replayed, Webhook, WebhookStatus, WebTopic
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.administration.lists import cut
from hubbub.engine.node import Node
from hubbub.engine.topics.service import Topics
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.storage import Store
from hubbub.tasks import gather_some

_ASKED_AT_ONCE = 50


class WebhookAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._topics = node.feature(Topics)
        self._webhooks = node.feature(Webhooks)
        self._store = store
        self._audit = audit

    # -- webhooks -------------------------------------------------------------------------------

    async def page(
        self, hub: str, limit: int, after: str = "", channel: str | None = None, q: str = ""
    ) -> tuple[list[Webhook], str | None, int]:
        """A page after `after`, ordered by id, the start of the next page if there is one, and the
        number of all."""
        self._node.directory.get(hub)
        found = await self._store.read_webhooks(
            hub, channel=channel, after=(hub, after), limit=limit + 1, text=q, peers=False
        )
        total = await self._store.count_webhooks(hub, channel, q, peers=False)
        return *cut(found, limit, lambda webhook: webhook.id), total

    async def some(self, hub: str, ids: Sequence[str]) -> list[Webhook]:
        """The existing ones of these webhooks, in the given order."""
        found = await gather_some(
            _ASKED_AT_ONCE, (self._store.read_webhook(hub, each) for each in ids)
        )
        return [each for each in found if each is not None and each.kind != "peer"]

    async def get(self, hub: str, webhook: str) -> Webhook:
        """Raises `NotFound`."""
        try:
            return await self._webhooks.find(self._node.hub(hub), webhook)
        except NotSubscribed as error:
            raise NotFound(error.message) from None

    async def statuses(self, webhooks: Sequence[Webhook]) -> list[WebhookStatus | None]:
        """The state of each webhook; None if no node drives it at the moment."""

        async def ask(webhook: Webhook) -> WebhookStatus | None:
            with contextlib.suppress(NotSubscribed, Timeout, Unavailable):
                if webhook.state == "paused":  # nobody drives it, but it has its place
                    key = SubscriptionKey(webhook.hub, webhook.channel, WEBHOOK_OWNER, webhook.id)
                    info = await self._topics.describe(key)
                    return WebhookStatus(lag=info.lag, dead_letters=info.dead_letters)
                return await self._webhooks.describe(self._node.hub(webhook.hub), webhook.id)
            return None

        return await gather_some(_ASKED_AT_ONCE, map(ask, webhooks))

    async def remove(self, actor: Actor, hub: str, webhook: str) -> None:
        """Deletes the webhook; its dead letters stay in their channel. Raises `NotFound`."""
        found = await self.get(hub, webhook)
        audit = self._audit.entry(actor, "webhook.delete", hub, webhook, before=_noted(found))
        if await self._webhooks.end(found, audit):
            configuration = self._node.directory.get(hub)
            reason = "an administrator ended the subscription"
            self._node.do_later(self._webhooks.deny_ended(configuration, [found], reason))
        await self._audit.ensure(audit)

    async def replay(self, actor: Actor, hub: str, webhook: str, after: int) -> Replayed:
        """Sends the dead letters after `after` again, as many as fit into a short request. Raises
        `NotFound`."""
        found = await self.get(hub, webhook)
        await self._audit.note(actor, "webhook.replay", hub, webhook, after=_noted(found))
        try:
            return await self._webhooks.replay_some(self._node.hub(hub), webhook, after)
        except NotSubscribed as error:
            raise NotFound(error.message) from None

    async def pause(self, actor: Actor, hub: str, webhook: str, paused: bool) -> Webhook:
        """Pauses the webhook, or resumes it with the messages that arrived meanwhile. Raises
        `NotFound`, and `Conflict` if the callback has not confirmed it yet."""
        found = await self.get(hub, webhook)
        if found.state == "pending":
            raise Conflict(f"the webhook {webhook!r} is not confirmed yet; wait, or delete it")
        if (found.state == "paused") is paused:
            return found
        action = "webhook.pause" if paused else "webhook.resume"
        audit = self._audit.entry(actor, action, hub, webhook, before=_noted(found))
        return await self._webhooks.pause(found, paused, audit)

    async def dead_letters(
        self, hub: str, webhook: str, after: int, limit: int
    ) -> tuple[list[Message], int | None]:
        """The dead letters after a serial, and the serial to continue from. Raises `NotFound`."""
        return await self._webhooks.dead_letters(await self.get(hub, webhook), after, limit)

    async def dead_letter(self, actor: Actor, hub: str, webhook: str, serial: int) -> Message:
        """A dead letter with its payload; the access is recorded in the audit log. Raises
        `NotFound`."""
        found = await self._dead_letter(hub, webhook, serial)
        await self._audit.note(actor, "message.read", hub, found.channel, after={"serial": serial})
        return found

    async def _dead_letter(self, hub: str, webhook: str, serial: int) -> Message:
        found, _ = await self.dead_letters(hub, webhook, serial - 1, 1)
        if not found or found[0].serial != serial:
            raise NotFound(f"the webhook {webhook!r} has no dead letter {serial}")
        return found[0]

    async def replay_one(self, actor: Actor, hub: str, webhook: str, serial: int) -> Replayed:
        """Sends one dead letter again. Raises `NotFound`."""
        await self._dead_letter(hub, webhook, serial)
        await self._audit.note(actor, "webhook.replay", hub, webhook, after={"serial": serial})
        try:
            return await self._webhooks.replay_some(self._node.hub(hub), webhook, only=serial)
        except NotSubscribed as error:
            raise NotFound(error.message) from None

    async def discard(self, actor: Actor, hub: str, webhook: str, serial: int) -> None:
        """Discards a dead letter. Raises `NotFound`."""
        await self._dead_letter(hub, webhook, serial)
        about = {"serial": serial}
        audit = self._audit.entry(actor, "webhook.discard", hub, webhook, before=about)
        await self._webhooks.discard(await self.get(hub, webhook), serial, audit)
        await self._audit.ensure(audit)

    # -- topics ---------------------------------------------------------------------------------

    async def topics(
        self, hub: str, limit: int, after: str = ""
    ) -> tuple[list[WebTopic], str | None]:
        """Topics after `after`, ordered by channel, and the start of the next page."""
        self._node.directory.get(hub)
        found = await self._store.list_web_topics(hub, after, limit + 1)
        page = found[:limit]
        return page, page[-1].channel if len(found) > limit else None

    async def remove_topic(self, actor: Actor, hub: str, channel: str) -> None:
        """Deletes the registration of a topic, and ends its Light-PubSubHubbub subscriptions. The
        channel and its messages stay. Raises `NotFound`."""
        self._node.directory.get(hub)
        topic = await self._store.read_web_topic(hub, channel)
        light = [
            webhook
            for webhook in await self._store.read_webhooks(hub, channel=channel)
            if webhook.kind == "light"
        ]
        audit = None
        if topic is not None:
            about = {"url": topic.url, "withKey": topic.key_hash is not None, "ended": len(light)}
            audit = self._audit.entry(actor, "web_topic.delete", hub, channel, before=about)
        if topic is None or not await self._store.audited(audit).delete_web_topic(hub, channel):
            raise NotFound(f"hub {hub!r} has no registered topic {channel!r}")
        self._webhooks.forget_topic(hub, channel)
        if topic.key_hash is not None:
            await self._node.directory.changed(hub)
        for webhook in light:
            await self._webhooks.end(webhook)


def _noted(webhook: Webhook) -> dict[str, object]:
    """The value for the audit log, without secret and key."""
    return {"kind": webhook.kind, "channel": webhook.channel, "callback": webhook.callback}
