"""Fan-out: writes a channel's messages to all of its subscribers on this node.

A send costs a few microseconds whatever its size, so the aim is to send rarely: everything that a
group of subscribers receives in one turn of the event loop is packed once, and written as the same
bytes to each of them. The work is sliced, alternating between hubs, so that nobody waits for a hub
with a large audience."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

import msgspec

from hubbub.domain.messages import Message
from hubbub.domain.slices import adapted
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.tally import Deliveries, Noted, Tally
from hubbub.ports import randomness
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Pausable, Transmitter
from hubbub.ports.encoding import Encoder

SLICE_WRITES, LEAST_WRITES = 128, 8
"""Maximum and minimum number of writes in one turn of the event loop. A large write counts as
several."""
SLICE_BYTES = 512 * 1024
SLICE_SECONDS = 0.002
"""Writes that take longer halve the number of writes in the next turn; less than half of it doubles
the number. A write takes from 3 us to 100 us, depending on the kernel's memory allocation."""
CONGESTED_BYTES = 256 * 1024
RESTING_BYTES = 64 * 1024
REST_SECONDS = 0.005
PATIENCE_RESTS = 100
LITTLE_BYTES = 16 * 1024
"""What is written at once, at most, to each of at most `LEAST_WRITES` subscribers."""
TOGETHER_SECONDS = 5e-6
"""Data of two clients belongs to the same turn of the event loop if no more time than this lies
between the end of the one's work and the beginning of the other's."""
_SAMPLE = 256
"""Subscribers that are examined before a group rests; random ones in a larger group."""


@dataclass(slots=True, eq=False)
class DeliveryQueue:
    """The groups of one hub with pending writes."""

    counters: HubCounters
    groups: deque[Group] = field(default_factory=deque)
    congested: set[Group] = field(default_factory=set)
    in_rotation: bool = False


class _Job(msgspec.Struct, eq=False):
    """Packed bytes, and the connections that were subscribed when they were packed."""

    data: bytes
    targets: list[Connection]
    units: int
    noted: Noted | None
    done: int = 0
    gone: set[Connection] | None = None

    def waits_for(self, connection: Connection) -> bool:
        """Whether the bytes are still to be written to this connection."""
        return connection in self.targets[self.done :] and connection not in (self.gone or ())

    def next_targets(self, count: int) -> list[Connection]:
        targets = self.targets[self.done : self.done + count]
        self.done += len(targets)
        if self.gone:
            targets = [target for target in targets if target not in self.gone]
        return targets


@dataclass(slots=True, eq=False)
class Group:
    """Subscribers of one channel that receive the same bytes."""

    encoder: Encoder
    delivery_queue: DeliveryQueue
    tally: Tally | None = None
    """Counts deliveries for the journal, if enabled."""
    connections: dict[Connection, Subscriber | None] = field(default_factory=dict)
    """Connections with their owners, if requested."""
    queued: bool = False
    _noted: Noted | None = None
    _units: list[bytes] = field(default_factory=list)
    _size: int = 0
    _jobs: list[_Job] = field(default_factory=list)
    _paused: set[Pausable] | None = None
    _rests: int = 0

    def add(self, connection: Connection, subscriber: Subscriber | None = None) -> None:
        """Delivers to the connection everything sent from now on."""
        self._pack()
        self.connections[connection] = subscriber

    def take_out(self, connection: Connection) -> list[bytes]:
        """Removes the connection from the group, and returns the packed bytes that it was not sent
        yet."""
        self._pack()
        left = [job for job in self._jobs if job.waits_for(connection)]
        self.remove(connection)
        for job in left:
            self._count(job, 1)
        return [job.data for job in left]

    def remove(self, connection: Connection) -> None:
        """Stops all delivery to the connection, including bytes already packed for it."""
        self.connections.pop(connection, None)
        for job in self._jobs:
            if job.gone is None:
                job.gone = set()
            job.gone.add(connection)

    def put(self, unit: bytes) -> None:
        self._units.append(unit)
        self._size += len(unit)
        if self._size > CONGESTED_BYTES:
            self.delivery_queue.congested.add(self)

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > CONGESTED_BYTES:
            self.delivery_queue.congested.add(self)

    @property
    def congested(self) -> bool:
        return self in self.delivery_queue.congested

    def note(self, message: Message, epoch: str) -> None:
        """Records that the unit put last contains this message."""
        if self.tally is None:
            return
        if self._noted is None:
            self._noted = self.tally.first_noted(message, epoch)
        else:
            self.tally.note(self._noted, message)

    def hold_back(self, publisher: Pausable) -> None:
        """Whether publishers must wait until the backlog is written."""
        if self._paused is None:
            self._paused = set()
        if publisher not in self._paused:
            self._paused.add(publisher)
            publisher.pause_reading()

    def written(self) -> None:
        """All packed bytes were written: publishers may continue."""
        self.queued = False
        self.delivery_queue.congested.discard(self)
        paused, self._paused = self._paused, None
        for publisher in paused or ():
            publisher.resume_reading()

    def needs_rest(self) -> bool:
        """Whether the backlog is large because publishers are faster than most subscribers: then
        the publishers wait, instead of the subscribers being disconnected. A majority that does not
        catch up within `PATIENCE_RESTS` gets no further rests until it has."""
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
            looked_at = randomness.sample(looked_at, _SAMPLE)
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
        """Whether anything is to be written."""
        return bool(self._jobs or self._units)

    def write(self, transmit: Transmitter, budget: int) -> int:
        """Writes one slice; returns the number of writes."""
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

    def write_little(self, transmit: Transmitter) -> bool:
        """Writes all units to all subscribers, if there are few of both and nothing else waits."""
        if len(self.connections) > LEAST_WRITES or self._size > LITTLE_BYTES or self._jobs:
            return False
        units, self._units, self._size = self._units, [], 0
        data = self.encoder.pack(units)
        targets = list(self.connections)
        transmit(targets, data)
        count = len(targets)
        counters = self.delivery_queue.counters
        counters.messages_out += len(units) * count
        counters.bytes_out += len(data) * count
        noted = self._noted
        if noted is not None:
            self._noted = None
            if self.tally is not None:
                self.tally.written_at_once(noted, count)
        return True

    def _count(self, job: _Job, targets: int) -> None:
        counters = self.delivery_queue.counters
        counters.messages_out += job.units * targets
        counters.bytes_out += len(job.data) * targets
        if job.noted is not None and self.tally is not None:
            self.tally.written(job.noted, targets)


class Fanout:
    """All groups of a node with pending writes."""

    def __init__(
        self, transmit: Transmitter, clock: Clock, deliveries: Deliveries | None = None
    ) -> None:
        """`deliveries` count only with a journal."""
        self.deliveries = deliveries
        self._transmit = transmit
        self._clock = clock
        self._writes = SLICE_WRITES
        """The number of writes allowed per turn, adapted to their current duration."""
        self._at_once = False
        """Whether `finish` will be called."""
        self._little: Group | None = None
        """The group that `finish` writes."""
        self._finished = 0.0
        """When that was last done."""
        self._rotation: deque[DeliveryQueue] = deque()
        self._scheduled = False

    def begin(self, now: float) -> bool:
        """Called with the present time when a client's data is about to be handled. True: the
        caller calls `finish` at the end, which writes at once what is little. False: other data was
        handled just before, so that what comes together had better be packed together."""
        if self._scheduled or now - self._finished < TOGETHER_SECONDS:
            return False
        self._at_once = True
        return True

    def finish(self) -> None:
        self._at_once = False
        group, self._little = self._little, None
        if group is not None:
            group.queued = False
            if not group.write_little(self._transmit):
                self.schedule(group)
            self._finished = self._clock.monotonic()

    def send(self, group: Group, unit: bytes) -> None:
        """Sends to the whole group, in this turn of the event loop if time permits."""
        group.put(unit)
        if not group.queued:
            group.queued = True
            if self._at_once and self._little is None:
                self._little = group
            else:
                self._queue(group)

    def schedule(self, group: Group) -> None:
        """Queues a group that has, or may have, something to write."""
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
        """One turn: writes slices of one hub after another. Every hub has a share of the turn:
        otherwise ten hubs, each left one write by a large one, would need ten turns."""
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
        """Lets one group of the hub write a slice; returns its cost."""
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
