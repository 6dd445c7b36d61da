"""What a hub keeps about one user, and how it goes."""

from __future__ import annotations

import hashlib

import msgspec

from hubbub.domain.errors import BadRequest, InvalidName
from hubbub.domain.names import check_name, user_id_problem, user_notifications
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node
from hubbub.ports.storage import Store


class Erased(msgspec.Struct, frozen=True):
    """How many of each went; `named` notifications of others, that the user wrote or read, no
    longer say so."""

    notifications: int
    named: int
    push_tokens: int
    push_subscriptions: int


class UserAdministration:
    def __init__(self, node: Node, store: Store, audit: AuditLog) -> None:
        self._node = node
        self._store = store
        self._audit = audit

    async def erase(self, actor: Actor, hub: str, user_id: str) -> Erased:
        """Delete the user's notification channel, push tokens and push subscriptions, and take the
        user's name off other notifications. Doing it again finds nothing. The audit log keeps a
        hash of the id, by which only who knows the id finds the entry. Raises `HubNotFound`,
        `BadRequest`."""
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
        erased = Erased(notifications, named, len(tokens), followings)
        name = f"sha256:{hashlib.sha256(user_id.encode()).hexdigest()}"
        about = msgspec.structs.asdict(erased)
        await self._audit.note(actor, "user.erase", hub, name, before=about)
        return erased


def _channel(user_id: str) -> str:
    """Users with a very long id have none; a name stands for it in which nothing can be."""
    name = user_notifications(user_id)
    try:
        return check_name(name, "channel")
    except InvalidName:
        return user_notifications("")
