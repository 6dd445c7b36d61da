"""Shares the event loop between HTTP connections that have more requests than fit into one turn."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

SLICE_REQUESTS = 16
"""Requests of one connection that are answered before the next connection has its turn."""
SLICE_BYTES = 32 * 1024
"""The same in bytes that are read."""
_TURN_COST = 256
"""What all connections may use up in one turn of the loop: 1 for a request and for 512 bytes."""


class Served(Protocol):
    """A connection in the queue; it enters the queue once."""

    def take_turn(self) -> None:
        """Answer a slice, and wait for another turn if there is more."""


class Turns:
    """Who comes while others wait gets in line behind them."""

    __slots__ = ("_queue", "_scheduled", "left")

    def __init__(self) -> None:
        self.left = _TURN_COST
        """What may still be used up before everybody has to wait for the next turn of the loop.
        It counts on over turns in which there is little to do, which costs nothing to keep."""
        self._queue: deque[Served] = deque()
        self._scheduled = False

    def charge(self, requests: int, size: int) -> None:
        self.left -= requests + (size >> 9)

    def wait(self, connection: Served) -> None:
        self._queue.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn: each connection in the queue once, as far as that goes."""
        self._scheduled = False
        self.left = _TURN_COST
        try:
            for _ in range(len(self._queue)):
                if self.left <= 0:
                    break
                self._queue.popleft().take_turn()
        finally:  # also after a fault, which must not silence the others
            if self._queue:
                self._schedule()
