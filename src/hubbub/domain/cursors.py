"""The cursor of a durable subscription: acknowledged messages, leases, and the next message.

Every message up to the floor is acknowledged. Above the floor, the cursor stores exceptions only:
ranges acknowledged out of order, and messages delivered more than once. Its size depends on the
exceptions, not on the backlog.

Leases and recent deliveries are not saved. After a restart, every unacknowledged message is
delivered again; `reserved`, which is saved ahead of deliveries, tells which messages may be
redeliveries.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator

import msgspec

from hubbub.domain.errors import BadRequest, Conflict
from hubbub.domain.topics import MAX_AHEAD, SubscriptionOptions

RESERVE_AHEAD = 10_000


class Ranges:
    """A set of integers, stored as ascending ranges that neither touch nor overlap."""

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self._starts.append(start)
            self._ends.append(end)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number <= self._ends[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def total(self) -> int:
        return sum(end - start + 1 for start, end in self)

    def count_between(self, start: int, end: int) -> int:
        """How many numbers from `start` to `end`, inclusive, are in the set."""
        return sum(max(0, min(e, end) - max(s, start) + 1) for s, e in self)

    def add(self, number: int) -> None:
        if number in self:
            return
        index = bisect_right(self._starts, number)
        joins_left = index > 0 and self._ends[index - 1] == number - 1
        joins_right = index < len(self._starts) and self._starts[index] == number + 1
        if joins_left and joins_right:
            self._ends[index - 1] = self._ends[index]
            del self._starts[index], self._ends[index]
        elif joins_left:
            self._ends[index - 1] = number
        elif joins_right:
            self._starts[index] = number
        else:
            self._starts.insert(index, number)
            self._ends.insert(index, number)

    def next_outside(self, number: int) -> int:
        """The smallest number from this one on that is not in the set."""
        index = bisect_right(self._starts, number) - 1
        if index >= 0 and number <= self._ends[index]:
            return self._ends[index] + 1
        return number

    def drop_up_to(self, number: int) -> None:
        keep = [(max(start, number + 1), end) for start, end in self if end > number]
        self._starts = [start for start, _ in keep]
        self._ends = [end for _, end in keep]


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Groups the numbers, given in any order, into runs (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


class CursorRecord(msgspec.Struct, frozen=True, array_like=True):
    """The saved state of a cursor, without its floor."""

    options: SubscriptionOptions
    epoch: str
    created_at: int
    reserved: int
    done: tuple[tuple[int, int], ...] = ()
    counts: dict[int, int] = {}
    redeliveries: int = 0
    dead_letters: int = 0
    missed: int = 0
    dead_lettering: int = 0
    """The serial of the message that is being moved to the dead letters; 0: none."""
    expired: int = 0
    replayed: int = 0
    """How many dead letters a replay delivered."""


class Pick(msgspec.Struct, frozen=True):
    """A message to hand out."""

    serial: int
    deliveries: int = 1
    redelivered: bool = False


class Lease(msgspec.Struct):
    consumer: str
    until: float


class Cursor:
    """State without I/O; the channel's owner drives it. Times are monotonic seconds."""

    __slots__ = (
        "_counted",
        "_counts",
        "_next",
        "_returned",
        "_suspect",
        "created_at",
        "dead_lettering",
        "dead_letters",
        "done",
        "epoch",
        "expired",
        "floor",
        "leases",
        "missed",
        "options",
        "redeliveries",
        "replayed",
        "reserved",
    )

    def __init__(self, floor: int, record: CursorRecord) -> None:
        self.options = record.options
        self.epoch = record.epoch
        self.created_at = record.created_at
        self.floor = floor
        self.reserved = max(record.reserved, floor)
        self.done = Ranges(record.done)
        self.redeliveries = record.redeliveries
        self.dead_letters = record.dead_letters
        self.missed = record.missed
        self.replayed = record.replayed
        self.dead_lettering = record.dead_lettering
        self.expired = record.expired
        """How many messages were skipped because they had expired."""
        self.leases: dict[int, Lease] = {}
        """Shared subscriptions: the leases, by serial."""
        self._counts = dict(record.counts)
        self._suspect = self.reserved
        """Up to this serial, messages may have been delivered before the restart."""
        self._counted = max(self._counts, default=0)
        """Messages beyond this serial have not been delivered since the restart."""
        self._next = floor + 1
        """Shared subscriptions: the first message that no consumer has received since the
        restart."""
        self._returned: list[int] = []
        """Shared subscriptions: serials of returned messages, ascending."""

    def record(self) -> CursorRecord:
        return CursorRecord(
            options=self.options,
            epoch=self.epoch,
            created_at=self.created_at,
            reserved=self.reserved,
            done=tuple(self.done),
            counts={serial: count for serial, count in self._counts.items() if count > 1},
            redeliveries=self.redeliveries,
            dead_letters=self.dead_letters,
            missed=self.missed,
            dead_lettering=self.dead_lettering,
            expired=self.expired,
            replayed=self.replayed,
        )

    def is_done(self, serial: int) -> bool:
        return serial <= self.floor or serial in self.done

    def lag(self, head: int) -> int:
        """How many messages are not acknowledged."""
        return max(0, head - self.floor - self.done.total())

    @property
    def handed_out(self) -> int:
        return len(self.leases) if self.options.shared else len(self._counts)

    # -- handing out ----------------------------------------------------------------------------

    def pick(self, head: int, limit: int, consumer: str, now: float, after: int = 0) -> list[Pick]:
        """Takes the next messages for this consumer, at most `limit`, and counts them as delivered.
        `after` (only unshared subscriptions): the caller already holds the messages up to that
        serial."""
        if self.options.shared:
            serials = self._choose_shared(head, limit)
            until = now + self.options.lease_seconds
            for serial in serials:
                self.leases[serial] = Lease(consumer, until)
        else:
            serials = self._choose_first(min(head, self.floor + MAX_AHEAD), limit, after)
        if not serials or serials[0] <= self._counted or serials[0] <= self._suspect:
            return [self._count(serial) for serial in serials]
        self._counted = serials[-1]
        self._counts.update(dict.fromkeys(serials, 1))
        return [*map(Pick, serials)]

    def _choose_first(self, last: int, limit: int, after: int) -> list[int]:
        serials: list[int] = []
        serial = max(self.floor, after)
        if not self.done and self.dead_lettering <= serial:
            return list(range(serial + 1, min(last, serial + limit) + 1))
        while len(serials) < limit:
            serial = self.done.next_outside(serial + 1)
            if serial > last:
                break
            if serial != self.dead_lettering:
                serials.append(serial)
        return serials

    def _choose_shared(self, head: int, limit: int) -> list[int]:
        room = min(limit, self.options.max_unacknowledged - len(self.leases))
        serials = self._returned[: max(0, room)]
        del self._returned[: len(serials)]
        while len(serials) < room:
            serial = self.done.next_outside(max(self._next, self.floor + 1))
            if serial > head:
                break
            self._next = serial + 1
            if serial != self.dead_lettering:
                serials.append(serial)
        return serials

    def _count(self, serial: int) -> Pick:
        count = self._counts.get(serial, 0) + 1
        self._counts[serial] = count
        if serial > self._counted:
            self._counted = serial
        redelivered = count > 1 or serial <= self._suspect
        self.redeliveries += count > 1
        return Pick(serial, count, redelivered)

    def put_back(self, serials: Iterable[int]) -> None:
        """Returns messages that were picked but could not be delivered."""
        for serial in serials:
            count = self._counts.get(serial, 0) - 1
            self.redeliveries -= count > 0
            if count > 0:
                self._counts[serial] = count
            else:
                self._counts.pop(serial, None)
            if self.leases.pop(serial, None) is not None:
                insort(self._returned, serial)

    def must_reserve(self, picks: Iterable[Pick]) -> bool:
        """Whether the record must be saved before these messages are delivered."""
        highest = max([pick.serial for pick in picks], default=0)
        if highest <= self.reserved:
            return False
        self.reserved = highest + RESERVE_AHEAD
        return True

    def worn_out(self, picks: Iterable[Pick]) -> list[int]:
        """The picked messages that were delivered `max_deliveries` times before: they become dead
        letters."""
        limit = self.options.max_deliveries
        return [pick.serial for pick in picks if pick.deliveries > limit] if limit else []

    # -- leases ---------------------------------------------------------------------------------

    def expire(self, now: float) -> bool:
        """Releases expired leases. Returns whether there were any."""
        expired: list[int] = []
        for serial, lease in self.leases.items():  # those that were handed out first come first
            if lease.until > now:
                break
            expired.append(serial)
        return self._take_back(expired)

    def give_back(self, serials: Iterable[int], consumer: str) -> bool:
        """Returns messages that a consumer does not want to process. Returns whether it held any of
        them."""
        return self._take_back(
            [s for s in serials if s in self.leases and self.leases[s].consumer == consumer]
        )

    def _take_back(self, serials: list[int]) -> bool:
        for serial in serials:
            del self.leases[serial]
            insort(self._returned, serial)
        return bool(serials)

    # -- done -----------------------------------------------------------------------------------

    def acknowledge(self, serials: Iterable[int], head: int) -> int:
        """Returns how many of the messages were newly acknowledged."""
        wanted = set(serials)
        self._check(max(wanted, default=0), min(wanted, default=1), head)
        fresh = [s for s in wanted if s > self.floor and s not in self.done]
        for serial in fresh:
            self._finish(serial)
            self.done.add(serial)
        self._raise_floor()
        return len(fresh)

    def pass_expired(self, serials: Iterable[int], head: int) -> int:
        """Acknowledges expired messages. Returns how many were newly acknowledged."""
        fresh = self.acknowledge(serials, head)
        self.expired += fresh
        return fresh

    def acknowledge_up_to(self, serial: int, head: int, consumer: str) -> int:
        """Acknowledges everything up to a serial; on a shared subscription, only what this consumer
        holds."""
        self._check(serial, max(serial, 1), head)
        if self.options.shared:
            held = [s for s, lease in self.leases.items() if lease.consumer == consumer]
            return self.acknowledge([s for s in held if s <= serial], head)
        fresh = serial - self.floor - self.done.count_between(self.floor + 1, serial)
        self.pass_over(serial)
        return max(0, fresh)

    def pass_over(self, serial: int) -> None:
        """Acknowledges every message up to this serial, whether delivered or not."""
        if serial <= self.floor:
            return
        if self._counted <= serial:
            self._counts.clear()
            self.leases.clear()
        for each in [s for s in self._counts if s <= serial]:
            del self._counts[each]
            self.leases.pop(each, None)
        self._returned = [s for s in self._returned if s > serial]
        if self.dead_lettering <= serial:
            self.dead_lettering = 0
        self.floor = serial
        self._raise_floor()

    def lose_before(self, first: int) -> int:
        """The channel's oldest message is now `first`. Returns how many of the deleted messages
        were not acknowledged."""
        if first - 1 <= self.floor:
            return 0
        lost = first - 1 - self.floor - self.done.count_between(self.floor + 1, first - 1)
        self.missed += lost
        self.pass_over(first - 1)
        return lost

    def _finish(self, serial: int) -> None:
        self._counts.pop(serial, None)
        if self.leases.pop(serial, None) is None and serial in self._returned:
            self._returned.remove(serial)
        if serial == self.dead_lettering:
            self.dead_lettering = 0

    def _raise_floor(self) -> None:
        self.floor = self.done.next_outside(self.floor + 1) - 1
        self.done.drop_up_to(self.floor)
        self._next = max(self._next, self.floor + 1)

    @staticmethod
    def _check(highest: int, lowest: int, head: int) -> None:
        if lowest < 1:
            raise BadRequest(f"serial {lowest} is none: they count from 1")
        if highest > head:
            raise Conflict(
                f"serial {highest} is beyond the channel's newest message, {head}; "
                "acknowledge only what was handed out"
            )
