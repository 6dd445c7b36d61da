"""Peer subscriptions: peers follow stored channels through any of their adapters.

A peer subscription is a webhook of the kind `peer`, so that webhooks' cursors, driver, access
checks and moves between nodes apply to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET

from hubbub.domain.audit import Audit, AuditEntry
from hubbub.domain.communication.peers import check_identifier
from hubbub.domain.errors import (
    BadRequest,
    NotFound,
    NotPermitted,
    QuotaExceeded,
    WrongChannelKind,
)
from hubbub.domain.names import COMMUNICATION_LOG, ChannelKind, check_name, kind_of
from hubbub.domain.permissions import Grant, Identity, Reader, may_read
from hubbub.domain.topics import principal_of
from hubbub.domain.webhooks import Webhook, WebhookStatus, webhook_id
from hubbub.engine.hub import Hub
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports.clock import Clock
from hubbub.ports.storage.webhooks import WebhookStore
from hubbub.tasks import gather_some

MOST_OF_HUB = 10_000
"""Maximum number per hub, unless the hub's quota says otherwise."""
MOST_OF_PEER = 100
_ASKED_AT_ONCE = 50
Start = Literal["new", "first"]


def own_peer(identity: Identity) -> str:
    """The peer with the caller's user name. Raises `BadRequest`, `InvalidName`."""
    if identity.user_id is None:
        raise BadRequest("the token names no user, who could be a peer")
    return check_identifier(identity.user_id, "peer")


class PeerSubscriptions:
    """Manages the subscriptions of all peers. Administrators of a hub may change any of them, users
    those of the peer with their own name."""

    def __init__(
        self, store: WebhookStore, webhooks: Webhooks, maker: TopicMaker, clock: Clock
    ) -> None:
        self._store = store
        self._webhooks = webhooks
        self._maker = maker
        self._clock = clock

    async def follow(
        self, hub: Hub, peer: str, channel: str, start: Start, audit: AuditEntry
    ) -> Webhook:
        """Subscribes the peer to a channel's new messages; with `first` also to those still stored.
        An existing subscription keeps its position. The peer reads as the user of the same name; if
        the rules do not permit that user, the caller grants the permission. Raises `InvalidName`,
        `NotPermitted`, `WrongChannelKind`, `TopicNotFound`, `QuotaExceeded`."""
        check_identifier(peer, "peer")
        _check_channel(channel)
        reader = _reader(hub, peer, channel, int(self._clock.now() * 1000))
        return await self._begin(hub, peer, channel, reader, start, audit)

    async def follow_as(
        self, hub: Hub, identity: Identity, channel: str, start: Start = "new"
    ) -> Webhook:
        """Subscribes the caller's own peer, if the caller may subscribe to the channel. The
        subscription ends when the rules, the token's grants or the token's revocation end that
        permission. Raises the errors of `follow`, and `BadRequest` for a caller without a name."""
        peer = own_peer(identity)
        _check_channel(channel)
        reader = await self._webhooks.reader(hub, identity, channel)
        return await self._begin(hub, peer, channel, reader, start)

    async def _begin(
        self,
        hub: Hub,
        peer: str,
        channel: str,
        reader: Reader,
        start: Start,
        audit: Audit = UNSET,
    ) -> Webhook:
        now = int(self._clock.now() * 1000)
        owner = principal_of(reader.identity)
        name = webhook_id("peer", hub.name, channel, peer, owner)
        known = await self._store.read_webhook(hub.name, name)
        if known is None:
            await self._check_quotas(hub, peer, owner)
        await self._maker.ensure(hub, channel)
        await hub.consent(reader.identity, channel)
        wanted = Webhook(
            hub=hub.name,
            channel=channel,
            id=name,
            kind="peer",
            callback=peer,
            topic=channel,
            created_at=known.created_at if known is not None else now,
            owner=owner,
            acting=reader,
        )
        await self._webhooks.begin(wanted, start, audit)
        return wanted

    async def _check_quotas(self, hub: Hub, peer: str, owner: str) -> None:
        quota = hub.configuration.settings.quotas.peer_subscriptions or MOST_OF_HUB
        if await self._store.count_webhooks(hub.name, peers=True) >= quota:
            raise QuotaExceeded(
                f"hub {hub.name!r} has {quota} peer subscriptions, its quota "
                "(peerSubscriptions); end one that nobody needs"
            )
        if await self._store.count_webhooks(hub.name, owner=owner, peers=True) >= MOST_OF_PEER:
            raise QuotaExceeded(
                f"the peer {peer!r} follows {MOST_OF_PEER} channels, the most; end one first"
            )

    async def find(self, hub: Hub, peer: str, channel: str) -> Webhook:
        """Raises `NotFound`."""
        owner = principal_of(Identity(user_id=check_identifier(peer, "peer")))
        name = webhook_id("peer", hub.name, channel, peer, owner)
        found = await self._store.read_webhook(hub.name, name)
        if found is None:
            raise NotFound(f"the peer {peer[:64]!r} does not follow {channel[:64]!r}")
        return found

    async def unfollow(self, hub: Hub, peer: str, channel: str, audit: Audit = UNSET) -> None:
        """Ends a subscription; its queued deliveries are cancelled. Raises `NotFound`."""
        await self._webhooks.end(await self.find(hub, peer, channel), audit)

    async def of_peer(self, hub: Hub, peer: str) -> list[Webhook]:
        """The peer's subscriptions, by channel."""
        owner = principal_of(Identity(user_id=check_identifier(peer, "peer")))
        found = await self._store.read_webhooks(hub.name, owner=owner, peers=True)
        return sorted(found, key=lambda each: each.channel)

    async def end_all(self, hub: Hub, peer: str, audit: AuditEntry) -> int:
        """Ends all subscriptions of a deleted peer, and returns their number. The
        first end also stores the audit entry."""
        found = await self.of_peer(hub, peer)
        for each in found:
            await self._webhooks.end(each, audit if each is found[0] else UNSET)
        return len(found)

    async def with_status(self, found: Sequence[Webhook]) -> list[tuple[Webhook, WebhookStatus]]:
        statuses = await gather_some(_ASKED_AT_ONCE, map(self._webhooks.status, found))
        return list(zip(found, statuses, strict=True))


def _check_channel(channel: str) -> None:
    """Raises `InvalidName`, `NotPermitted`, `WrongChannelKind`."""
    check_name(channel, "channel")
    if channel == COMMUNICATION_LOG:
        raise NotPermitted(f"nobody follows {channel!r}: it holds what peers are sent")
    if kind_of(channel) is not ChannelKind.DEFAULT:
        raise WrongChannelKind(f"{channel!r} has no messages that a peer could be sent")


def _reader(hub: Hub, peer: str, channel: str, now: int) -> Reader:
    """The identity under which the peer reads the channel: the user, if the rules permit it, so
    that access ends with the rules; otherwise a grant for this channel. Revoking the user's tokens
    ends both."""
    reader = Reader(Identity(user_id=peer, issued_at=now))
    if may_read(reader, channel, hub.configuration, hub.rules_for(channel)):
        return reader
    granted = msgspec.structs.replace(reader.identity, grants=(Grant(channel, subscribe=True),))
    reader = Reader(granted)
    if not may_read(reader, channel, hub.configuration, hub.rules_for(channel)):
        raise NotPermitted(
            f"the peer {peer!r} may not read {channel!r}: only its participants may, and a private "
            "channel is its user's own"
        )
    return reader
