"""Sessions that may be restored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class SessionSnapshot(msgspec.Struct, frozen=True):
    """A session that may be restored by whoever holds the key with this hash."""

    key_hash: bytes
    hub: str
    session_id: str
    state: bytes
    expires_at: int
    """Milliseconds since 1970."""
    holder: str = ""
    """The process that the session is connected to: the snapshot lasts at least as long as the
    sessions of that process are held (`hold_sessions`). Empty: the connection is gone."""


class SessionStore(Protocol):
    """Snapshots of sessions, and the removal of what has expired."""

    async def save_sessions(self, snapshots: Sequence[SessionSnapshot]) -> None:
        """Create or replace, by key hash."""

    async def read_session(self, key_hash: bytes, now: int) -> SessionSnapshot | None:
        """The snapshot, if it has not expired by `now` (ms)."""

    async def hold_sessions(self, holder: str, until: int) -> None:
        """The snapshots of this holder do not expire before `until` (ms)."""

    async def delete_sessions(self, key_hashes: Sequence[bytes]) -> None: ...

    async def delete_expired(self, now: int) -> int:
        """Drop retained messages, sessions, revocations and push tokens that have expired. Answers
        how many went."""
