"""The process of clients that stay connected and only answer the hub's heartbeats."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks.load.board import Board, Phase, Slot, Worker
from benchmarks.load.connections import open_connections
from benchmarks.load.subscribers import Audience
from benchmarks.load.wire import Framing, frame

_PONG = frame(Framing.TEXT, b'{"event":"Pong","payload":{}}')
_EVENTS_AT_ONCE = 512


def stay(board: Board, ready: Callable[[], None], audience: Audience) -> int:
    """Answers `Ping` until the load ends. Returns how many heartbeats were answered."""
    connections = {one.fileno(): one for one in open_connections(audience.route, audience.count)}
    board[Slot.SUBSCRIBERS] = audience.count
    ready()
    answered = 0
    with select.epoll() as poll:
        for number in connections:
            poll.register(number, select.EPOLLIN)
        while board.phase != Phase.EXIT:
            for number, _ in poll.poll(0.1, _EVENTS_AT_ONCE):
                received = _receive(connections[number])
                if not received:
                    poll.unregister(number)
                    board[Slot.CLOSED] += 1
                elif b'"Ping"' in received:
                    connections[number].sendall(_PONG)
                    answered += 1
    for connection in connections.values():
        connection.close()
    return answered


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionError:
        return b""


@contextmanager
def residents(audiences: Sequence[Audience]) -> Iterator[Callable[[], tuple[int, int]]]:
    """Connected clients, a process for each audience. What is yielded ends them, and answers how
    many heartbeats they answered and how many of them were closed by the hub."""
    boards = [Board() for _ in audiences]
    workers = [
        Worker(board, stay, audience) for board, audience in zip(boards, audiences, strict=True)
    ]

    def end() -> tuple[int, int]:
        closed = sum(board[Slot.CLOSED] for board in boards)
        for board in boards:
            board.phase = Phase.EXIT
        return sum(worker.result() for worker in workers), closed

    try:
        for worker in workers:
            worker.wait_ready()
        yield end
    finally:
        for worker in workers:
            worker.stop()
