"""One bound over what clients make all connections hold: the address that holds most pays."""

from __future__ import annotations

import socket

import pytest

from harness.clock import FakeClock
from harness.http_connections import Door, FakeTransport
from hubbub.domain.holdings import FREE_BYTES, Holdings
from hubbub.gateways.encoders import SSE, encoder_for
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest
from hubbub.gateways.outlet import Lingering
from hubbub.gateways.sse import SseConnection
from hubbub.gateways.turns import Turns
from hubbub.gateways.websocket import WebSocketConnection
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.websocket import Opcode

pytestmark = pytest.mark.spec("SEC-01", "OPS-03")

BODY = 200_000
HEAD = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % BODY
OVERLOADED = b"HTTP/1.1 503 "
ANSWER = b"HTTP/1.1 200 OK"
LIMIT = 2_000_000
ANSWER_BYTES = 150_000


def brief(request: ReceivedRequest, exchange: HttpExchange) -> None:
    exchange.answer_json(b"{}")


def large(request: ReceivedRequest, exchange: HttpExchange) -> None:
    exchange.answer_json(b"x" * ANSWER_BYTES)


async def send_piece(door: Door, address: str, size: int = BODY - 1) -> FakeTransport:
    """The beginning of a request, whose rest does not come."""
    connection, transport = door.connect(address=address)
    connection.data_received(HEAD + b"x" * size)
    await door.settle()
    return transport


def refused(transports: list[FakeTransport]) -> int:
    return sum(OVERLOADED in transport.written for transport in transports)


async def test_many_slow_bodies_of_one_address_are_bounded_and_others_are_served() -> None:
    door = Door(brief, max_buffered_bytes=LIMIT)
    other, other_answered = door.connect(address="198.51.100.1")
    other.data_received(HEAD + b"x" * (BODY - 1))
    await door.settle()
    slow = []
    for _ in range(50):
        slow.append(await send_piece(door, "192.0.2.1"))
        assert door.holdings.total <= LIMIT
    assert refused(slow) == door.holdings.ended >= 40
    assert all(transport.closing for transport in slow if OVERLOADED in transport.written)
    other.data_received(b"x")
    await door.settle()
    assert other_answered.written.startswith(ANSWER)
    assert [len(body) for _, _, _, body in door.requests] == [BODY]


async def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    door = Door(brief, max_buffered_bytes=LIMIT)
    other = await send_piece(door, "2001:db8:0:2::1")
    slow = [await send_piece(door, f"2001:db8:0:1::{number:x}") for number in range(1, 30)]
    assert refused(slow) >= 19
    assert not refused([other])


async def test_below_the_bound_nobody_is_cut_and_nothing_is_counted_after_the_end() -> None:
    door = Door(brief, max_buffered_bytes=LIMIT)
    slow = [door.connect() for _ in range(9)]
    for connection, _ in slow:
        connection.data_received(HEAD + b"x" * (BODY - 1))
    await door.settle()
    assert LIMIT > door.holdings.total >= 9 * (BODY - 1)
    for connection, transport in slow:
        connection.data_received(b"x")
        await door.settle()
        assert transport.written.startswith(ANSWER)
    assert (door.holdings.total, door.holdings.ended) == (0, 0)


async def test_who_goes_away_holds_nothing() -> None:
    door = Door(brief, max_buffered_bytes=LIMIT)
    connection, _ = door.connect()
    connection.data_received(HEAD + b"x" * 1000)
    connection.data_received(b"x" * 100_000)
    await door.settle()
    assert door.holdings.total > 100_000
    connection.connection_lost(None)
    assert door.holdings.total == 0


async def test_a_body_that_comes_in_one_piece_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = Door(brief)
    monkeypatch.setattr(door, "hold", pytest.fail)
    connection, transport = door.connect()
    head = HEAD.replace(b"%d" % BODY, b"20000")
    for _ in range(3):
        connection.data_received(head + b"x" * 20_000)
    assert transport.written.count(ANSWER) == 3


async def test_answers_that_nobody_reads_are_bounded_over_all_connections() -> None:
    door = Door(large, max_buffered_bytes=LIMIT)
    asking = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    last = asking.replace(b"Host: x", b"Host: x\r\nConnection: close")
    other, other_transport = door.connect(stalled=True, address="198.51.100.1")
    other.data_received(asking)
    unread = []
    for number in range(40):
        connection, transport = door.connect(stalled=True)
        connection.data_received(last if number % 2 else asking)
        unread.append(transport)
        assert door.holdings.total <= LIMIT
    assert sum(transport.aborted for transport in unread) == door.holdings.ended >= 28
    assert not other_transport.closing
    other_transport.take(1_000_000)
    other.data_received(asking)
    assert ANSWER in other_transport.written


async def test_requests_that_wait_behind_one_that_is_not_answered_are_counted() -> None:
    door = Door(lambda request, exchange: None, max_buffered_bytes=LIMIT)
    waiting = []
    for _ in range(50):
        connection, transport = door.connect()
        connection.data_received(b"GET /never HTTP/1.1\r\nHost: x\r\n\r\n" * 2000)
        await door.settle()
        waiting.append(transport)
        assert door.holdings.total <= LIMIT
    assert sum(transport.aborted for transport in waiting) == door.holdings.ended > 0


async def test_a_connection_that_is_handed_over_in_its_turn_holds_nothing_of_http() -> None:
    asked: list[HttpExchange] = []
    door = Door(lambda request, exchange: asked.append(exchange))
    connection, _ = door.connect()
    socket_head = b"GET /s HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    connection.data_received(b"GET /later HTTP/1.1\r\nHost: x\r\n\r\n")
    connection.data_received(socket_head + b"x" * 2 * FREE_BYTES)
    assert door.holdings.total > FREE_BYTES
    asked[0].answer_json(b"{}")
    await door.settle()
    assert [len(rest) for _, rest in door.upgrades] == [2 * FREE_BYTES]
    assert door.holdings.total == 0


# -- connections that stay ----------------------------------------------------------------------


class SocketTransport(FakeTransport):
    """With a socket whose other end does not read."""

    def __init__(self, address: str) -> None:
        super().__init__(stalled=True, address=address)
        self._ends = socket.socketpair()
        self._ends[0].setblocking(False)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._ends[0] if name == "socket" else super().get_extra_info(name, default)

    def close_ends(self) -> None:
        for end in self._ends:
            end.close()


async def test_backlogs_of_sessions_count_from_where_the_kernel_takes_no_more() -> None:
    holdings = Holdings(LIMIT)
    transports = [SocketTransport(address) for address in ("192.0.2.1",) * 6 + ("198.51.100.1",)]
    streams = [SseConnection(transport, SSE, 1 << 20) for transport in transports]
    for stream, transport in zip(streams, transports, strict=True):
        transport.set_protocol(stream)
        stream.count_in(holdings, Lingering(), str(transport._address))
        stream.send(b"x" * 1000)
    assert holdings.total == 0
    for stream in reversed(streams):
        for _ in range(8):
            stream.send(b"x" * 100_000)
        assert holdings.total <= LIMIT
    assert not transports[-1].closing
    cut = [transport for transport in transports if transport.closing]
    assert len(cut) == holdings.ended > 0
    assert all(b"slow_consumer" in transport.buffered for transport in cut)
    for stream, transport in zip(streams, transports, strict=True):
        stream.connection_lost(None)
        transport.close_ends()
    assert holdings.total == 0


async def test_websocket_messages_that_have_not_ended_count() -> None:
    holdings = Holdings(LIMIT)
    transport = FakeTransport()
    encoder = encoder_for(JSON_V1, None)
    connection = WebSocketConnection(transport, encoder, 1 << 18, 1 << 20, Turns(FakeClock()))
    connection.count_in(holdings, Lingering(), "192.0.2.1")
    ping = bytes([0x80 | Opcode.PING, 0x80, 0, 0, 0, 0])
    start = bytes([0x80 | Opcode.TEXT, 0x80 | 126]) + (20_000).to_bytes(2, "big") + bytes(4)
    connection.data_received(ping + start + b"x" * 10_000)
    assert holdings.total > 10_000 > FREE_BYTES
    connection.data_received(b"x" * 10_000)
    assert holdings.total == 0
