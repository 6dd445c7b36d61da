"""Push tokens: which devices of a user may be reached when no session is open."""

from __future__ import annotations

import re

from hubbub.domain.errors import BadRequest, NotFound, QuotaExceeded
from hubbub.domain.names import user_id_problem
from hubbub.engine.administration.actors import Actor
from hubbub.engine.administration.audit import AuditLog
from hubbub.engine.node import Node
from hubbub.ports.storage.sessions import PushToken, SessionStore

MAX_TOKENS_PER_USER = 50
MAX_TOKEN_CHARS = 4096
_PLATFORM = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class PushTokens:
    """A user handles their own; services and administrators those of anybody in the hub."""

    def __init__(self, node: Node, store: SessionStore, audit: AuditLog) -> None:
        self._node = node
        self._store = store
        self._audit = audit

    async def all(self, hub: str, user_id: str) -> list[PushToken]:
        self._node.directory.get(hub)
        return await self._store.read_push_tokens(hub, _checked(user_id))

    async def register(
        self, actor: Actor, hub: str, user_id: str, platform: str, token: str
    ) -> None:
        """Doing it again changes nothing; a device that another user had moves to this one.
        Raises `QuotaExceeded`."""
        if not _PLATFORM.fullmatch(platform):
            raise BadRequest("`platform` is not a name such as 'fcm', 'apns' or 'webpush'")
        if not 0 < len(token) <= MAX_TOKEN_CHARS or not token.isprintable():
            raise BadRequest(f"`token` is not 1 to {MAX_TOKEN_CHARS} printable characters")
        entry = PushToken(hub, _checked(user_id), platform, token)
        known = await self.all(hub, user_id)
        if entry in known:
            return
        if len(known) >= MAX_TOKENS_PER_USER:
            raise QuotaExceeded(f"a user may register {MAX_TOKENS_PER_USER} push tokens")
        await self._store.save_push_token(entry)
        await self._note(actor, "push_token.put", entry)

    async def delete(self, actor: Actor, hub: str, user_id: str, platform: str, token: str) -> None:
        """Raises `NotFound` where this user has no such token."""
        entry = PushToken(hub, _checked(user_id), platform, token)
        if entry not in await self.all(hub, user_id):
            raise NotFound(f"user {user_id!r} has no such push token")
        await self._store.delete_push_token(hub, platform, token)
        await self._note(actor, "push_token.delete", entry)

    async def _note(self, actor: Actor, action: str, entry: PushToken) -> None:
        """What users do with their own devices is not administration."""
        if actor.identity.user_id != entry.user_id or actor.is_admin:
            about = {"platform": entry.platform}
            await self._audit.note(actor, action, entry.hub, entry.user_id, after=about)


def _checked(user_id: str) -> str:
    problem = user_id_problem(user_id)
    if problem is not None:
        raise BadRequest(f"the user id {problem}")
    return user_id
