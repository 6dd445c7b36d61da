"""Restore keys: snapshots of sessions in memory and in the store, by the hash of their key."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Position
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.storage.sessions import SessionSnapshot, SessionStore

_LONGEST_HOLD_INTERVAL_SECONDS = 5.0


class RestorableState(msgspec.Struct, frozen=True, array_like=True):
    """The content of a snapshot, besides its key and expiry."""

    session_id: str
    identity: Identity
    positions: tuple[Position, ...]
    rival: bytes = b""
    """The hash of the other key that would restore the same session, from a restore whose response
    may have been lost. Using one of the keys invalidates the other."""
    filters: tuple[FilterDefinition, ...] = ()
    patterns: tuple[str, ...] = ()
    matched: tuple[Position, ...] = ()
    """Channels that the session followed only by patterns."""
    saved_at: int = 0
    """In milliseconds since 1970: channels that matched later are recovered from this time on."""
    presence: dict[str, dict[str, Any]] = {}
    """The client's presence data, by channel."""
    readers: dict[str, Identity] = {}
    """The identities of channel tokens, by channel."""
    rid: int | None = None
    """The number of events sent to the client, if its protocol counts them; unknown after a node
    crashed."""


class RestoreKeys:
    """Keys and snapshots of a node's sessions."""

    def __init__(self, store: SessionStore, clock: Clock, limits: EngineLimits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._live: dict[bytes, SessionState] = {}
        self._parked: dict[bytes, SessionSnapshot] = {}
        """Snapshots of closed sessions that are not on disk yet."""
        self._changed: set[SessionState] = set()
        self._spent: set[bytes] = set()
        self._holder = randomness.token_hex(8)
        """This process, as the holder of its sessions' snapshots."""
        self._held_until = 0.0

    def issue(self, session: SessionState) -> str:
        """Issues a new key for the session; the previous one becomes invalid."""
        key = randomness.token_urlsafe(32)
        self._forget(session.restore_hash)
        session.restore_hash = hash_of(key)
        self._live[session.restore_hash] = session
        self._changed.add(session)
        return key

    def touched(self, session: SessionState) -> None:
        """Marks the session's snapshot as out of date."""
        if session.restore_hash is not None:
            self._changed.add(session)

    def closed(self, session: SessionState, keep_state: bool) -> None:
        """The connection was lost. Call it while the subscriptions are still known."""
        self._changed.discard(session)
        key_hash = session.restore_hash
        if key_hash is None or self._live.pop(key_hash, None) is not session:
            return
        if keep_state:
            self._parked[key_hash] = self._snapshot(session, key_hash)
        else:
            self._forget(key_hash)

    def spend(self, session: SessionState) -> None:
        """The first frame after a restore arrived: the old key becomes invalid."""
        self._forget(session.spent_hash)
        session.spent_hash = None

    async def flush(self) -> None:
        """Stores changes. Called a few times a second, and before the node stops."""
        changed, self._changed = self._changed, set()
        spent = sorted(self._spent)
        parked = dict(self._parked)
        snapshots = [
            self._snapshot(session, session.restore_hash, self._holder)
            for session in changed
            if session.restore_hash is not None and not session.closed
        ]
        try:
            if self._live:
                await self._hold()
            if snapshots or parked:
                await self._store.save_sessions([*snapshots, *parked.values()])
            if spent:
                await self._store.delete_sessions(spent)
        except HubbubError:
            self._changed |= changed
            raise
        self._spent.difference_update(spent)
        for key_hash, snapshot in parked.items():
            if self._parked.get(key_hash) is snapshot:
                del self._parked[key_hash]

    async def _hold(self) -> None:
        """Extends the keys of connected sessions. One row represents all of them, so that their
        keys expire `restore_seconds` after this process was killed, or up to an interval earlier,
        never later."""
        seconds = self._limits.restore_seconds
        until = self._clock.now() + seconds
        if abs(until - self._held_until) >= min(seconds / 20, _LONGEST_HOLD_INTERVAL_SECONDS):
            await self._store.hold_sessions(self._holder, int(until * 1000))
            self._held_until = until

    async def find(self, key_hash: bytes, hub: str) -> RestorableState | None:
        """The state of the session that a key of this hub restores."""
        found = await self._look_up(key_hash)
        if found is None or found.hub != hub:
            return None
        return msgspec.msgpack.decode(found.state, type=RestorableState)

    async def _look_up(self, key_hash: bytes) -> SessionSnapshot | None:
        """Searches connected sessions, recently closed ones, and the store."""
        live = self._live.get(key_hash)
        if live is not None:
            return self._snapshot(live, key_hash)
        if key_hash in self._spent:
            return None
        now = int(self._clock.now() * 1000)
        parked = self._parked.get(key_hash)
        if parked is not None:
            return parked if parked.expires_at > now else None
        return await self._store.read_session(key_hash, now)

    def used(self, key_hash: bytes, state: RestorableState, hub: str) -> None:
        """The key restores its session now. It stays valid until a frame shows that the client
        received the new key; another key of the same session becomes invalid."""
        self._live.pop(key_hash, None)
        if state.rival:
            self._forget(state.rival)
        self._park(key_hash, state, hub)

    def end(self, session: SessionState) -> None:
        """The session was restored on another connection: a key that it still holds would create a
        second copy."""
        key_hash = session.restore_hash
        if key_hash is not None and self._live.get(key_hash) is session:
            self._forget(key_hash)

    def issue_rival(self, session: SessionState, state: RestorableState, key_hash: bytes) -> str:
        """Issues a new key for a restored session while the old one is still valid."""
        key = self.issue(session)
        session.spent_hash = key_hash
        rival = msgspec.structs.replace(state, rival=session.restore_hash or b"")
        self._park(key_hash, rival, session.hub.name)
        return key

    def _park(self, key_hash: bytes, state: RestorableState, hub: str) -> None:
        seconds = self._limits.restore_seconds
        self._parked[key_hash] = SessionSnapshot(
            key_hash=key_hash,
            hub=hub,
            session_id=state.session_id,
            state=msgspec.msgpack.encode(state),
            expires_at=int((self._clock.now() + seconds) * 1000),
        )

    def _forget(self, key_hash: bytes | None) -> None:
        if key_hash is not None:
            self._live.pop(key_hash, None)
            self._parked.pop(key_hash, None)
            self._spent.add(key_hash)

    def _snapshot(
        self, session: SessionState, key_hash: bytes, holder: str = ""
    ) -> SessionSnapshot:
        positions: list[Position] = []
        matched: list[Position] = []
        for channel, feed in (session.feeds or {}).items():
            by_pattern = session.matched is not None and channel in session.matched
            (matched if by_pattern else positions).append(_position(channel, feed))
        state = RestorableState(
            session.id,
            session.identity,
            tuple(positions),
            session.spent_hash or b"",
            session.filters.listed(),
            tuple(session.patterns or ()),
            tuple(matched),
            int(self._clock.now() * 1000),
            session.presence_data or {},
            {name: each.identity for name, each in (session.channel_readers or {}).items()},
            None if holder else session.connection.rid,
        )
        return SessionSnapshot(
            key_hash=key_hash,
            hub=session.hub.name,
            session_id=session.id,
            state=msgspec.msgpack.encode(state),
            expires_at=int((self._clock.now() + self._limits.restore_seconds) * 1000),
            holder=holder,
        )


def hash_of(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _position(channel: str, feed: Feed) -> Position:
    version = None if feed.part is None else feed.part.version
    if version is None:
        return Position(channel, feed.position, feed.epoch)
    return Position(channel, feed.position, feed.epoch, *version)
