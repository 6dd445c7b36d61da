"""Sessions of devices that outlive their connections: in memory while their messages are in flight,
and on disk for a restart of the hub."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Protocol

from hubbub.domain.errors import HUB_AWAY, HubbubError, QuotaExceeded
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.mqtt.devices import DeviceKey
from hubbub.engine.rooms import Room
from hubbub.ports.bus import UserErased
from hubbub.ports.clock import Clock
from hubbub.ports.storage.sessions import SessionSnapshot, SessionStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_CONNECTED_SECONDS = 86_400.0
"""How much longer a row lives than its session asks for, while the device is connected."""
_ROW = "mqtt:"
"""The beginning of the session ids of rows."""
_COUNT_SECONDS = 10.0
_IN_MEMORY = 10_000
"""Sessions without a connection that are kept in memory too."""


class KeptState(Protocol):
    """The state of a session that is worth keeping."""

    @property
    def in_flight(self) -> int:
        """Messages that the device or the hub has not acknowledged; only memory has them."""

    def encode(self) -> bytes:
        """The rest."""


class _Entry:
    __slots__ = ("connected", "ends_at", "saved_at", "seconds", "state", "will")

    def __init__(self, state: KeptState, seconds: float) -> None:
        self.state = state
        self.seconds = seconds
        self.connected = True
        self.ends_at = 0.0
        """When the session ends, in the clock's time; while it is connected: not yet."""
        self.saved_at = 0.0
        self.will: tuple[float, Callable[[], None]] | None = None
        """When it is due, and how it is published."""


class KeptSessions(Room):
    def __init__(
        self,
        store: SessionStore,
        clock: Clock,
        tasks: TaskSet,
        configuration_of: Callable[[str], HubConfiguration],
    ) -> None:
        """`configuration_of` raises `HUB_AWAY` for a hub that is not there."""
        self._configuration_of = configuration_of
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._entries: dict[DeviceKey, _Entry] = {}
        self._changed: dict[DeviceKey, None] = {}
        self._gone: dict[DeviceKey, None] = {}
        """Sessions that ended, whose rows are still on disk."""
        self._counts: dict[str, tuple[float, int]] = {}
        """How many sessions a hub keeps, and when that was counted."""
        self._flushing: asyncio.Task[None] | None = None
        self._stopping = False
        self.node_requests = {UserErased: self._user_erased}

    # -- a device comes -------------------------------------------------------------------------

    def in_memory(self, key: DeviceKey) -> KeptState | None:
        """The state of the device's session, whose will is not due any more."""
        entry = self._entries.get(key)
        if entry is None or not (entry.connected or entry.ends_at > self._clock.now()):
            return None
        entry.will = None
        return entry.state

    async def find(self, key: DeviceKey) -> KeptState | bytes | None:
        """The device's session: its state in memory, or what the state was encoded to. Raises
        `StoreUnavailable`."""
        entry = self._entries.get(key)
        now = self._clock.now()
        if entry is not None:
            return entry.state if entry.connected or entry.ends_at > now else None
        if key in self._gone:
            return None
        row = await self._store.read_session(hash_of(key), int(now * 1000))
        return None if row is None or row.hub != key.hub else row.state

    async def check_room(self, hub: str, most: int) -> None:
        """Raises `QuotaExceeded` if the hub keeps no further session."""
        now = self._clock.monotonic()
        at, count = self._counts.get(hub, (0.0, 0))
        if hub not in self._counts or now - at > _COUNT_SECONDS:
            count = await self._store.count_sessions(hub, _ROW)
            self._counts[hub] = now, count
        if count >= most:
            raise QuotaExceeded(
                f"hub {hub!r} already keeps {most} sessions of devices (mqtt.maxSessions)"
            )
        self._counts[hub] = self._counts[hub][0], count + 1

    def begin(self, key: DeviceKey, state: KeptState, seconds: float) -> None:
        """A connection has the session from now on; it is kept this long afterwards."""
        self._entries[key] = _Entry(state, seconds)
        self._gone.pop(key, None)
        self._changed[key] = None

    async def save(self, key: DeviceKey) -> None:
        """Returns when the session is on disk as it is now. Raises `StoreUnavailable`."""
        entry = self._entries.get(key)
        if entry is not None:
            await self._store.save_sessions([self._row(key, entry, self._clock.now())])

    def forget(self, key: DeviceKey) -> None:
        """The session ends."""
        entry = self._entries.pop(key, None)
        self._changed.pop(key, None)
        self._gone[key] = None
        if entry is not None and entry.will is not None:
            entry.will[1]()

    def end(self, key: DeviceKey, state: KeptState) -> None:
        """The session ended with its connection, unless another connection has it."""
        entry = self._entries.get(key)
        if entry is not None and entry.state is state:
            self.forget(key)

    def changed(self, key: DeviceKey) -> None:
        """The state on disk is out of date."""
        if key in self._entries:
            self._changed[key] = None

    # -- a device goes --------------------------------------------------------------------------

    def lose(
        self,
        key: DeviceKey,
        state: KeptState,
        seconds: float,
        will: Callable[[], None] | None,
        delay: float,
    ) -> None:
        """The connection is gone; its will is published after the delay, or when the session
        ends."""
        entry = self._entries.get(key)
        if entry is None or entry.state is not state:
            return
        now = self._clock.now()
        entry.connected, entry.seconds, entry.ends_at = False, seconds, now + seconds
        if will is not None:
            if delay <= 0 or self._stopping:
                will()
            else:
                entry.will = now + min(delay, seconds), will
        self._changed[key] = None
        self._flush_soon()

    # -- time -----------------------------------------------------------------------------------

    def sweep(self) -> None:
        now = self._clock.now()
        for key, entry in list(self._entries.items()):
            if entry.will is not None and entry.will[0] <= now:
                publish, entry.will = entry.will[1], None
                publish()
            if not entry.connected and entry.ends_at <= now:
                self.forget(key)
            elif entry.connected and now - entry.saved_at > _CONNECTED_SECONDS / 2:
                self._changed[key] = None
        self._flush_soon()

    def _flush_soon(self) -> None:
        if (self._changed or self._gone) and self._flushing is None:
            self._flushing = self._tasks.start(self._flush())

    async def _flush(self) -> None:
        try:
            await self._flush_once()
            while self._stopping and (self._changed or self._gone):
                await self._flush_once()
        except HubbubError as error:
            logger.info("sessions of devices will be stored later: %s", error)
        finally:
            self._flushing = None

    async def _flush_once(self) -> None:
        changed, self._changed = self._changed, {}
        gone, self._gone = self._gone, {}
        now = self._clock.now()
        rows = {
            key: self._row(key, entry, now)
            for key in changed
            if (entry := self._entries.get(key)) is not None
        }
        try:
            if rows:
                await self._store.save_sessions(list(rows.values()))
            if gone:
                await self._store.delete_sessions([hash_of(key) for key in gone])
        except HubbubError:
            self._changed = changed | self._changed
            self._gone = gone | self._gone
            raise
        for key in rows:
            self._drop_from_memory(key)

    def _row(self, key: DeviceKey, entry: _Entry, now: float) -> SessionSnapshot:
        entry.saved_at = now
        ends_at = entry.ends_at
        if entry.connected:
            ends_at = now + entry.seconds + _CONNECTED_SECONDS
        return SessionSnapshot(
            key_hash=hash_of(key),
            hub=key.hub,
            session_id=_row_name(key.user_id),
            state=entry.state.encode(),
            expires_at=int(ends_at * 1000),
        )

    def _drop_from_memory(self, key: DeviceKey) -> None:
        """What the row says as well."""
        entry = self._entries.get(key)
        if entry is None or entry.connected or entry.will is not None or key in self._changed:
            return
        if not entry.state.in_flight or len(self._entries) > _IN_MEMORY:
            del self._entries[key]

    # -- hubs and users -------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Sessions of a hub that was deleted end, also those that it has just disconnected."""
        for name in {key.hub for key in self._entries} if hub == ANY_HUB else {hub}:
            try:
                self._configuration_of(name)
            except HUB_AWAY:
                for key in [key for key in self._entries if key.hub == name]:
                    self._entries[key].will = None
                    self.forget(key)
                self._counts.pop(name, None)
                self._flush_soon()

    async def _user_erased(self, _: str, erased: UserErased) -> None:
        hub, user_id = erased.hub, erased.user_id
        for key in [key for key in self._entries if key[:2] == (hub, user_id)]:
            self._entries[key].will = None
            self.forget(key)
        await self._flushed()
        await self._store.delete_sessions_named(hub, _row_name(user_id))

    async def hub_suspended(self, hub: str) -> None:
        for key in [key for key in self._entries if key.hub == hub]:
            del self._entries[key]
            self._changed.pop(key, None)
        self._counts.pop(hub, None)
        await self._flushed()

    async def _flushed(self) -> None:
        """Waits until no row is being written."""
        if self._flushing is not None:
            await asyncio.wait({self._flushing})

    async def stop(self) -> None:
        """Wills that wait are published: nobody would remember them."""
        self._stopping = True
        for entry in self._entries.values():
            if entry.will is not None:
                publish, entry.will = entry.will[1], None
                publish()


def _row_name(user_id: str | None) -> str:
    """The session id of a row: it says whose the session is."""
    return _ROW if user_id is None else f"{_ROW}u:{user_id}"


def hash_of(key: DeviceKey) -> bytes:
    """The key of the row. No restore key of another session has the same hash."""
    digest = hashlib.blake2b(digest_size=32, person=b"hubbub mqtt")
    for part in (key.hub, "" if key.user_id is None else f"u{key.user_id}", key.client_id):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\x00")
    return digest.digest()
