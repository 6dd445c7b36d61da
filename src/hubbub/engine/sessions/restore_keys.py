"""Restore keys: snapshots of sessions in memory and in the store, by the hash of their key."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Position
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.ports.clock import Clock
from hubbub.ports.storage.sessions import SessionSnapshot, SessionStore

_LONGEST_HOLD_INTERVAL_SECONDS = 5.0


class RestorableState(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot holds, besides its key and expiry."""

    session_id: str
    identity: Identity
    positions: tuple[Position, ...]
    rival: bytes = b""
    """The hash of the other key that would restore the same session, from a restore whose reply
    may have been lost. Who uses one of the two ends the other."""
    filters: tuple[FilterDefinition, ...] = ()
    patterns: tuple[str, ...] = ()
    matched: tuple[Position, ...] = ()
    """Of the channels that the session followed by patterns only."""
    saved_at: int = 0
    """In milliseconds since 1970: channels that matched later are recovered from here on."""
    presence: dict[str, dict[str, Any]] = {}
    """What the client said of itself, by channel."""
    readers: dict[str, Identity] = {}
    """As whom the session followed channels for which it showed a token."""
    rid: int | None = None
    """How many events the client was sent, where its protocol counts them and the count is known:
    it is lost when a node is killed."""


class RestoreKeys:
    """Keys and snapshots of the sessions of a node."""

    def __init__(self, store: SessionStore, clock: Clock, limits: EngineLimits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._live: dict[bytes, SessionState] = {}
        self._parked: dict[bytes, SessionSnapshot] = {}
        """Snapshots of sessions that have gone and are not on disk yet."""
        self._changed: set[SessionState] = set()
        self._spent: set[bytes] = set()
        self._holder = secrets.token_hex(8)
        """This process, as the holder of its sessions' snapshots."""
        self._held_until = 0.0

    def issue(self, session: SessionState) -> str:
        """A new key for the session; the one before, if any, stops working."""
        key = secrets.token_urlsafe(32)
        self._forget(session.restore_hash)
        session.restore_hash = hash_of(key)
        self._live[session.restore_hash] = session
        self._changed.add(session)
        return key

    def touched(self, session: SessionState) -> None:
        """Its snapshot is out of date."""
        if session.restore_hash is not None:
            self._changed.add(session)

    def closed(self, session: SessionState, keep_state: bool) -> None:
        """The connection is gone. Call it while the subscriptions are still known."""
        self._changed.discard(session)
        key_hash = session.restore_hash
        if key_hash is None or self._live.pop(key_hash, None) is not session:
            return
        if keep_state:
            self._parked[key_hash] = self._snapshot(session, key_hash)
        else:
            self._forget(key_hash)

    def spend(self, session: SessionState) -> None:
        """The first frame after a restore is here: the old key has done its work."""
        self._forget(session.spent_hash)
        session.spent_hash = None

    async def flush(self) -> None:
        """Write what changed. Called a few times a second, and before the node stops."""
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
        """Keep the keys of connected sessions alive. One row stands for all of them, so that their
        keys expire `restore_seconds` after this process was killed; or up to an interval earlier,
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
        """Among those who are here, those who just left, and those on disk."""
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
        """The key restores its session now. It works on until a frame proves that the client knows
        the new one; the other key of the same session, if any, ends."""
        self._live.pop(key_hash, None)
        if state.rival:
            self._forget(state.rival)
        self._park(key_hash, state, hub)

    def end(self, session: SessionState) -> None:
        """The session was restored on another connection: a key that it still holds would restore
        a twin."""
        key_hash = session.restore_hash
        if key_hash is not None and self._live.get(key_hash) is session:
            self._forget(key_hash)

    def issue_rival(self, session: SessionState, state: RestorableState, key_hash: bytes) -> str:
        """A new key for a restored session, while the old one still works."""
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
    if feed.document is None:
        return Position(channel, feed.position, feed.epoch)
    state = feed.document.state
    return Position(channel, feed.position, feed.epoch, state.version, state.epoch)
