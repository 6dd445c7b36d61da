"""The subscribing process: receives as fast as it can, counts marks and samples latencies.

One epoll loop and one buffer. Frames are not parsed: a piece of the stream costs one system
call and one search, so the process keeps up with servers that are written in C.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.load.board import Board, CpuWatch, Phase, Slot
from benchmarks.load.connections import open_connections
from benchmarks.load.histogram import Histogram
from benchmarks.load.stamp import ChunkCounter
from benchmarks.load.wire import Route

_EVENTS_AT_ONCE = 512
_STALLED_BUFFER = 4096
_FEW = 100
_SAMPLE_EVERY = 7  # pieces, when there are many subscribers; no divisor of their usual numbers


@dataclass(frozen=True, slots=True)
class Audience:
    """The subscribers of a load: `count` read, `stalled` subscribe first and never read.

    `niceness` puts them behind another load's in the system's queue for the CPU.
    """

    route: Route
    count: int
    stalled: int = 0
    niceness: int = 0


@dataclass(frozen=True, slots=True)
class Received:
    """What the subscribers saw while the load was counted; `cut` is how many stalled were."""

    latency: Histogram
    cut: int
    cpu_seconds: float
    wall_seconds: float


def subscribe(board: Board, ready: Callable[[], None], audience: Audience) -> Received:
    """Runs the audience until the load ends."""
    os.nice(audience.niceness)
    deaf = list(open_connections(audience.route, audience.stalled, audience.count, _STALLED_BUFFER))
    connections = list(open_connections(audience.route, audience.count))
    swarm = _Swarm(board, connections)
    board[Slot.SUBSCRIBERS] = audience.count
    ready()
    cpu_seconds, wall_seconds = swarm.run()
    cut = sum(_was_cut(connection) for connection in deaf)
    for connection in [*connections, *deaf]:
        connection.close()
    return Received(swarm.latency, cut, cpu_seconds, wall_seconds)


class _Swarm:
    def __init__(self, board: Board, connections: list[socket.socket]) -> None:
        self._board = board
        self._counter = ChunkCounter()
        self._poll = select.epoll()
        self.latency = Histogram()
        self._sample_every = 1 if len(connections) <= _FEW else _SAMPLE_EVERY
        self._pieces = 0
        # By file descriptor, since that is what the poll returns.
        size = 1 + max((connection.fileno() for connection in connections), default=0)
        self._connections: list[socket.socket] = [socket.socket()] * size
        self._tails = [self._counter.start()] * size
        for connection in connections:
            self._connections[connection.fileno()] = connection
            self._poll.register(connection, select.EPOLLIN)

    def run(self) -> tuple[float, float]:
        """CPU and wall seconds of the counted time."""
        slots, poll, watch = self._board.slots, self._poll.poll, CpuWatch()
        while (phase := slots[Slot.PHASE]) != Phase.EXIT:
            watch.follow(phase)
            events = poll(0.05, _EVENTS_AT_ONCE)
            if events:
                self._receive(events, phase == Phase.COUNT)
        watch.follow(Phase.EXIT)
        self._poll.close()
        return watch.seconds

    def _receive(self, events: list[tuple[int, int]], counting: bool) -> None:
        counter, tails, connections = self._counter, self._tails, self._connections
        room, take, tail, delivered = counter.room, counter.take, counter.tail, 0
        pieces, every = self._pieces, self._sample_every
        for fd, _ in events:
            try:
                size = connections[fd].recv_into(room)
            except BlockingIOError:
                continue
            except ConnectionError:
                size = 0
            if not size:
                self._forget(fd)
                continue
            pieces += 1
            marks = take(tails[fd], size)
            tails[fd] = tail()
            delivered += marks
            if counting and not pieces % every:
                self._record(time.time_ns(), marks)
        self._pieces = pieces
        slots = self._board.slots
        slots[Slot.DELIVERED] += delivered
        slots[Slot.CHUNKS] += len(events)

    def _record(self, arrived: int, marks: int) -> None:
        """Many messages arrive at once when a server batches: half of them are given the age of
        the oldest, half that of the newest."""
        first, last = self._counter.first_and_last()
        if not first:
            return  # no message, or one that is cut within its stamp
        self.latency.record(arrived - first, marks - marks // 2)
        if marks > 1:
            self.latency.record(arrived - last, marks // 2)

    def _forget(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._board[Slot.CLOSED] += 1


def _was_cut(connection: socket.socket) -> bool:
    """Whether the server closed a connection that nobody reads."""
    connection.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        try:
            while connection.recv(1 << 20):
                pass
        except ConnectionError:
            pass
        return True
    return False
