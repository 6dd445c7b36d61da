"""The shelf: durable subscriptions between disk and memory, and the messages that they hand out."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any

from hubbub.domain.errors import StaleOwner
from hubbub.domain.messages import Message
from hubbub.domain.topics import SubscriptionKey
from hubbub.engine.channels.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursors import (
    Cursors,
    Place,
    cursor_of,
    no_topic,
    not_subscribed,
    places_of,
)
from hubbub.ports.storage.topics import TopicStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_READ_AHEAD = 500
"""Messages that are read from the store at once, for the next who ask."""


class Shelf:
    """Of all channels of one owner."""

    def __init__(
        self, store: TopicStore, terms: Mapping[int, int], counters: defaultdict[str, TopicCounters]
    ) -> None:
        self.store = store
        self.channels: dict[Channel, None] = {}
        """Those whose subscriptions are in memory."""
        self._terms = terms
        self._counters = counters
        self._tasks = TaskSet(_log_unsaved)

    def forget(self, channel: Channel) -> None:
        self.channels.pop(channel, None)
        places, channel.cursors = places_of(channel), None
        for place in places:
            place.end()

    async def settle(self) -> None:
        """Let what was begun end."""
        await self._tasks.settle()

    # -- subscriptions --------------------------------------------------------------------------

    async def place(self, channel: Channel, key: SubscriptionKey) -> Place:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        return self.find(channel, await self.cursors(channel), key)

    @staticmethod
    def find(channel: Channel, cursors: Cursors, key: SubscriptionKey) -> Place:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        place = cursors.places.get((key.owner, key.name))
        if place is not None:
            return place
        if not channel.head and not cursors.places:
            raise no_topic(key.hub, key.channel)
        raise not_subscribed(key)

    async def cursors(self, channel: Channel) -> Cursors:
        """The channel's subscriptions, read from the store at the first time."""
        cursors = channel.cursors
        if cursors is None:
            cursors = channel.cursors = Cursors()
            try:
                saved = await self.store.read_cursors(channel.hub, channel.name)
            except BaseException:
                channel.cursors = None
                cursors.ready.set()
                raise
            for each in saved:
                key = SubscriptionKey(each.hub, each.channel, each.owner, each.name)
                place = Place(key, cursor_of(each, channel.epoch))
                cursors.places[each.owner, each.name] = place
                self._lose_before(channel, place, channel.first)
            self.channels[channel] = None
            cursors.ready.set()
        elif not cursors.ready.is_set():
            await cursors.ready.wait()
            return await self.cursors(channel)
        return cursors

    async def save(self, channel: Channel, place: Place, changed: bool = False) -> None:
        """Have the place on disk as it is now. Saves that meet are one."""
        if changed:
            place.version += 1
        target = place.version
        async with place.lock:
            if place.saved >= target or place.gone:
                return
            version = place.version
            try:
                await self.store.save_cursor(place.to_save(), *self.term(channel))
            except StaleOwner:
                channel.cursors = None  # another node knows better
                raise
            place.saved = version

    def save_soon(self, channel: Channel, place: Place) -> None:
        """It changed in a way that nobody waits for."""
        place.version += 1
        self.run(self.save(channel, place))

    def term(self, channel: Channel) -> tuple[int, int]:
        return channel.partition, self._terms.get(channel.partition, 0)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that ends by itself, and is waited for when the owner stops."""
        self._tasks.start(work)

    # -- messages -------------------------------------------------------------------------------

    async def read(self, channel: Channel, serials: Sequence[int]) -> dict[int, Message]:
        """Some of them, in any case the first ones, unless they are gone."""
        cursors = channel.cursors
        for known in (cursors.tail, cursors.page) if cursors is not None else ():
            if known and known[0].serial <= serials[0] <= known[-1].serial:
                first = known[0].serial
                return {s: known[s - first] for s in serials if s - first < len(known)}
        found: dict[int, Message] = {}
        for start, end in runs_of(serials):
            size = max(end - start + 1, _READ_AHEAD)
            page = await self.store.read_after(channel.hub, channel.name, start - 1, size)
            found.update((m.serial, m) for m in page.messages if m.serial <= end)
            if page.head is not None and page.head.first > start:
                self.lost_before(channel, page.head.first)
            if cursors is not None:
                cursors.page = page.messages
            if len(page.messages) < end - start + 1:
                break
        return found

    def lost_before(self, channel: Channel, first: int) -> None:
        """The channel's messages begin here now; who had not got those before has missed them."""
        for place in places_of(channel):
            self._lose_before(channel, place, first)

    def _lose_before(self, channel: Channel, place: Place, first: int) -> None:
        missed = place.cursor.lose_before(first)
        if missed:
            self._counters[channel.hub].missed += missed
            self.save_soon(channel, place)


def _log_unsaved(error: BaseException) -> None:
    logger.warning("a durable subscription could not be saved: %s", error)


def runs_of(serials: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Runs of numbers that follow one another, from rising or falling ones."""
    runs: list[tuple[int, int]] = []
    for serial in sorted(serials):
        if runs and runs[-1][1] == serial - 1:
            runs[-1] = (runs[-1][0], serial)
        else:
            runs.append((serial, serial))
    return runs
