"""Deliveries for the journal: one event per channel, technology and tick.

Deliveries are tallied when they are written: a few additions per packed buffer, however many
messages and subscribers it has. A large buffer is written in many slices; slices in quick
succession are counted as one. The journal collects the tallies at every tick."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from operator import mul

import msgspec

from hubbub.domain.journal import (
    DELIVERED,
    DROPPED,
    EXPIRED,
    JournalEvent,
    bucket_of,
    least_in,
)
from hubbub.domain.messages import Message
from hubbub.engine.counters import Durations
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal

_PORTION = 500
"""Tallies journalled in one turn of the event loop."""
_TOGETHER = 8
"""Slices of a buffer count as one while its lowest latency grows by less than this fraction. They
count as written in the middle of that time, so that a latency is wrong by at most half of it, less
than the width of a bucket."""


class Noted(msgspec.Struct, eq=False, gc=False):
    """The messages in one packed buffer: when they were published, and their serials."""

    epoch: str
    times: list[int] = []
    size: int = 0
    first: int = 0
    last: int = 0
    fresh: int = 0
    """The number of these messages that no other buffer of this technology contains."""
    _offsets: list[int] | None = None
    _sum: int = 0
    _squares: int = 0

    def age(self, now: int) -> int:
        """The age of the newest message."""
        return now - max(self.times) if self._offsets is None else now - self.times[-1]

    def latencies(self, now: int) -> tuple[int, int, int, int, dict[int, int]]:
        """Minimum, maximum, sum, sum of squares, and histogram of the latencies for a write at this
        time (in microseconds)."""
        times = self.times
        if len(times) == 1:  # the usual case of a quiet channel
            latency = max(0, now - times[0])
            return latency, latency, latency, latency * latency, {bucket_of(latency): 1}
        if self._offsets is None:
            times.sort()
            oldest = times[0]
            self._offsets = [time - oldest for time in times]
            self._sum = sum(self._offsets)
            self._squares = sum(map(mul, self._offsets, self._offsets))
        count, span = len(times), self._offsets[-1]
        greatest = max(span, now - times[0])  # a clock that was set back must not show
        least = greatest - span
        total = count * greatest - self._sum
        squares = count * greatest * greatest - 2 * greatest * self._sum + self._squares
        return least, greatest, total, squares, self._buckets(greatest, least)

    def _buckets(self, greatest: int, least: int) -> dict[int, int]:
        """The offsets increase, so that each bucket is a consecutive range of them."""
        assert self._offsets is not None
        buckets: dict[int, int] = {}
        low, bucket, end = bucket_of(least), bucket_of(greatest), 0
        while bucket > low:
            start = end
            # Those whose latency is at least the bucket's: offset <= greatest - least_in(bucket).
            end = bisect_left(self._offsets, greatest - least_in(bucket) + 1, start)
            if end > start:
                buckets[bucket] = end - start
            bucket = bucket_of(greatest - self._offsets[end])
        buckets[low] = len(self._offsets) - end
        return buckets


class Tally:
    """Deliveries of one channel through one technology since the last tick."""

    __slots__ = (
        "_deliveries",
        "_first_at",
        "_last_at",
        "_slices_of",
        "_targets",
        "_together_until",
        "buckets",
        "channel",
        "count",
        "epoch",
        "first",
        "greatest",
        "hub",
        "last",
        "least",
        "messages",
        "newest",
        "size",
        "squares",
        "technology",
        "total",
    )

    def __init__(self, deliveries: Deliveries, hub: str, channel: str, technology: str) -> None:
        self._deliveries = deliveries
        self.hub = hub
        self.channel = channel
        self.technology = technology
        self.epoch = ""
        self.newest = ""
        """The id of the last noted message, to recognise it in another encoding."""
        self._slices_of: Noted | None = None
        """Buffer whose final writes are not yet tallied, their time, and their number of
        subscribers."""
        self._targets = 0
        self._first_at = 0
        self._last_at = 0
        self._together_until = 0
        self._begin()

    def _begin(self) -> None:
        self.first = 0
        self.last = 0
        self.messages = 0
        self.count = 0
        self.size = 0
        self.least = 0
        self.greatest = 0
        self.total = 0
        self.squares = 0
        self.buckets: dict[int, int] = {}

    def first_noted(self, message: Message, epoch: str) -> Noted:
        """The first message of a buffer; no other encoding has it yet."""
        serial, fresh = message.serial, 0
        if self.newest != message.id:
            self.newest = message.id
            fresh = 1
        taken_at = message.taken_at or message.published_at * 1000
        return Noted(epoch, [taken_at], len(message.payload), serial, serial, fresh)

    def note(self, noted: Noted, message: Message, told: set[Tally] | None = None) -> None:
        """The message is part of a buffer that will be written soon. `told`: tallies that have
        noted it; None: nothing else was noted since the message was noted in another encoding."""
        noted.times.append(message.taken_at or message.published_at * 1000)
        noted.size += len(message.payload)
        serial = message.serial
        if serial:
            noted.last = serial
            if not noted.first:
                noted.first = serial
        if told is not None:
            noted.fresh += self not in told
            told.add(self)
        elif self.newest != message.id:
            self.newest = message.id
            noted.fresh += 1

    def written(self, noted: Noted, targets: int) -> None:
        """A buffer was written to this many subscribers."""
        if not targets:
            return
        now = self._deliveries.now()
        if noted is self._slices_of and now < self._together_until:
            self._targets += targets
            self._last_at = now
            return
        self._count_slices()
        if self.count and noted.epoch != self.epoch:
            self._deliveries.tell(self)
        if not self.count:
            self._deliveries.active[self] = None
            self.epoch = noted.epoch
        self._slices_of = noted
        self._targets = targets
        self._first_at = self._last_at = now
        self._together_until = now + noted.age(now) // _TOGETHER

    def written_at_once(self, noted: Noted, targets: int) -> None:
        """Like `written`, for a buffer that is not written in slices: it counts now."""
        if len(noted.times) != 1 or noted.epoch != self.epoch or not targets or not self.count:
            self.written(noted, targets)
            return
        if self._slices_of is not None:
            self._count_slices()
        latency = int(self._deliveries.clock.now() * 1e6) - noted.times[0]
        if latency < self.least:
            latency = max(0, latency)
            self.least = min(self.least, latency)
        if latency > self.greatest:
            self.greatest = latency
        serial = noted.last
        if serial:
            if serial > self.last:
                self.last = serial
            if not self.first or serial < self.first:
                self.first = serial
        self.messages += noted.fresh
        self.count += targets
        self.size += noted.size * targets
        self.total += latency * targets
        self.squares += latency * latency * targets
        bucket = bucket_of(latency)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + targets

    def _count_slices(self) -> None:
        """Counts the writes of one buffer at nearly the same time."""
        noted, targets = self._slices_of, self._targets
        if noted is None:
            return
        self._slices_of = None
        if noted.first:
            self.first = min(self.first, noted.first) if self.first else noted.first
            self.last = max(self.last, noted.last)
        self.messages += noted.fresh
        noted.fresh = 0
        middle = (self._first_at + self._last_at) // 2
        least, greatest, total, squares, buckets = noted.latencies(middle)
        self.least = min(self.least, least) if self.count else least
        self.greatest = max(self.greatest, greatest)
        self.count += len(noted.times) * targets
        self.size += noted.size * targets
        self.total += total * targets
        self.squares += squares * targets
        held = self.buckets
        for bucket, count in buckets.items():
            held[bucket] = held.get(bucket, 0) + count * targets

    def expired(self, epoch: str, messages: list[Message]) -> None:
        """The messages were not delivered, since their time to live ended."""
        self._deliveries.expired(self.hub, self.channel, self.technology, epoch, messages)

    def take(self, now: int) -> JournalEvent:
        """Returns and resets the counts."""
        self._count_slices()
        event = JournalEvent(
            DELIVERED,
            now,
            self.hub,
            channel=self.channel,
            technology=self.technology,
            epoch=self.epoch,
            serial=self.last or None,
            first_serial=self.first or None,
            size=self.size,
            messages=self.messages,
            count=self.count,
            latency_min=self.least,
            latency_max=self.greatest,
            latency_sum=self.total,
            latency_squares=float(self.squares),
            latency_buckets=self.buckets,
        )
        self._begin()
        return event


class Deliveries:
    """All tallies of a node with unreported counts."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self.clock = clock
        self.active: dict[Tally, None] = {}
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)
        """By hub: the time from a message's arrival to its write to a subscriber."""
        journal.add_source(self.flush)

    def now(self) -> int:
        return int(self.clock.now() * 1e6)

    def tally(self, hub: str, channel: str, technology: str) -> Tally:
        return Tally(self, hub, channel, technology)

    def tell(self, tally: Tally) -> None:
        self.active.pop(tally, None)
        event = tally.take(self.now())
        durations = self.durations[tally.hub]
        for bucket, count in (event.latency_buckets or {}).items():
            durations.took_often(least_in(bucket), count)
        durations.seconds += (event.latency_sum or 0) / 1e6
        self._journal.record(event)

    def flush(self, everything: bool) -> None:
        """Journals some tallies now and the others soon, or all of them now."""
        for count, tally in enumerate(list(self.active)):
            if count == _PORTION and not everything:
                asyncio.get_running_loop().call_soon(self.flush, False)
                return
            self.tell(tally)

    def replayed(
        self, hub: str, channel: str, technology: str, epoch: str, messages: list[Message]
    ) -> None:
        """Earlier messages were sent to one session; their latency is not counted."""
        event = self._of(DELIVERED, hub, channel, technology, epoch, messages)
        event.size = sum(len(message.payload) for message in messages)
        event.reason = "replay"
        self._journal.record(event)

    def expired(
        self, hub: str, channel: str, technology: str, epoch: str, messages: list[Message]
    ) -> None:
        """Messages were not delivered to live subscribers, since their time to live ended."""
        event = self._of(EXPIRED, hub, channel, technology, epoch, messages)
        event.message_id = messages[0].id if len(messages) == 1 else None
        self._journal.record(event)

    def _of(
        self,
        kind: str,
        hub: str,
        channel: str,
        technology: str,
        epoch: str,
        messages: list[Message],
    ) -> JournalEvent:
        return JournalEvent(
            kind,
            self.now(),
            hub,
            channel=channel,
            technology=technology,
            epoch=epoch or None,
            first_serial=messages[0].serial or None,
            serial=messages[-1].serial or None,
            messages=len(messages),
            count=len(messages),
        )

    def missed(self, hub: str, channel: str, epoch: str, first: int | None, last: int) -> None:
        """This node's subscribers missed these messages, which no longer exist."""
        self._journal.record(
            JournalEvent(
                DROPPED,
                self.now(),
                hub,
                channel=channel,
                epoch=epoch,
                first_serial=first,
                serial=last,
                count=None if first is None else last - first + 1,
                reason="gap",
            )
        )
