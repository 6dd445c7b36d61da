"""Restorable sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class SessionSnapshot(msgspec.Struct, frozen=True):
    """A session that can be restored with the key that has this hash."""

    key_hash: bytes
    hub: str
    session_id: str
    state: bytes
    expires_at: int
    """Milliseconds since 1970."""
    holder: str = ""
    """The process to which the session is connected: the snapshot lives at least as long as
    `hold_sessions` extends that process's sessions. Empty: disconnected."""


class SessionStore(Protocol):
    """Snapshots of sessions, and the deletion of expired rows."""

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        """Creates or replaces by key hash."""

    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        """The snapshot, unless it is expired at `now` (ms)."""

    async def count_sessions(self, hub: str, start: str) -> int:
        """The hub's snapshots of sessions whose id begins with this ASCII text, including expired
        ones that are not deleted yet."""

    async def delete_sessions_named(self, hub: str, session_id: str) -> None:
        """Deletes all snapshots with this session id."""

    async def hold_sessions(self, holder: str, until: int) -> None:
        """Extends the snapshots of this holder to at least `until` (ms)."""

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None: ...

    async def delete_expired(self, now: int) -> int:
        """Deletes expired retained messages, sessions, revocations and push tokens. Returns how
        many."""
