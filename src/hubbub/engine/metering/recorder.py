"""Stores what the counters of this process have risen by, at intervals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.metering import ALL_HUBS, PEAKS, CountedFigures, MeteredSlot, slot_of
from hubbub.engine.counters import HubCounters
from hubbub.engine.metering.settings import MeteringSettings
from hubbub.engine.node import Node
from hubbub.engine.rooms import Room
from hubbub.ports import randomness
from hubbub.ports.storage.metering import MeteringStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_DAY = 86_400
_AT_ONCE = 500
"""Slots in one write."""
_MOST_UNSAVED = 20_000
"""Slots that wait for a store that is away; further ones are dropped."""
_TRAFFIC = ("messages_in", "bytes_in", "messages_out", "bytes_out")


class _CountedSoFar(msgspec.Struct):
    """What was counted of a hub up to the last look."""

    counters: HubCounters
    traffic: tuple[int, ...] = (0, 0, 0, 0)
    sessions: int = 0
    slot: int = 0
    before: int = 0
    """Sessions that were open when the slot began."""


class Metering(Room):
    """The counters of one node. Nothing is written while a message is on its way."""

    def __init__(self, node: Node, store: MeteringStore) -> None:
        self._node = node
        self._store = store
        self._settings = node.limits.of(MeteringSettings)
        self._life = randomness.token_hex(6)
        self._known: dict[str, _CountedSoFar] = {}
        self._unsaved: dict[tuple[str, int], MeteredSlot] = {}
        self._looked_at = node.clock.now()
        self._interval = int(node.clock.now()) // self._settings.interval
        self._day = 0
        self._tasks = TaskSet()
        self._saving = False

    def sweep(self) -> None:
        interval = int(self._node.clock.now()) // self._settings.interval
        if interval != self._interval and not self._saving:
            self._interval = interval
            self._tasks.start(self.save())

    async def settle(self) -> None:
        """Waits for what `sweep` began."""
        await self._tasks.settle()

    async def drained(self) -> None:
        await self.settle()
        await self.save()

    async def save(self) -> None:
        """Stores everything that was counted since the last time. What cannot be stored now is
        tried again at the next interval."""
        self._saving = True
        try:
            self._look()
            while self._unsaved:
                keys = list(self._unsaved)[:_AT_ONCE]
                slots = [self._unsaved.pop(key) for key in keys]
                try:
                    await self._store.add_metered(slots)
                except HubbubError as error:
                    self._wait_for_the_store(slots)
                    logger.warning("counters wait for the store: %s", error)
                    return
            await self._clean()
        finally:
            self._saving = False

    async def _clean(self) -> None:
        now = int(self._node.clock.now())
        if now // _DAY == self._day:
            return
        try:
            await self._store.delete_metered_before(now - self._settings.retention_days * _DAY)
            self._day = now // _DAY
        except HubbubError as error:
            logger.warning("old counters stay for now: %s", error)

    # -- counting -------------------------------------------------------------------------------

    def _look(self) -> None:
        """What was counted since the last look belongs to the five minutes of that look."""
        node, slot = self._node, slot_of(self._looked_at)
        self._looked_at = node.clock.now()
        for hub, counters in node.counters.items():
            known = self._known.get(hub)
            if known is not None and known.counters is not counters:
                self._wait_for_the_store(self._take(hub, known, slot))  # unloaded, and used again
                known = None
            if known is None:
                self._known[hub] = _CountedSoFar(counters)
        whole: dict[int, MeteredSlot] = {}
        for hub, known in self._known.items():
            found = self._take(hub, known, slot)
            for each in found:
                in_all = msgspec.structs.replace(each, hub=ALL_HUBS, hubs=int(each.at == slot))
                sums = whole.get(each.at)
                whole[each.at] = in_all if sums is None else _joined(sums, in_all, int.__add__)
            if self._has_its_own(hub):
                self._wait_for_the_store(found)
        self._wait_for_the_store(whole.values())
        for hub in [hub for hub in self._known if hub not in node.counters]:
            del self._known[hub]

    def _take(self, hub: str, known: _CountedSoFar, slot: int) -> list[MeteredSlot]:
        """The slots to which something is to be added."""
        counters, in_use = known.counters, self._node.hubs.get(hub)
        if known.slot != slot:
            known.slot, known.before = slot, known.sessions
        traffic = tuple(getattr(counters, name) for name in _TRAFFIC)
        risen = dict(zip(_TRAFFIC, map(int.__sub__, traffic, known.traffic), strict=True))
        known.traffic, known.sessions = traffic, counters.sessions
        visits, counters.visits = counters.visits, {}
        channels = 0 if in_use is None else len(in_use.feeds)
        now = MeteredSlot(
            hub, slot, self._life, **risen, sessions_before=known.before, channels=channels
        )
        found = {slot: now}
        for opened, each in visits.items():
            found[opened] = msgspec.structs.replace(
                found.get(opened, MeteredSlot(hub, opened, self._life)),
                sessions_opened=each.opened,
                sessions_ended=each.ended,
                session_us=each.microseconds,
            )
        return [each for each in found.values() if any(msgspec.structs.astuple(each)[3:])]

    def _has_its_own(self, hub: str) -> bool:
        in_use = self._node.hubs.get(hub)
        named = hub in self._node.directory or (in_use is not None and in_use.proven)
        return named and len(self._known) <= self._settings.most_hubs

    def _wait_for_the_store(self, slots: Iterable[MeteredSlot]) -> None:
        for each in slots:
            key = each.hub, each.at
            waiting = self._unsaved.get(key)
            if waiting is not None:
                self._unsaved[key] = _joined(waiting, each, max)
            elif len(self._unsaved) < _MOST_UNSAVED:
                self._unsaved[key] = each


def _joined(one: MeteredSlot, other: MeteredSlot, peak: Callable[[int, int], int]) -> MeteredSlot:
    """Both together; `peak` says what becomes of the numbers that are not added up in time."""
    names = CountedFigures.__struct_fields__
    sums = {name: getattr(one, name) + getattr(other, name) for name in names}
    peaks = {name: peak(getattr(one, name), getattr(other, name)) for name in PEAKS}
    return msgspec.structs.replace(one, **sums, **peaks)
