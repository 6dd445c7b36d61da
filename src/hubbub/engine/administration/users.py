"""What a hub keeps about one user, and how it goes."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from hubbub.domain.errors import BadRequest, InvalidName, NotFound, NotSubscribed, TopicNotFound
from hubbub.domain.names import check_name, user_id_problem, user_notifications
from hubbub.domain.permissions import Identity
from hubbub.domain.topics import (
    ErasedMessages,
    EraseMessages,
    SubscriptionKey,
    UnsubscribeTopic,
    principal_of,
)
from hubbub.domain.webhooks import Webhook
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.ports.storage import Store
from hubbub.ports.storage.commands import UserInRecord

Revoke = Callable[[Actor, str, Literal["user"], str], Awaitable[object]]
"""Ends the user's tokens."""


class Erased(msgspec.Struct, frozen=True):
    """How many of each went; `named` notifications of others, that the user wrote or read, no
    longer say so."""

    notifications: int
    named: int
    push_tokens: int
    push_subscriptions: int
    subscriptions: int
    """Those that serve all sessions of the user (hSubscribe)."""
    participations: int
    """In channels with an owner."""
    owned_channels: int
    """They belong to the hub from now on."""
    durable_subscriptions: int = 0
    webhooks: int = 0
    peer_subscriptions: int = 0
    peers: int = 0
    """The peer of the same name, with its addresses: 1 or 0."""
    sessions: int = 0
    """That ended at the node which was asked; those of others end as well, and with them the user's
    presence."""
    messages: int = 0
    """Stored messages that the user published, and messages that the user sent or got as a peer:
    they keep their ids, serials and times, and nothing else."""
    left: int = 0
    """What a search afterwards still found of all these: 0, unless the user was active
    meanwhile."""


class UserAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._store = store
        self._audit = audit

    async def erase(
        self, actor: Actor, hub: str, user_id: str, revoke: Revoke | None = None
    ) -> Erased:
        """Delete the user's notification channel, push tokens, subscriptions of every kind,
        webhooks and the peer of the same name with what waits for it, empty the messages that the
        user published, sent or got, and take the user's name off other notifications and
        off channels with an owner. With `revoke`, first the user's tokens end, and with them all
        sessions and presence. Doing it again finds nothing. The audit log keeps a hash of the id,
        by which only who knows the id finds the entry. Raises `HubNotFound`, `BadRequest`."""
        problem = user_id_problem(user_id)
        if problem is not None:
            raise BadRequest(f"the user id {problem}")
        known = self._node.hub(hub)
        sessions = 0
        # Before tokens are revoked, which ends webhooks by itself.
        webhooks = await self._webhooks(hub, principal_of(Identity(user_id=user_id)))
        if revoke is not None:
            sessions = await self._sessions(hub, user_id)
            await revoke(actor, hub, "user", user_id)
        durable = await self._end_durable(known, user_id)
        peers = await self._delete_peer(known, user_id)
        notifications = await self._node.notifications.forget(known, _channel(user_id))
        named = await self._store.anonymise_notifications(hub, user_id)
        tokens = await self._store.read_push_tokens(hub, [user_id])
        for token in tokens:
            await self._store.delete_push_token(hub, token.platform, token.token)
        followings = await self._store.delete_followings_of(hub, user_id)
        subscriptions = await self._unsubscribe(hub, user_id)
        roles = await self._leave_channels(known, user_id)
        messages = await self._erase_messages(hub, user_id)
        await self._node.bus.announce_erasure(hub, user_id)
        erased = Erased(
            notifications,
            named,
            len(tokens),
            followings,
            subscriptions,
            participations=roles.count("participant"),
            owned_channels=roles.count("owner"),
            durable_subscriptions=durable,
            webhooks=sum(each.kind != "peer" for each in webhooks),
            peer_subscriptions=sum(each.kind == "peer" for each in webhooks),
            peers=peers,
            sessions=sessions,
            messages=messages,
            left=await self._search(hub, user_id),
        )
        name = f"sha256:{hashlib.sha256(user_id.encode()).hexdigest()}"
        about = msgspec.structs.asdict(erased)
        await self._audit.note(actor, "user.erase", hub, name, before=about)
        return erased

    async def _delete_peer(self, hub: Hub, user_id: str) -> int:
        try:
            await self._node.communication.delete_peer(hub, user_id)
        except NotFound:
            return 0
        finally:
            await self._node.communication.forget(hub, user_id)
        return 1

    async def _end_durable(self, hub: Hub, user_id: str) -> int:
        """End durable subscriptions, webhooks and peer subscriptions; answers how many of the
        first there were."""
        owner = principal_of(Identity(user_id=user_id))
        found = await self._store.read_cursors(hub.name, owner=owner)
        for saved in found:
            key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
            with contextlib.suppress(NotSubscribed, TopicNotFound):
                await self._node.bus.topic(UnsubscribeTopic(key))
        service = self._node.webhooks
        webhooks = [w for w in await self._webhooks(hub.name, owner) if await service.end(w)]
        reason = "an administrator erased the subscriber"
        ended = service.deny_ended(hub.configuration, webhooks, reason)
        self._node.do_later(ended)
        return len(found)

    async def _webhooks(self, hub: str, owner: str) -> list[Webhook]:
        return await self._store.read_webhooks(hub, owner=owner)

    async def _sessions(self, hub: str, user_id: str) -> int:
        return len(self._node.hub(hub).sessions_of(user_id))

    async def _search(self, hub: str, user_id: str) -> int:
        """How much of what should be gone is still there."""
        owner = principal_of(Identity(user_id=user_id))
        return (
            len(await self._store.read_cursors(hub, owner=owner))
            + len(await self._webhooks(hub, owner))
            + len(await self._store.read_peers(hub, [user_id]))
            + len(await self._store.read_push_tokens(hub, [user_id]))
            + len(await self._store.read_followings_of(hub, [user_id]))
            + len(await self._store.read_user_subscriptions(hub, user_id))
            + sum((await self._store.find_published(hub, user_id)).values())
        )

    async def _erase_messages(self, hub: str, user_id: str) -> int:
        """By the owners of the channels, which have messages in memory, too."""
        erased = 0
        for channel in await self._store.find_published(hub, user_id):
            part = ErasedMessages(0, 0, more=True)
            while part.more:
                request = EraseMessages(hub, channel, user_id, part.after)
                answer = await self._node.bus.topic(request)
                assert isinstance(answer, ErasedMessages)
                part = answer
                erased += part.count
        return erased

    async def _unsubscribe(self, hub: str, user_id: str) -> int:
        channels = await self._store.read_user_subscriptions(hub, user_id)
        deleted = await self._store.delete_user_subscriptions_of(hub, user_id)
        for channel in channels:
            await self._node.bus.announce_user(hub, user_id, channel, False)
        return deleted

    async def _leave_channels(self, hub: Hub, user_id: str) -> list[UserInRecord]:
        """What the user was in each of them. Every node hears of each change."""
        found: list[UserInRecord] = []
        bindings = hub.configuration.bindings.items()
        named = [name for name, each in bindings if each.owner == user_id or each.admits(user_id)]
        for channel in named:
            found += await self._store.take_user_off_record(hub.name, channel, user_id)
            await self._node.directory.binding_changed(hub.name, channel)
        return found


def _channel(user_id: str) -> str:
    """Users with a very long id have none; a name stands for it in which nothing can be."""
    name = user_notifications(user_id)
    try:
        return check_name(name, "channel")
    except InvalidName:
        return user_notifications("")
