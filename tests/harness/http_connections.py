"""HTTP connections without sockets: a transport and a handler that tests look into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harness.clock import FakeClock
from hubbub.domain.holdings import Holdings
from hubbub.domain.limits import network_of
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import HttpLimits, ReceivedRequest, RequestHead
from hubbub.gateways.http_connection import HttpConnection
from hubbub.gateways.turns import Turns
from hubbub.tasks import TaskSet


class FakeTransport(asyncio.Transport):
    """Takes what is written until it is told to stall, as a socket whose client does not read."""

    def __init__(self, stalled: bool = False, address: str = "192.0.2.1") -> None:
        super().__init__()
        self.written = bytearray()
        self.buffered = b""
        self.stalled = stalled
        self._address = address
        self.reading = True
        self.closing = False
        self.aborted = False
        self._high = 64 * 1024
        self._told = False
        self._protocol: asyncio.BaseProtocol | None = None

    def connect(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self._address, 40_000) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self.stalled:
            self.written += data
            return
        self.buffered += data
        if len(self.buffered) > self._high and not self._told:
            self._told = True
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.pause_writing()

    def take(self, size: int) -> None:
        """The client reads that much of what waits."""
        self.written += self.buffered[:size]
        self.buffered = self.buffered[size:]
        if self._told and not self.buffered:
            self._told = False
            assert isinstance(self._protocol, asyncio.Protocol)
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        return len(self.buffered)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 0 if high is None else high

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True


class NoMemory(dict[bytes, RequestHead]):
    """Heads that are never known again: every request is parsed."""

    def __setitem__(self, key: bytes, value: RequestHead) -> None:
        pass


class Door:
    """Handler and watcher of connections, which tells what it was asked."""

    def __init__(
        self,
        answer: Callable[[ReceivedRequest, HttpExchange], None],
        known_heads: dict[bytes, RequestHead] | None = None,
        limits: HttpLimits | None = None,
        max_buffered_bytes: int = 128 << 20,
    ) -> None:
        self.now = 0.0
        self.turns = Turns(FakeClock())
        self.holdings = Holdings(max_buffered_bytes)
        self.known_heads: dict[bytes, RequestHead] = {} if known_heads is None else known_heads
        self.under_way = TaskSet()
        self.requests: list[tuple[bytes, bytes, dict[bytes, bytes], bytes]] = []
        self.upgrades: list[tuple[bytes, bytes]] = []
        self.watched: set[HttpConnection] = set()
        self._answer = answer
        self._limits = limits or HttpLimits()

    def connect(
        self, stalled: bool = False, address: str = "192.0.2.1"
    ) -> tuple[HttpConnection, FakeTransport]:
        connection = HttpConnection(self, self._limits, self)
        transport = FakeTransport(stalled, address)
        transport.connect(connection)
        return connection, transport

    def handle(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        self.requests.append((request.method, request.url, request.headers, request.body))
        self._answer(request, exchange)

    def upgrade(self, request: ReceivedRequest, connection: HttpConnection, rest: bytes) -> None:
        self.upgrades.append((request.url, rest))
        connection.hand_over(asyncio.Protocol())

    def watch(self, connection: HttpConnection) -> None:
        self.watched.add(connection)

    def unwatch(self, connection: HttpConnection) -> None:
        self.watched.discard(connection)
        self.holdings.release(connection)

    def hold(self, connection: HttpConnection, size: int) -> None:
        self.holdings.hold(connection, network_of(connection.peer), size)

    async def settle(self) -> None:
        """Runs everything that does not wait for a client."""
        quiet = 0
        while quiet < 4:
            await asyncio.sleep(0)
            quiet = 0 if self.turns._scheduled else quiet + 1
