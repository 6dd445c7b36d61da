"""The data that a hub keeps about one user, and its erasure."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec

from hubbub.domain.commands.routed import UserFollows
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
from hubbub.engine.communication.service import Communication
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.engine.notifications.service import NotificationService
from hubbub.engine.webhooks.service import Webhooks
from hubbub.ports import randomness
from hubbub.ports.bus import UserErased
from hubbub.ports.storage import Store
from hubbub.ports.storage.commands import UserInRecord

Revoke = Callable[[Actor, str, Literal["user"], str], Awaitable[object]]
"""Revokes the user's tokens."""


class ErasureResult(msgspec.Struct, frozen=True):
    """Numbers of deleted items by kind; `named` counts notifications of other users from which the
    user's id was removed as author or reader."""

    notifications: int
    named: int
    push_tokens: int
    push_subscriptions: int
    subscriptions: int
    """Subscriptions that apply to all sessions of the user (hSubscribe)."""
    participations: int
    """Channels with an owner from whose participants the user was removed."""
    owned_channels: int
    """Channels whose ownership passed to the hub."""
    durable_subscriptions: int = 0
    webhooks: int = 0
    peer_subscriptions: int = 0
    peers: int = 0
    """The peer with the user's name and its addresses: 1 or 0."""
    sessions: int = 0
    """Sessions ended on the node that handled the request; those on other nodes end as well, and
    with them the user's presence."""
    messages: int = 0
    """Stored messages that the user published, and messages that the user sent or received as a
    peer: only their ids, serials and times remain."""
    retained: int = 0
    """Retained messages that the user published, stored or not."""
    document_changes: int = 0
    """Changes of documents that no longer name the user as their author."""
    producers: int = 0
    """Producers of puts, which were renamed to a random alias."""
    left: int = 0
    """Items that a final search still found: 0, unless the user was active meanwhile."""


class UserAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._communication = node.feature(Communication)
        self._notifications = node.feature(NotificationService)
        self._webhook_service = node.feature(Webhooks)
        self._store = store
        self._audit = audit

    async def erase(
        self, actor: Actor, hub: str, user_id: str, revoke: Revoke | None = None
    ) -> ErasureResult:
        """Delete the user's notification channel, push tokens, subscriptions of every kind,
        webhooks and the peer of the same name with what waits for it, empty the messages that the
        user published, sent or got, and take the user's name off other notifications and
        off channels with an owner. With `revoke`, first the user's tokens end, and with them all
        sessions and presence. Doing it again finds nothing. The audit log says first that the
        erasure begins, then how it ended; it keeps a hash of the id, by which only who knows the id
        finds the entries. Raises `HubNotFound`, `BadRequest`."""
        problem = user_id_problem(user_id)
        if problem is not None:
            raise BadRequest(f"the user id {problem}")
        known = self._node.hub(hub)
        name = f"sha256:{hashlib.sha256(user_id.encode()).hexdigest()}"
        await self._audit.note(actor, "user.erase.begin", hub, name)
        sessions = 0
        # Before tokens are revoked, which ends webhooks by itself.
        owner = principal_of(Identity(user_id=user_id))
        webhooks = await self._webhooks(hub, owner)
        if revoke is not None:
            sessions = await self._sessions(hub, user_id)
            await revoke(actor, hub, "user", user_id)
        durable = await self._end_durable(known, user_id)
        peers = await self._delete_peer(known, user_id)
        notifications = await self._notifications.forget(known, _channel(user_id))
        named = await self._store.anonymise_notifications(hub, user_id)
        tokens = await self._store.read_push_tokens(hub, [user_id])
        for token in tokens:
            await self._store.delete_push_token(hub, token.platform, token.token)
        followings = await self._store.delete_followings_of(hub, user_id)
        subscriptions = await self._unsubscribe(hub, user_id)
        roles = await self._leave_channels(known, user_id)
        messages, retained = await self._erase_messages(hub, user_id)
        changes = await self._store.anonymise_changes(hub, user_id)
        alias = f"erased:{randomness.token_hex(8)}"
        producers = await self._store.rename_producers(hub, owner, alias)
        await self._node.bus.broadcast(UserErased(hub, user_id))
        erased = ErasureResult(
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
            retained=retained,
            document_changes=changes,
            producers=producers,
            left=await self._search(hub, user_id),
        )
        about = msgspec.structs.asdict(erased)
        await self._audit.note(actor, "user.erase", hub, name, before=about)
        return erased

    async def _delete_peer(self, hub: Hub, user_id: str) -> int:
        try:
            await self._communication.delete_peer(hub, user_id)
        except NotFound:
            return 0
        finally:
            await self._communication.forget(hub, user_id)
        return 1

    async def _end_durable(self, hub: Hub, user_id: str) -> int:
        """Ends durable subscriptions, webhooks and peer subscriptions; returns the number of
        durable subscriptions."""
        owner = principal_of(Identity(user_id=user_id))
        found = await self._store.read_cursors(hub.name, owner=owner)
        for saved in found:
            key = SubscriptionKey(saved.hub, saved.channel, saved.owner, saved.name)
            with contextlib.suppress(NotSubscribed, TopicNotFound):
                await self._node.bus.ask(UnsubscribeTopic(key))
        service = self._webhook_service
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
        """The number of items that remain."""
        owner = principal_of(Identity(user_id=user_id))
        return (
            len(await self._store.read_cursors(hub, owner=owner))
            + len(await self._webhooks(hub, owner))
            + len(await self._store.read_peers(hub, [user_id]))
            + len(await self._store.read_push_tokens(hub, [user_id]))
            + len(await self._store.read_followings_of(hub, [user_id]))
            + len(await self._store.read_user_subscriptions(hub, user_id))
            + sum((await self._store.find_published(hub, user_id)).values())
            + len(await self._store.find_retained(hub, user_id))
            + await self._store.count_named(hub, user_id, owner)
        )

    async def _erase_messages(self, hub: str, user_id: str) -> tuple[int, int]:
        """Erases through the owners of the channels, which also have messages in memory. Returns
        the numbers of stored and of retained messages."""
        erased = retained = 0
        published = await self._store.find_published(hub, user_id)
        for channel in dict.fromkeys([*published, *await self._store.find_retained(hub, user_id)]):
            part = ErasedMessages(0, 0, more=True)
            while part.more:
                request = EraseMessages(hub, channel, user_id, part.after)
                answer = await self._node.bus.ask(request)
                assert isinstance(answer, ErasedMessages)
                part = answer
                erased += part.count
                retained += part.retained
        return erased, retained

    async def _unsubscribe(self, hub: str, user_id: str) -> int:
        channels = await self._store.read_user_subscriptions(hub, user_id)
        deleted = await self._store.delete_user_subscriptions_of(hub, user_id)
        for channel in channels:
            await self._node.bus.broadcast(UserFollows(hub, user_id, channel, False))
        return deleted

    async def _leave_channels(self, hub: Hub, user_id: str) -> list[UserInRecord]:
        """Removes the user from channels with an owner, and informs all nodes of each change."""
        found: list[UserInRecord] = []
        bindings = hub.configuration.bindings.items()
        named = [name for name, each in bindings if each.owner == user_id or each.admits(user_id)]
        for channel in named:
            found += await self._store.take_user_off_record(hub.name, channel, user_id)
            await self._node.directory.binding_changed(hub.name, channel)
        return found


def _channel(user_id: str) -> str:
    """The user's notification channel. A user id that is too long for a channel name has none; a
    name that cannot exist stands for it."""
    name = user_notifications(user_id)
    try:
        return check_name(name, "channel")
    except InvalidName:
        return user_notifications("")
