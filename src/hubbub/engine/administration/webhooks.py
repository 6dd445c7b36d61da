"""Webhooks of anybody and their topics, as services and administrators see them."""

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
from hubbub.ports.storage import Store
from hubbub.tasks import gather_some

_ASKED_AT_ONCE = 50


class WebhookAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._store = store
        self._audit = audit

    # -- webhooks -------------------------------------------------------------------------------

    async def page(
        self, hub: str, limit: int, after: str = "", channel: str | None = None, q: str = ""
    ) -> tuple[list[Webhook], str | None, int]:
        """In the order of their ids, those behind `after`; where the next page begins, if there is
        one; and how many there are in all."""
        self._node.directory.get(hub)
        found = await self._store.read_webhooks(
            hub, channel=channel, after=(hub, after), limit=limit + 1, text=q, peers=False
        )
        total = await self._store.count_webhooks(hub, channel, q, peers=False)
        return *cut(found, limit, lambda webhook: webhook.id), total

    async def some(self, hub: str, ids: Sequence[str]) -> list[Webhook]:
        """Those of them that are still there, in the same order."""
        found = await gather_some(
            _ASKED_AT_ONCE, (self._store.read_webhook(hub, each) for each in ids)
        )
        return [each for each in found if each is not None and each.kind != "peer"]

    async def get(self, hub: str, webhook: str) -> Webhook:
        """Raises `NotFound`."""
        try:
            return await self._node.webhooks.find(self._node.hub(hub), webhook)
        except NotSubscribed as error:
            raise NotFound(error.message) from None

    async def statuses(self, webhooks: Sequence[Webhook]) -> list[WebhookStatus | None]:
        """How they are doing; None: nobody drives it just now."""

        async def ask(webhook: Webhook) -> WebhookStatus | None:
            with contextlib.suppress(NotSubscribed, Timeout, Unavailable):
                if webhook.state == "paused":  # nobody drives it, but it has its place
                    key = SubscriptionKey(webhook.hub, webhook.channel, WEBHOOK_OWNER, webhook.id)
                    info = await self._node.topics.describe(key)
                    return WebhookStatus(lag=info.lag, dead_letters=info.dead_letters)
                return await self._node.webhooks.describe(self._node.hub(webhook.hub), webhook.id)
            return None

        return await gather_some(_ASKED_AT_ONCE, map(ask, webhooks))

    async def remove(self, actor: Actor, hub: str, webhook: str) -> None:
        """Nothing is sent there any more; its dead letters stay in their channel. Raises
        `NotFound`."""
        found = await self.get(hub, webhook)
        if await self._node.webhooks.end(found):
            configuration = self._node.directory.get(hub)
            reason = "an administrator ended the subscription"
            self._node.do_later(self._node.webhooks.deny_ended(configuration, [found], reason))
        await self._audit.note(actor, "webhook.delete", hub, webhook, before=_noted(found))

    async def replay(self, actor: Actor, hub: str, webhook: str, after: int) -> Replayed:
        """Send its dead letters behind `after` once more, as many as a moment allows. Raises
        `NotFound`."""
        found = await self.get(hub, webhook)
        try:
            part = await self._node.webhooks.replay_some(self._node.hub(hub), webhook, after)
        except NotSubscribed as error:
            raise NotFound(error.message) from None
        about = {**_noted(found), "delivered": part.delivered, "failed": part.failed}
        await self._audit.note(actor, "webhook.replay", hub, webhook, after=about)
        return part

    async def pause(self, actor: Actor, hub: str, webhook: str, paused: bool) -> Webhook:
        """Stop sending to it, or go on with what came meanwhile. Raises `NotFound`, and `Conflict`
        where its callback has not confirmed it yet."""
        found = await self.get(hub, webhook)
        if found.state == "pending":
            raise Conflict(f"the webhook {webhook!r} is not confirmed yet; wait, or delete it")
        if (found.state == "paused") is paused:
            return found
        action = "webhook.pause" if paused else "webhook.resume"
        changed = await self._node.webhooks.pause(found, paused)
        await self._audit.note(actor, action, hub, webhook, before=_noted(found))
        return changed

    async def dead_letters(
        self, hub: str, webhook: str, after: int, limit: int
    ) -> tuple[list[Message], int | None]:
        """Those behind a serial, and where to go on. Raises `NotFound`."""
        return await self._node.webhooks.dead_letters(await self.get(hub, webhook), after, limit)

    async def dead_letter(self, actor: Actor, hub: str, webhook: str, serial: int) -> Message:
        """One with its payload, which the audit log notes. Raises `NotFound`."""
        found = await self._dead_letter(hub, webhook, serial)
        await self._audit.note(actor, "message.read", hub, found.channel, after={"serial": serial})
        return found

    async def _dead_letter(self, hub: str, webhook: str, serial: int) -> Message:
        found, _ = await self.dead_letters(hub, webhook, serial - 1, 1)
        if not found or found[0].serial != serial:
            raise NotFound(f"the webhook {webhook!r} has no dead letter {serial}")
        return found[0]

    async def replay_one(self, actor: Actor, hub: str, webhook: str, serial: int) -> Replayed:
        """Send one dead letter once more. Raises `NotFound`."""
        await self._dead_letter(hub, webhook, serial)
        try:
            part = await self._node.webhooks.replay_some(self._node.hub(hub), webhook, only=serial)
        except NotSubscribed as error:
            raise NotFound(error.message) from None
        about = {"serial": serial, "delivered": part.delivered, "failed": part.failed}
        await self._audit.note(actor, "webhook.replay", hub, webhook, after=about)
        return part

    async def discard(self, actor: Actor, hub: str, webhook: str, serial: int) -> None:
        """Give a dead letter up for good. Raises `NotFound`."""
        await self._dead_letter(hub, webhook, serial)
        await self._node.webhooks.discard(await self.get(hub, webhook), serial)
        await self._audit.note(actor, "webhook.discard", hub, webhook, before={"serial": serial})

    # -- topics ---------------------------------------------------------------------------------

    async def topics(
        self, hub: str, limit: int, after: str = ""
    ) -> tuple[list[WebTopic], str | None]:
        """In the order of their channels, those behind `after`; and where the next page begins."""
        self._node.directory.get(hub)
        found = await self._store.list_web_topics(hub, after, limit + 1)
        page = found[:limit]
        return page, page[-1].channel if len(found) > limit else None

    async def remove_topic(self, actor: Actor, hub: str, channel: str) -> None:
        """Remove the registration of a topic, and end its subscriptions of Light-PubSubHubbub. The
        channel and its messages stay. Raises `NotFound`."""
        self._node.directory.get(hub)
        topic = await self._store.read_web_topic(hub, channel)
        if topic is None or not await self._store.delete_web_topic(hub, channel):
            raise NotFound(f"hub {hub!r} has no registered topic {channel!r}")
        self._node.webhooks.forget_topic(hub, channel)
        if topic.key_hash is not None:
            await self._node.directory.changed(hub)
        ended = [
            webhook
            for webhook in await self._store.read_webhooks(hub, channel=channel)
            if webhook.kind == "light"
        ]
        for webhook in ended:
            await self._node.webhooks.end(webhook)
        about = {"url": topic.url, "withKey": topic.key_hash is not None, "ended": len(ended)}
        await self._audit.note(actor, "web_topic.delete", hub, channel, before=about)


def _noted(webhook: Webhook) -> dict[str, object]:
    """For the audit log, without secret and key."""
    return {"kind": webhook.kind, "channel": webhook.channel, "callback": webhook.callback}
