"""The requesting process: connections that each wait for an answer before they ask again."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.load.board import Board, CpuWatch, Phase, Slot
from benchmarks.load.connections import open_connections
from benchmarks.load.histogram import Histogram
from benchmarks.load.stamp import ChunkCounter, Template
from benchmarks.load.wire import Publication, frame


@dataclass(frozen=True, slots=True)
class Requests:
    """What to ask. `answer` is found once in each good answer, and in no other."""

    publication: Publication
    answer: bytes
    connections: int
    depth: int = 1  # requests under way on one connection
    limit: int = 0  # requests in all; 0 goes on until the load ends


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back while the load was counted; `odd` is an answer that was not a good one."""

    latency: Histogram
    odd: bytes
    cpu_seconds: float
    wall_seconds: float


def request(board: Board, ready: Callable[[], None], requests: Requests) -> Answered:
    """Asks from the load's start to its end."""
    connections = list(open_connections(requests.publication.route, requests.connections))
    asker = _Asker(board, requests, connections)
    ready()
    while board.phase < Phase.WARM:
        time.sleep(0.001)
    answered = asker.run()
    for connection in connections:
        connection.close()
    return answered


class _Asker:
    def __init__(self, board: Board, requests: Requests, connections: list[socket.socket]) -> None:
        self._board = board
        self._requests = requests
        self._framing = requests.publication.framing
        self._template = Template(requests.publication.message)
        self._counter = ChunkCounter(requests.answer)
        self._by_fd = {connection.fileno(): connection for connection in connections}
        self._tails = dict.fromkeys(self._by_fd, self._counter.start())
        self._asked_at = dict.fromkeys(self._by_fd, 0)
        self._latency = Histogram()
        self._odd = b""
        self._poll = select.epoll()

    def run(self) -> Answered:
        watch, slots = CpuWatch(), self._board.slots
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)
            self._ask(fd, self._requests.depth)
        while (phase := slots[Slot.PHASE]) != Phase.EXIT:
            watch.follow(phase)
            answers = 0
            for fd, _ in self._poll.poll(0.05, 512):
                answers += self._receive(fd, phase)
            slots[Slot.DELIVERED] += answers
        watch.follow(Phase.EXIT)
        self._poll.close()
        return Answered(self._latency, self._odd, *watch.seconds)

    def _receive(self, fd: int, phase: int) -> int:
        size = self._by_fd[fd].recv_into(self._counter.room)
        if not size:
            self._board[Slot.CLOSED] += 1
            self._poll.unregister(fd)
            return 0
        answers = self._counter.take(self._tails[fd], size)
        self._tails[fd] = self._counter.tail()
        if not answers:
            self._odd = self._counter.text()[:300]
            return 0
        if phase == Phase.COUNT:
            self._latency.record(time.monotonic_ns() - self._asked_at[fd], answers)
        if phase < Phase.DRAIN:
            self._ask(fd, answers)
        return answers

    def _ask(self, fd: int, count: int) -> None:
        sent, limit = self._board[Slot.SENT], self._requests.limit
        if limit:
            count = min(count, limit - sent)
        if count <= 0:
            return
        fill, framing, stamp = self._template.fill, self._framing, time.time_ns()
        pieces = [frame(framing, fill(stamp, sent + number)) for number in range(count)]
        self._board[Slot.SENT] = sent + count
        self._asked_at[fd] = time.monotonic_ns()
        self._by_fd[fd].sendall(b"".join(pieces))
