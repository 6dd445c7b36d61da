"""Fan-out: writes what a channel says to all of its subscribers on this node.

One send costs a few microseconds whatever is in it, so what counts is to send rarely: all that a
group of subscribers must get within one turn of the loop is packed once and written as the same
bytes to each of them. The work is done in slices, in turns between hubs, so that nobody waits for
a hub with a large audience.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from random import sample

import msgspec

from hubbub.domain.messages import Message
from hubbub.domain.slices import adapted
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.tally import Deliveries, Noted, Tally
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Pausable, Transmitter
from hubbub.ports.encoding import Encoder

SLICE_WRITES, LEAST_WRITES = 128, 8
"""Writes in one turn of the loop, at most and at least. A large write counts as several."""
SLICE_BYTES = 512 * 1024
SLICE_SECONDS = 0.002
"""Writes that take longer halve what is written in the next turn; less than half of it doubles
that. A write takes from 3 us to 100 us, as the kernel finds memory for its bytes."""
CONGESTED_BYTES = 256 * 1024
RESTING_BYTES = 64 * 1024
REST_SECONDS = 0.005
PATIENCE_RESTS = 100
_SAMPLE = 256
"""Subscribers that are looked at before a group rests; in a larger group, chosen at random."""


@dataclass(slots=True, eq=False)
class DeliveryQueue:
    """The groups of one hub that have something to write."""

    counters: HubCounters
    groups: deque[Group] = field(default_factory=deque)
    congested: set[Group] = field(default_factory=set)
    in_rotation: bool = False


class _Job(msgspec.Struct, eq=False):
    """Packed bytes on their way to those who were subscribed when they were packed."""

    data: bytes
    targets: list[Connection]
    units: int
    noted: Noted | None
    done: int = 0
    gone: set[Connection] | None = None

    def waits_for(self, connection: Connection) -> bool:
        """The connection has yet to be written."""
        return connection in self.targets[self.done :] and connection not in (self.gone or ())

    def next_targets(self, count: int) -> list[Connection]:
        targets = self.targets[self.done : self.done + count]
        self.done += len(targets)
        if self.gone:
            targets = [target for target in targets if target not in self.gone]
        return targets


@dataclass(slots=True, eq=False)
class Group:
    """Subscribers of one channel that take the same bytes."""

    encoder: Encoder
    delivery_queue: DeliveryQueue
    tally: Tally | None = None
    """Where deliveries are counted for the journal, if they are."""
    connections: dict[Connection, Subscriber | None] = field(default_factory=dict)
    """With whose they are, where somebody asks."""
    queued: bool = False
    _noted: Noted | None = None
    _units: list[bytes] = field(default_factory=list)
    _size: int = 0
    _jobs: list[_Job] = field(default_factory=list)
    _paused: set[Pausable] | None = None
    _rests: int = 0

    def add(self, connection: Connection, subscriber: Subscriber | None = None) -> None:
        """The connection gets everything from here on, and nothing that was said before."""
        self._pack()
        self.connections[connection] = subscriber

    def take_out(self, connection: Connection) -> list[bytes]:
        """The connection leaves the group. Answers the packed bytes that it has yet to be
        written."""
        self._pack()
        left = [job for job in self._jobs if job.waits_for(connection)]
        self.remove(connection)
        for job in left:
            self._count(job, 1)
        return [job.data for job in left]

    def remove(self, connection: Connection) -> None:
        """It gets nothing more, not even what is already on its way to the others."""
        self.connections.pop(connection, None)
        for job in self._jobs:
            if job.gone is None:
                job.gone = set()
            job.gone.add(connection)

    def put(self, unit: bytes) -> None:
        self._units.append(unit)
        self._grow(len(unit))

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > CONGESTED_BYTES:
            self.delivery_queue.congested.add(self)

    @property
    def congested(self) -> bool:
        return self in self.delivery_queue.congested

    def note(self, message: Message, epoch: str) -> None:
        """The unit that was put last is this message."""
        if self.tally is not None:
            if self._noted is None:
                self._noted = Noted(epoch)
            self.tally.note(self._noted, message)

    def hold_back(self, publisher: Pausable) -> None:
        """So much has gathered that who publishes here has to wait until it is written."""
        if self._paused is None:
            self._paused = set()
        if publisher not in self._paused:
            self._paused.add(publisher)
            publisher.pause_reading()

    def written(self) -> None:
        """Everything is on its way: publishers may go on."""
        self.queued = False
        self.delivery_queue.congested.discard(self)
        paused, self._paused = self._paused, None
        for publisher in paused or ():
            publisher.resume_reading()

    def needs_rest(self) -> bool:
        """Much is waiting, and most of the subscribers have not taken in what they were sent: it
        is the publishers who are too fast, so let those wait rather than cut these off. A majority
        that does not catch up within `PATIENCE_RESTS` is not waited for again before it has."""
        if self._jobs or not RESTING_BYTES <= self._size <= 2 * CONGESTED_BYTES:
            return False
        if not self._most_are_behind():
            self._rests = 0
            return False
        self._rests += 1
        return self._rests <= PATIENCE_RESTS

    def _most_are_behind(self) -> bool:
        looked_at = list(self.connections)
        if len(looked_at) > _SAMPLE:
            looked_at = sample(looked_at, _SAMPLE)
        return sum(connection.behind for connection in looked_at) * 2 > len(looked_at)

    def _pack(self) -> None:
        self._pack_units()

    def _pack_units(self) -> None:
        if self._units:
            units, self._units, self._size = self._units, [], 0
            job = _Job(self.encoder.pack(units), list(self.connections), len(units), self._noted)
            self._noted = None
            self._jobs.append(job)

    @property
    def waits(self) -> bool:
        """There is something to write."""
        return bool(self._jobs or self._units)

    def write(self, transmit: Transmitter, budget: int) -> int:
        """Write one slice; answers how many writes it took."""
        if not self._jobs:
            self._pack()
        job = self._jobs[0]
        fit = SLICE_BYTES * budget // SLICE_WRITES // (len(job.data) + 1)
        count = max(1, min(budget, fit))
        targets = job.next_targets(count)
        transmit(targets, job.data)
        self._count(job, len(targets))
        if job.done >= len(job.targets):
            del self._jobs[0]
        return max(len(targets), 1, len(targets) * len(job.data) * SLICE_WRITES // SLICE_BYTES)

    def _count(self, job: _Job, targets: int) -> None:
        counters = self.delivery_queue.counters
        counters.messages_out += job.units * targets
        counters.bytes_out += len(job.data) * targets
        if job.noted is not None and self.tally is not None:
            self.tally.written(job.noted, targets)


class Fanout:
    """All groups of a node that have something to write."""

    def __init__(
        self, transmit: Transmitter, clock: Clock, deliveries: Deliveries | None = None
    ) -> None:
        """`deliveries` are counted if there is a journal."""
        self.deliveries = deliveries
        self._transmit = transmit
        self._clock = clock
        self._writes = SLICE_WRITES
        """Allowed in a turn, as writes take at present."""
        self._rotation: deque[DeliveryQueue] = deque()
        self._scheduled = False

    def send(self, group: Group, unit: bytes) -> None:
        """Say it to the whole group, in this turn of the loop if there is time."""
        group.put(unit)
        if not group.queued:
            group.queued = True
            self._queue(group)

    def schedule(self, group: Group) -> None:
        """The group has something to write, or to find out whether it has."""
        if not group.queued:
            group.queued = True
            self._queue(group)

    def _queue(self, group: Group) -> None:
        delivery_queue = group.delivery_queue
        delivery_queue.groups.append(group)
        if not delivery_queue.in_rotation:
            delivery_queue.in_rotation = True
            self._rotation.append(delivery_queue)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn: some slices, from one hub after the other. Each has its share of the turn: what
        a hub with a large audience left of it was one write, so that ten took ten turns."""
        budget = self._writes
        share = max(LEAST_WRITES, budget // max(1, len(self._rotation)))
        began = self._clock.monotonic()
        try:
            while self._rotation and budget > 0:
                delivery_queue = self._rotation.popleft()
                try:
                    budget -= self._serve(delivery_queue, min(budget, share))
                finally:  # also after a fault, which must not silence the others
                    delivery_queue.in_rotation = bool(delivery_queue.groups)
                    if delivery_queue.in_rotation:
                        self._rotation.append(delivery_queue)
        finally:
            took = self._clock.monotonic() - began
            self._writes = adapted(self._writes, took, SLICE_SECONDS, LEAST_WRITES, SLICE_WRITES)
            self._scheduled = bool(self._rotation)
            if self._scheduled:
                asyncio.get_running_loop().call_soon(self._run)

    def _serve(self, delivery_queue: DeliveryQueue, budget: int) -> int:
        """Let one group of the hub write a slice; answers what it cost."""
        group = delivery_queue.groups.popleft()
        if group.needs_rest():
            asyncio.get_running_loop().call_later(REST_SECONDS, self._queue, group)
            return 1
        cost = group.write(self._transmit, budget)
        if group.waits:
            delivery_queue.groups.append(group)
        else:
            group.written()
        return cost
