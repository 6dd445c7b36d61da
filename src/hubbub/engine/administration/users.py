"""What a hub keeps about one user, and how it goes."""

from __future__ import annotations

import hashlib

import msgspec

from hubbub.domain.errors import BadRequest, InvalidName
from hubbub.domain.names import check_name, user_id_problem, user_notifications
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.hub import Hub
from hubbub.engine.node import Node
from hubbub.ports.storage import Store
from hubbub.ports.storage.commands import UserInRecord


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


class UserAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._store = store
        self._audit = audit

    async def erase(self, actor: Actor, hub: str, user_id: str) -> Erased:
        """Delete the user's notification channel, push tokens and subscriptions, and take the
        user's name off other notifications and off channels with an owner. Doing it again finds
        nothing. The audit log keeps a hash of the id, by which only who knows the id finds the
        entry. Raises `HubNotFound`, `BadRequest`."""
        problem = user_id_problem(user_id)
        if problem is not None:
            raise BadRequest(f"the user id {problem}")
        known = self._node.hub(hub)
        notifications = await self._node.notifications.forget(known, _channel(user_id))
        named = await self._store.anonymise_notifications(hub, user_id)
        tokens = await self._store.read_push_tokens(hub, [user_id])
        for token in tokens:
            await self._store.delete_push_token(hub, token.platform, token.token)
        followings = await self._store.delete_followings_of(hub, user_id)
        subscriptions = await self._unsubscribe(hub, user_id)
        roles = await self._leave_channels(known, user_id)
        erased = Erased(
            notifications,
            named,
            len(tokens),
            followings,
            subscriptions,
            participations=roles.count("participant"),
            owned_channels=roles.count("owner"),
        )
        name = f"sha256:{hashlib.sha256(user_id.encode()).hexdigest()}"
        about = msgspec.structs.asdict(erased)
        await self._audit.note(actor, "user.erase", hub, name, before=about)
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
