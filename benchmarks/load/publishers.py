"""The publishing process: a steady rate, or as much as the subscribers take."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.load.board import Board, CpuWatch, Phase, Slot
from benchmarks.load.connections import open_connections
from benchmarks.load.stamp import Template
from benchmarks.load.wire import Publication, frame

_PAUSE_SECONDS = 0.0002
_BATCH = 64


@dataclass(frozen=True, slots=True)
class Steady:
    """Open loop: a message is due every `1 / per_second` seconds, whatever came of the last."""

    per_second: float


@dataclass(frozen=True, slots=True)
class Window:
    """Closed loop: `outstanding` messages are published and not yet delivered to everyone."""

    outstanding: int


@dataclass(frozen=True, slots=True)
class Flood:
    """Without regard to deliveries: only the server's own back-pressure slows it."""


Pace = Steady | Window | Flood


@dataclass(frozen=True, slots=True)
class Published:
    """What the publisher used while the load was counted."""

    cpu_seconds: float
    wall_seconds: float


def publish(
    board: Board,
    ready: Callable[[], None],
    publication: Publication,
    pace: Pace,
    niceness: int = 0,
) -> Published:
    """Publishes at `pace` from the load's start to its end."""
    os.nice(niceness)
    (connection,) = open_connections(publication.route, 1)
    publisher = _Publisher(board, connection, publication)
    ready()
    watch = CpuWatch()
    due = 0.0
    while (phase := board.slots[Slot.PHASE]) != Phase.EXIT:
        watch.follow(phase)
        publisher.drop_replies()
        if phase not in (Phase.WARM, Phase.COUNT):
            time.sleep(0.005)
            continue
        if isinstance(pace, Steady):
            due = publisher.send_due(due or time.monotonic(), 1 / pace.per_second)
        elif isinstance(pace, Window):
            publisher.fill(pace.outstanding)
        else:
            publisher.send(_BATCH)
    watch.follow(Phase.EXIT)
    connection.close()
    return Published(*watch.seconds)


class _Publisher:
    def __init__(self, board: Board, connection: socket.socket, publication: Publication) -> None:
        self._board = board
        self._connection = connection
        self._template = Template(publication.message)
        self._framing = publication.framing
        self._left = b""

    def send_due(self, due: float, interval: float) -> float:
        """Sends what is due by now, waits for the next; when that is due."""
        now = time.monotonic()
        if due > now:
            time.sleep(min(due - now, 0.05))
            return due
        late = int((now - due) / interval) + 1
        count = min(late, 4096)
        self.send(count)
        return due + count * interval

    def fill(self, outstanding: int) -> None:
        slots = self._board.slots
        delivered = slots[Slot.DELIVERED] // max(1, slots[Slot.SUBSCRIBERS])
        room = outstanding - (slots[Slot.SENT] - delivered)
        if room > 0:
            self.send(min(room, _BATCH))
        else:
            time.sleep(_PAUSE_SECONDS)

    def send(self, count: int) -> None:
        fill, framing, now = self._template.fill, self._framing, time.time_ns
        sent = self._board[Slot.SENT]
        for number in range(sent, sent + count):
            self._left += frame(framing, fill(now(), number))
        self._board[Slot.SENT] = sent + count
        while self._left and self._board.slots[Slot.PHASE] != Phase.EXIT:
            try:
                self._left = self._left[self._connection.send(self._left) :]
            except BlockingIOError:
                self.drop_replies()
                time.sleep(_PAUSE_SECONDS)

    def drop_replies(self) -> None:
        try:
            while self._connection.recv(65536):
                pass
        except BlockingIOError:
            return
        raise ConnectionError("the server closed the publisher's connection")
