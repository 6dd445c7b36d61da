"""Session restore: coming back after a short absence as the same session.

After authentication a client holds a key. With it a new connection takes the session over:
identity, session id, subscriptions and what was missed. Only the key's hash is kept. The key is
spent when the first frame after the restore arrives; until then a client whose connection broke
in the middle may use it again.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Container
from typing import TYPE_CHECKING

import msgspec

from hubbub.domain.errors import HubbubError, RestoreFailed, SessionReplaced
from hubbub.domain.notices import Failed, RestoreKey, SessionRestored
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import ChannelRequest, Position, Restore
from hubbub.engine.sessions.journal import RESTORED
from hubbub.ports.storage.sessions import SessionSnapshot, SessionStore

if TYPE_CHECKING:
    from hubbub.engine.node import Node
    from hubbub.engine.sessions.session import Session

_LONGEST_HOLD_INTERVAL_SECONDS = 5.0


class _State(msgspec.Struct, frozen=True, array_like=True):
    """What a snapshot holds, besides its key and expiry."""

    session_id: str
    identity: Identity
    positions: tuple[Position, ...]
    rival: bytes = b""
    """The hash of the other key that would restore the same session, from a restore whose reply
    may have been lost. Who uses one of the two ends the other."""


class Restorer:
    """Keys and snapshots of the sessions of a node."""

    def __init__(self, node: Node, store: SessionStore) -> None:
        self._node = node
        self._store = store
        self._live: dict[bytes, Session] = {}
        self._parked: dict[bytes, SessionSnapshot] = {}
        """Snapshots of sessions that have gone and are not on disk yet."""
        self._changed: set[Session] = set()
        self._spent: set[bytes] = set()
        self._holder = secrets.token_hex(8)
        """This process, as the holder of its sessions' snapshots."""
        self._held_until = 0.0

    def issue(self, session: Session) -> str:
        """A new key for the session; the one before, if any, stops working."""
        key = secrets.token_urlsafe(32)
        self._forget(session.restore_hash)
        session.restore_hash = _hash(key)
        self._live[session.restore_hash] = session
        self._changed.add(session)
        return key

    def touched(self, session: Session) -> None:
        """Its snapshot is out of date."""
        if session.restore_hash is not None:
            self._changed.add(session)

    def closed(self, session: Session, keep_state: bool) -> None:
        """The connection is gone. Call it while the subscriptions are still known."""
        self._changed.discard(session)
        key_hash = session.restore_hash
        if key_hash is None or self._live.pop(key_hash, None) is not session:
            return
        if keep_state:
            self._parked[key_hash] = self._snapshot(session, key_hash)
        else:
            self._forget(key_hash)

    def spend(self, session: Session) -> None:
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
        seconds = self._node.limits.restore_seconds
        until = self._node.clock.now() + seconds
        if abs(until - self._held_until) >= min(seconds / 20, _LONGEST_HOLD_INTERVAL_SECONDS):
            await self._store.hold_sessions(self._holder, int(until * 1000))
            self._held_until = until

    async def restore(self, session: Session, request: Restore) -> None:
        """Make `session` the continuation of the one that the key belongs to."""
        try:
            with self._node.throttle.guess(session.hub.name, session.address):
                state, key_hash = await self._find(session, request.restore_key)
        except HubbubError as error:
            session.send(Failed(error, request.req_id))
            return
        if session.closed:
            return
        seen = {position.channel: position for position in request.positions}
        wanted = [
            _request_for(seen.get(position.channel, position)) for position in state.positions
        ]
        old = session.hub.sessions.get(state.session_id)
        self._adopt(session, state, key_hash)
        plans, failures = await self._node.subscriptions.prepare(session, wanted)
        if not session.closed:
            session.send(
                SessionRestored(
                    session_id=session.id,
                    user_id=state.identity.user_id,
                    grants=state.identity.grants,
                    rpcs=state.identity.rpcs,
                    extra=state.identity.extra,
                    channels=tuple(plan.confirmation() for plan in plans),
                    failures=tuple(failures),
                    req_id=request.req_id,
                ),
                RestoreKey(self._issue_rival(session, state, key_hash)),
            )
        kept = {plan.feed.channel for plan in plans}
        if old is not None:
            self.replace(old, kept)
        else:
            self._node.bus.announce_session(session.hub.name, session.id, sorted(kept))
        await self._node.subscriptions.begin(session, plans)

    async def _find(self, session: Session, key: str) -> tuple[_State, bytes]:
        hub = session.hub
        if session.restore_hash is not None:
            raise RestoreFailed("this session is authenticated already")
        key_hash = _hash(key)
        found = (
            await self._look_up(key_hash) if hub.configuration.settings.session_restore else None
        )
        if found is None or found.hub != hub.name:
            raise RestoreFailed(
                "the restore key is unknown, used or expired, or the hub restores no sessions; "
                "authenticate"
            )
        state = msgspec.msgpack.decode(found.state, type=_State)
        self._node.tokens.check(state.identity, hub.name)
        return state, key_hash

    async def _look_up(self, key_hash: bytes) -> SessionSnapshot | None:
        """Among those who are here, those who just left, and those on disk."""
        live = self._live.get(key_hash)
        if live is not None:
            return self._snapshot(live, key_hash)
        if key_hash in self._spent:
            return None
        now = int(self._node.clock.now() * 1000)
        parked = self._parked.get(key_hash)
        if parked is not None:
            return parked if parked.expires_at > now else None
        return await self._store.read_session(key_hash, now)

    def _adopt(self, session: Session, state: _State, key_hash: bytes) -> None:
        """Take over who the old session was, and its name. The old key works on until a frame
        proves that the client knows the new one."""
        session.hub.sessions.pop(session.id, None)
        self._node.chronicle.session_closed(session, RESTORED)
        goes_on = state.session_id in session.hub.sessions
        session.id = state.session_id
        session.hub.sessions[session.id] = session
        session.identity = state.identity
        if not goes_on:
            self._node.chronicle.session_opened(session, RESTORED)
        self._node.authenticated(session)
        self._live.pop(key_hash, None)
        if state.rival:
            self._forget(state.rival)
        self._park(key_hash, state, session.hub.name)

    def _issue_rival(self, session: Session, state: _State, key_hash: bytes) -> str:
        """A new key for a restored session, while the old one still works."""
        key = self.issue(session)
        session.spent_hash = key_hash
        rival = msgspec.structs.replace(state, rival=session.restore_hash or b"")
        self._park(key_hash, rival, session.hub.name)
        return key

    def _park(self, key_hash: bytes, state: _State, hub: str) -> None:
        seconds = self._node.limits.restore_seconds
        self._parked[key_hash] = SessionSnapshot(
            key_hash=key_hash,
            hub=hub,
            session_id=state.session_id,
            state=msgspec.msgpack.encode(state),
            expires_at=int((self._node.clock.now() + seconds) * 1000),
        )

    def replace(self, old: Session, kept: Container[str]) -> None:
        """The successor takes over the channels that it `kept`: close the old connection without
        a trace in presence. The key that it holds, if it is another one than was just used, would
        restore a twin."""
        key_hash = old.restore_hash
        if key_hash is not None and self._live.get(key_hash) is old:
            self._forget(key_hash)
        self._node.subscriptions.abandon_to(old, kept)
        old.connection.disconnect(SessionReplaced("the session was restored on a new connection"))

    def _forget(self, key_hash: bytes | None) -> None:
        if key_hash is not None:
            self._live.pop(key_hash, None)
            self._parked.pop(key_hash, None)
            self._spent.add(key_hash)

    def _snapshot(self, session: Session, key_hash: bytes, holder: str = "") -> SessionSnapshot:
        positions = tuple(
            Position(channel, feed.position, feed.epoch)
            for channel, feed in (session.feeds or {}).items()
        )
        return SessionSnapshot(
            key_hash=key_hash,
            hub=session.hub.name,
            session_id=session.id,
            state=msgspec.msgpack.encode(
                _State(session.id, session.identity, positions, session.spent_hash or b"")
            ),
            expires_at=int((self._node.clock.now() + self._node.limits.restore_seconds) * 1000),
            holder=holder,
        )


def _hash(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


def _request_for(position: Position) -> ChannelRequest:
    return ChannelRequest(position.channel, serial=position.serial, epoch=position.epoch or None)
