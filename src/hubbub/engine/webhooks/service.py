"""The service for webhooks and their topics, called by gateways: registers, subscribes,
publishes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit, AuditEntry
from hubbub.domain.callbacks import check_callback
from hubbub.domain.errors import (
    NotSubscribed,
    QuotaExceeded,
)
from hubbub.domain.messages import Message
from hubbub.domain.names import check_name
from hubbub.domain.permissions import Identity, Reader, may_read, refusal
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.topics import (
    Acknowledge,
    DescribeWebhook,
    ReplayWebhook,
    SubscribeTopic,
    SubscriptionOptions,
    WebhookChanged,
    dead_letter_channel,
    principal_of,
)
from hubbub.domain.webhooks import (
    WEBHOOK_OWNER,
    Mode,
    PendingVerification,
    Replayed,
    WantedWebhook,
    Webhook,
    WebhookStatus,
    check_key,
    check_secret,
    lease_seconds,
    webhook_id,
)
from hubbub.engine.hub import Hub
from hubbub.engine.outward.limits import MAX_WEBHOOKS
from hubbub.engine.topics.cursors import cursor_of
from hubbub.engine.webhooks.driven import key_of
from hubbub.engine.webhooks.ending import deny, end_webhook
from hubbub.engine.webhooks.replaying import dead_letters_key, is_dead_letter_of
from hubbub.engine.webhooks.web_topics import WebTopics
from hubbub.tasks import gather_some

_DENIED_AT_ONCE = 16


class Webhooks(WebTopics):
    """Manages webhooks for all callers. Methods that take an identity raise `NotPermitted` if the
    identity lacks the permission."""

    # -- subscriptions --------------------------------------------------------------------------

    async def subscribe(
        self,
        hub: Hub,
        identity: Identity,
        request: WantedWebhook,
        start: Literal["new", "first"] | int = "new",
    ) -> Webhook:
        """Subscribes the callback to new messages of the channel. Subscribing again renews the
        webhook and keeps its position. Raises `TopicNotFound`, `NotPermitted`, `QuotaExceeded`,
        `BadRequest`."""
        webhook = await self._prepare(hub, identity, request)
        await self.begin(webhook, start)
        return webhook

    async def begin(
        self,
        webhook: Webhook,
        start: Literal["new", "first"] | int,
        audit: Audit = UNSET,
    ) -> None:
        """Stores the webhook and starts its deliveries; an existing webhook keeps its position."""
        await self._store.audited(audit).create_webhook(webhook)
        try:
            await self._bus.ask(SubscribeTopic(key_of(webhook), None, start))
        except QuotaExceeded:  # it has no place in the channel, and will not get one
            await self._store.delete_webhook(webhook.hub, webhook.id)
            raise
        await self._tell(webhook)

    async def _prepare(
        self, hub: Hub, identity: Identity, request: WantedWebhook, mode: Mode = "subscribe"
    ) -> Webhook:
        """Builds the requested webhook after checking permissions, and makes its channel store
        messages."""
        channel = check_name(request.channel, "channel")
        await self.open_foreign(hub, channel)
        reader = await self.reader(hub, identity, channel)
        check_secret(request.secret)
        check_key(request.key)
        await self._check_address(hub, request.callback)
        if request.kind == "light":
            await self.find_topic(hub, channel)
        known = await self._find_own(hub, identity, request)
        webhook = self._webhook(hub, reader, request)
        if known is not None:
            webhook = msgspec.structs.replace(webhook, id=known.id)
        if mode == "unsubscribe":
            return webhook
        if known is None:
            await self._check_quota(hub)
        await self._maker.ensure(hub, channel)
        await hub.consent(identity, channel)
        await self._maker.ensure(hub, dead_letter_channel(channel, SubscriptionOptions()))
        if known is None:
            return webhook
        return msgspec.structs.replace(webhook, created_at=known.created_at)

    def _webhook(self, hub: Hub, reader: Reader, request: WantedWebhook) -> Webhook:
        now, owner = self._now(), principal_of(reader.identity)
        expires_at = None
        if request.kind == "websub" or request.lease_seconds is not None:
            expires_at = now + 1000 * self.lease(request.lease_seconds)
        return Webhook(
            hub=hub.name,
            channel=request.channel,
            id=_id_of(hub, request, owner),
            kind=request.kind,
            callback=request.callback,
            topic=request.topic or request.channel,
            secret=request.secret,
            algorithm=request.algorithm,
            key=request.key,
            created_at=now,
            expires_at=expires_at,
            owner=owner,
            hub_url=request.hub_url,
            acting=reader,
        )

    def lease(self, asked: str | float | None) -> int:
        """The granted lease in seconds. Raises `BadRequest`."""
        limits = self.limits
        return lease_seconds(asked, limits.default_lease_seconds, limits.max_lease_seconds)

    async def _find_own(
        self, hub: Hub, identity: Identity, request: WantedWebhook
    ) -> Webhook | None:
        """The caller's webhook for this channel and callback; also found by the older form of ids,
        which did not include the owner."""
        owner = principal_of(identity)
        for name in (owner, None):
            found = await self._store.read_webhook(hub.name, _id_of(hub, request, name))
            if found is not None and found.owner == owner:
                return found
        return None

    async def reader(self, hub: Hub, identity: Identity, channel: str) -> Reader:
        """The identity under which a webhook reads: subject to future rules and to the revocation
        of the token, but not to its expiry. Raises `NotPermitted`."""
        lasting = msgspec.structs.replace(identity, rpcs=(), extra={}, expires_at=None)
        reader = Reader(lasting, open_topic=await self._is_open(hub, channel))
        rules = hub.rules_for(channel)
        if not may_read(reader, channel, hub.configuration, rules):
            raise refusal(identity, "subscribe to", channel, rules)
        return reader

    async def _check_address(self, hub: Hub, callback: str) -> None:
        """Raises `BadRequest`, and `NotPermitted` if the hub may not send requests to the
        callback."""
        check_callback(callback)
        reach = hub.configuration.settings.callback_addresses
        await self._outgoing.check_address(hub.name, callback, reach, "callback")

    async def _check_quota(self, hub: Hub) -> None:
        quota = hub.configuration.settings.quotas.webhooks or MAX_WEBHOOKS
        if await self._store.count_webhooks(hub.name, peers=False) >= quota:
            raise QuotaExceeded(
                f"hub {hub.name!r} has {quota} webhooks, its quota; remove one that nobody needs"
            )

    async def request_verified(
        self, hub: Hub, identity: Identity, request: WantedWebhook, mode: Mode
    ) -> Webhook | None:
        """Stores a request that the callback must confirm, and verifies it in the background, also
        after a restart. An existing subscription stays active meanwhile. Returns None if there is
        nothing to unsubscribe from. Raises the errors of `subscribe`."""
        wanted = await self._prepare(hub, identity, request, mode)
        known = await self._store.read_webhook(hub.name, wanted.id)
        if known is None and mode == "unsubscribe":
            return None
        pending = PendingVerification(
            mode, self._now(), self.lease(request.lease_seconds), request.secret, request.algorithm
        )
        if known is None:
            known = msgspec.structs.replace(wanted, state="pending", expires_at=None)
        changed = msgspec.structs.replace(
            known, pending=pending, hub_url=wanted.hub_url, acting=wanted.acting
        )
        await self._store.save_webhook(changed)
        await self._tell(changed)
        return changed

    async def deny(self, hub: Hub, callback: str, topic: str, reason: str) -> None:
        """Tells a callback, in one attempt, that its subscription was refused."""
        await deny(self._outgoing, self.limits, hub.configuration, callback, topic, reason)

    async def unsubscribe(self, hub: Hub, identity: Identity, request: WantedWebhook) -> None:
        """Ends the caller's own webhook, even if the caller lost the permission to subscribe.
        Raises `NotSubscribed`."""
        found = await self._find_own(hub, identity, request)
        if found is None:
            raise NotSubscribed(
                f"nothing of yours goes from {request.channel!r} to {request.callback[:200]!r}"
            )
        await self.end(found)

    async def end(self, webhook: Webhook, audit: Audit = UNSET) -> bool:
        """Ends a webhook of any owner and cancels a request in progress. A WebSub callback did not
        ask for this: if the result is True, call `deny_ended`."""
        ended = await end_webhook(self._bus.ask, self._store, webhook, audit)
        await self._tell(webhook)
        return ended

    async def deny_ended(
        self, hub: HubConfiguration, webhooks: Sequence[Webhook], reason: str
    ) -> None:
        """Tells the WebSub callbacks among these webhooks, in one attempt each, that their
        subscriptions ended."""
        about = [(each.callback, each.topic) for each in webhooks if each.kind == "websub"]
        context = (self._outgoing, self.limits, hub)
        await gather_some(_DENIED_AT_ONCE, (deny(*context, *each, reason) for each in about))

    async def pause(self, webhook: Webhook, paused: bool, audit: AuditEntry) -> Webhook:
        """Pauses or resumes a webhook. A request in progress is cancelled, and repeated later."""
        changed = msgspec.structs.replace(webhook, state="paused" if paused else "active")
        await self._store.audited(audit).save_webhook(changed)
        await self._tell(changed)
        return changed

    async def dead_letters(
        self, webhook: Webhook, after: int, limit: int
    ) -> tuple[list[Message], int | None]:
        """Dead letters after the serial `after` that were neither replayed nor discarded, and the
        serial to continue from."""
        key = dead_letters_key(key_of(webhook))
        page = await self._store.read_after(key.hub, key.channel, after, limit)
        epoch = page.head.epoch if page.head is not None else ""
        saved = await self._store.read_cursors(key.hub, key.channel, WEBHOOK_OWNER)
        cursors = [cursor_of(each, epoch) for each in saved if each.name == key.name]
        found = [
            each
            for each in page.messages
            if is_dead_letter_of(each, key_of(webhook))
            and not any(cursor.is_done(each.serial) for cursor in cursors)
        ]
        return found, page.messages[-1].serial if page.more else None

    async def discard(self, webhook: Webhook, serial: int, audit: AuditEntry) -> None:
        """Discards a dead letter; its message stays in the channel of dead letters until retention
        deletes it."""
        key = key_of(webhook)
        await self._bus.ask(SubscribeTopic(dead_letters_key(key), None, "first"))
        await self._bus.ask(Acknowledge(dead_letters_key(key), (serial,), audit=audit))
        await self._bus.ask(Acknowledge(key, (serial,), replayed=True))

    async def _tell(self, webhook: Webhook) -> None:
        await self._bus.ask(WebhookChanged(webhook.hub, webhook.channel, webhook.id))

    async def find(self, hub: Hub, webhook: str) -> Webhook:
        """The webhook with this id. Raises `NotSubscribed`."""
        found = await self._store.read_webhook(hub.name, webhook)
        if found is None or found.kind == "peer":
            raise NotSubscribed(f"hub {hub.name!r} has no webhook {webhook[:64]!r}")
        return found

    async def list(self, hub: Hub, after: str = "", limit: int = 100) -> list[Webhook]:
        """Webhooks of all kinds after the id `after`, ordered by id."""
        return await self._store.read_webhooks(
            hub.name, after=(hub.name, after), limit=limit, peers=False
        )

    async def all(self, hub: str) -> Sequence[Webhook]:
        """All webhooks of a hub, also of one that is being deleted."""
        return await self._store.read_webhooks(hub)

    async def describe(self, hub: Hub, webhook: str) -> WebhookStatus:
        """The state of a webhook. Raises `NotSubscribed`."""
        return await self.status(await self.find(hub, webhook))

    async def status(self, webhook: Webhook) -> WebhookStatus:
        """The state of a webhook of any kind."""
        which = DescribeWebhook(webhook.hub, webhook.channel, webhook.id)
        try:
            status = await self._bus.ask(which)
        except NotSubscribed:
            return WebhookStatus()  # it is about to be driven, or to go
        assert isinstance(status, WebhookStatus)
        return status

    async def replay(self, hub: Hub, webhook: str) -> tuple[int, int]:
        """Sends the webhook's dead letters again; returns how many arrived and how many did not.
        Raises `NotSubscribed`."""
        delivered = failed = 0
        part = Replayed(more=True)
        while part.more:
            part = await self.replay_some(hub, webhook, part.after)
            delivered += part.delivered
            failed += part.failed
        return delivered, failed

    async def replay_some(
        self, hub: Hub, webhook: str, after: int = 0, only: int | None = None
    ) -> Replayed:
        """Sends the dead letters after `after` again, or only the one with the serial `only`, as
        many as fit into a short request. Raises `NotSubscribed`."""
        found = await self.find(hub, webhook)
        part = await self._bus.ask(ReplayWebhook(hub.name, found.channel, webhook, after, only))
        assert isinstance(part, Replayed)
        return part


def _id_of(hub: Hub, request: WantedWebhook, owner: str | None) -> str:
    return webhook_id(request.kind, hub.name, request.channel, request.callback, owner)
