"""Shares the event loop fairly between connections of all kinds (HTTP, WebSocket, ZeroMQ) with more
requests than fit into one turn.

The connection whose client address, and then itself, used least recently comes first. So a caller
with many connections or thousands of pipelined requests delays only itself: others find the queue
as if it were empty.

A response takes several turns of the loop (tasks, the store, fan-out), so turns must be short. The
number of requests per turn follows from the duration of those in the last turn. Other work of a
turn, such as fan-out, does not count: fewer requests would not shorten it, but make smaller
batches."""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import Protocol
from weakref import WeakValueDictionary

from hubbub.domain.limits import network_of
from hubbub.domain.slices import adapted
from hubbub.ports.clock import Clock

SLICE_REQUESTS = 16
"""Requests of one connection that are handled before the next waiting connection's turn."""
SLICE_BYTES = 32 * 1024
"""The same in received bytes."""
TURN_COST, LEAST_COST = 128, 8
"""Maximum and minimum budget of one turn of the event loop for all connections: a request costs 1,
and so do 512 bytes."""
LONG_COST = 8
"""Additional cost of a request that continues after its turn: a new session, a page of history,
each channel of a subscription. Each takes as long as several messages, in later turns."""
TURN_SECONDS = 0.002
"""If requests take longer, the budget of the next turn is halved; below half of it, it is
doubled."""
_WINDOW_SECONDS = 1.0


class AddressUsage:
    """The cost used by an address or connection: in total, and within the last one to two
    seconds."""

    __slots__ = ("_before", "_mark", "_window", "total")

    def __init__(self) -> None:
        self.total = 0
        self._before = 0
        """The total at the start of the previous window."""
        self._mark = 0
        """The total at the start of this window."""
        self._window = 0

    def recent(self, window: int) -> int:
        """`window` is the number of the current window, which increases."""
        if window != self._window:
            self._before = self._mark if window == self._window + 1 else self.total
            self._mark = self.total
            self._window = window
        return self.total - self._before


class ClientAddress(AddressUsage):
    """A client address with its waiting connections, ordered by their usage."""

    __slots__ = ("__weakref__", "queue", "queued")

    def __init__(self) -> None:
        super().__init__()
        self.queue: list[tuple[int, int, Served]] = []
        self.queued = False


class Served(Protocol):
    """A connection in the queue, which it enters once."""

    address: ClientAddress
    usage: AddressUsage

    def take_turn(self) -> None:
        """Handles a slice, and queues again if there is more."""


class Turns:
    """The queue of all waiting connections."""

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
        """The budget of a turn, adapted to the current duration of requests."""
        self.left = TURN_COST
        """The rest of the budget. It carries over turns with little work; the next turn restores it
        once half is used."""
        self._addresses: WeakValueDictionary[str, ClientAddress] = WeakValueDictionary()
        self._queue: list[tuple[int, int, ClientAddress]] = []
        """Addresses with waiting connections."""
        self._number = 0
        self._waiting = 0
        self._window = 0
        self._scheduled = False

    def address_of(self, peer: str) -> ClientAddress:
        """The object shared by all connections of the address, kept while one of them exists."""
        network = network_of(peer)
        found = self._addresses.get(network)
        if found is None:
            found = self._addresses[network] = ClientAddress()
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

    def _enter(self, address: ClientAddress) -> None:
        if address.queue and not address.queued:
            address.queued = True
            self._number += 1
            heappush(self._queue, (address.recent(self._window), self._number, address))

    def _schedule(self) -> None:
        self._scheduled = True
        self._window = int(self._clock.monotonic() / _WINDOW_SECONDS)
        asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        """One turn: slices of waiting connections, within the budget. A single connection gets
        several, so that its data is handled in one batch."""
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
