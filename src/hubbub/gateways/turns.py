"""Shares the event loop between connections of all kinds that have more requests than fit into one
turn: HTTP, WebSocket, ZeroMQ.

Whoever used least of late comes first, by client address and then by connection. So a caller with
many connections, or with thousands of requests ahead of their answers, waits for itself: others,
who ask for little, find the queue as if it were empty.

An answer takes several turns of the loop (tasks, the store, fan-out), so turns must be short. How
many requests fit into one follows from how long those of the last turn took. What a turn does
besides, such as fan-out, does not count: fewer requests in a turn would not shorten it, but make
smaller batches.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import Protocol
from weakref import WeakValueDictionary

from hubbub.domain.limits import network_of
from hubbub.domain.slices import adapted
from hubbub.ports.clock import Clock

SLICE_REQUESTS = 16
"""Requests of one connection that are answered before the next that waits has its turn."""
SLICE_BYTES = 32 * 1024
"""The same in bytes that are read."""
TURN_COST, LEAST_COST = 128, 8
"""What all connections may use up in one turn of the loop, at most and at least: 1 for a request
and for 512 bytes."""
LONG_COST = 8
"""What a request uses up beyond that if it goes on after its turn: a new session, a page of
history, each channel of a subscription. Each takes as long as several messages, in the turns that
follow."""
TURN_SECONDS = 0.002
"""Requests that take longer halve what may be used up in the next turn; less than half of it
doubles that."""
_WINDOW_SECONDS = 1.0


class Usage:
    """What somebody used up: in all, and within the last one to two seconds."""

    __slots__ = ("_before", "_mark", "_window", "total")

    def __init__(self) -> None:
        self.total = 0
        self._before = 0
        """The total when the window before this one began."""
        self._mark = 0
        """The total when this window began."""
        self._window = 0

    def recent(self, window: int) -> int:
        """`window` is the number of the present window, which counts up."""
        if window != self._window:
            self._before = self._mark if window == self._window + 1 else self.total
            self._mark = self.total
            self._window = window
        return self.total - self._before


class Address(Usage):
    """A client address, and its connections that wait: who used least comes first."""

    __slots__ = ("__weakref__", "queue", "queued")

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[tuple[int, int, Served]] = []
        self.queued = False


class Served(Protocol):
    """A connection in the queue; it enters the queue once."""

    address: Address
    usage: Usage

    def take_turn(self) -> None:
        """Answer a slice, and wait for another turn if there is more."""


class Turns:
    """The queue of all connections that wait."""

    __slots__ = (
        "_addresses",
        "_clock",
        "_cost",
        "_number",
        "_queue",
        "_scheduled",
        "_waiting",
        "_window",
        "left",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cost = TURN_COST
        """What may be used up in a turn, as requests take at present."""
        self.left = TURN_COST
        """What may still be used up before everybody has to wait for the next turn of the loop.
        It counts on over turns in which there is little to do, which costs nothing to keep; the
        next turn has all of it again once half is used up."""
        self._addresses: WeakValueDictionary[str, Address] = WeakValueDictionary()
        self._queue: list[tuple[int, int, Address]] = []
        """Those of which connections wait."""
        self._number = 0
        self._waiting = 0
        self._window = 0
        self._scheduled = False

    def address_of(self, peer: str) -> Address:
        """Shared by all connections of the address, as long as one of them holds it."""
        network = network_of(peer)
        found = self._addresses.get(network)
        if found is None:
            found = self._addresses[network] = Address()
        return found

    def charge(self, connection: Served, requests: int, size: int) -> None:
        cost = requests + (size >> 9)
        self.left -= cost
        connection.usage.total += cost
        connection.address.total += cost
        if self.left < self._cost >> 1 and not self._scheduled:
            self._schedule()

    def wait(self, connection: Served) -> None:
        if not self._scheduled:
            self._schedule()
        self._waiting += 1
        self._number += 1
        address = connection.address
        used = connection.usage.recent(self._window)
        heappush(address.queue, (used, self._number, connection))
        self._enter(address)

    def _enter(self, address: Address) -> None:
        if address.queue and not address.queued:
            address.queued = True
            self._number += 1
            heappush(self._queue, (address.recent(self._window), self._number, address))

    def _schedule(self) -> None:
        self._scheduled = True
        self._window = int(self._clock.monotonic() / _WINDOW_SECONDS)
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn: slices of those that wait, as far as that goes. Who is alone gets several: what
        comes in together goes on in one batch."""
        self._scheduled = False
        self.left = self._cost
        if not self._waiting:
            return
        began = self._clock.monotonic()
        slices = TURN_COST
        try:
            while self._waiting and self.left > 0 and slices:
                slices -= 1
                self._serve_next()
        finally:  # also after a fault, which must not silence the others
            took = self._clock.monotonic() - began
            self._cost = adapted(self._cost, took, TURN_SECONDS, LEAST_COST, TURN_COST)
            if self._waiting and not self._scheduled:
                self._schedule()

    def _serve_next(self) -> None:
        address = heappop(self._queue)[-1]
        address.queued = False
        connection = heappop(address.queue)[-1]
        self._waiting -= 1
        try:
            connection.take_turn()
        finally:
            self._enter(address)
