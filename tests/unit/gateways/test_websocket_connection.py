"""WebSocket connections that have to wait: for their session, for channels, for their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast

import pytest

from harness.clock import FakeClock
from hubbub.domain.requests import Request
from hubbub.engine.sessions.session import Session
from hubbub.gateways.encoders import encoder_for
from hubbub.gateways.turns import LONG_COST, SLICE_BYTES, SLICE_REQUESTS, TURN_COST, Turns
from hubbub.gateways.websocket import WebSocketConnection
from hubbub.protocols.json.codec import JSON_V1


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.closing = False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


PING = b'{"event":"Ping","payload":{"reqID":1}}'


class FakeSession:
    """Counts its requests; the first of them takes time where it is `slow`."""

    clock = FakeClock()
    last_seen = 0.0
    busy = 0
    leaves = False
    """Its first request is that it leaves."""

    def __init__(self, connection: WebSocketConnection, slow: bool = False) -> None:
        self.handled = 0
        self.slow = slow
        self.connection = connection
        connection.session = cast(Session, self)

    def hear(self) -> None: ...

    def receive(self, received: Iterator[Request], most: int) -> int:
        handled = 0
        while handled < most and next(received, None) is not None:
            handled += 1
            if self.leaves:
                self.connection.close()
                break
            if self.slow:
                self.slow = False
                self.busy = 1
                self.connection.pause_reading()
                break
        self.handled += handled
        return handled

    def disconnected(self, keep_state: bool = True) -> None:
        pass

    def lost(self) -> None:
        pass


def connect(turns: Turns, peer: str, slow: bool = False) -> tuple[WebSocketConnection, FakeSession]:
    encoder = encoder_for(JSON_V1, None)
    connection = WebSocketConnection(FakeTransport(), encoder, 1 << 20, 1 << 20, turns, peer)
    return connection, FakeSession(connection, slow)


def text(payload: bytes) -> bytes:
    """A frame of a client, with a mask of zeros."""
    head = bytes([0x81, 0x80 | 126]) + len(payload).to_bytes(2, "big")
    if len(payload) < 126:
        head = bytes([0x81, 0x80 | len(payload)])
    return head + bytes(4) + payload


@pytest.mark.spec("LIVE-16", "OPS-03")
async def test_who_is_told_to_wait_by_two_waits_for_both() -> None:
    """Else a client that floods would be read on as soon as one of them has room."""
    connection, session = connect(Turns(FakeClock()), "192.0.2.1")
    connection.pause_reading()
    connection.pause_reading()
    connection.data_received(text(PING))
    connection.resume_reading()
    await asyncio.sleep(0)
    assert session.handled == 0
    connection.resume_reading()
    await asyncio.sleep(0)
    assert session.handled == 1


@pytest.mark.spec("SEC-01", "OPS-03")
@pytest.mark.parametrize(
    "flood", [text(PING) * 2000, text(b"\n".join([PING] * 100)) * 20], ids=["frames", "envelopes"]
)
async def test_a_flood_is_handled_in_slices_and_others_come_first(flood: bytes) -> None:
    """In one frame or in many: a slice of it, then whoever used less."""
    turns = Turns(FakeClock())
    flooding, flooded = connect(turns, "192.0.2.1")
    other, served = connect(turns, "192.0.2.2")
    flooding.data_received(flood)
    assert flooded.handled == SLICE_REQUESTS
    turns.left = 0
    other.data_received(text(PING))
    assert served.handled == 0  # the turn is over
    await asyncio.sleep(0)
    assert served.handled == 1
    assert flooded.handled <= SLICE_REQUESTS + TURN_COST
    while flooded.handled < 2000:
        before = flooded.handled
        await asyncio.sleep(0)
        assert before < flooded.handled <= before + TURN_COST


@pytest.mark.spec("SEC-01", "OPS-03")
async def test_who_sends_on_while_its_connection_closes_is_not_read_any_more() -> None:
    turns = Turns(FakeClock())
    connection, session = connect(turns, "192.0.2.1")
    connection.close()
    connection.data_received(text(PING) * 6000)
    assert session.handled == 0
    assert not cast(FakeTransport, connection.transport).reading
    assert turns.left == TURN_COST


@pytest.mark.spec("SEC-01", "LIVE-04")
async def test_a_close_that_comes_when_the_turn_is_used_up_counts_in_the_next() -> None:
    turns = Turns(FakeClock())
    connection, session = connect(turns, "192.0.2.1")
    connection.close()
    turns.left = 0
    connection.data_received(text(PING))
    connection.data_received(bytes([0x88, 0x80]) + bytes(4))
    assert not connection.transport.is_closing()
    await asyncio.sleep(0)
    assert connection.transport.is_closing()
    assert session.handled == 0


@pytest.mark.spec("LIVE-04", "the client's close frame comes right behind its `Close`")
async def test_a_client_that_says_close_and_closes_at_once_is_let_go_at_once() -> None:
    connection, session = connect(Turns(FakeClock()), "192.0.2.1")
    session.leaves = True
    connection.data_received(text(PING) + bytes([0x88, 0x80]) + bytes(4))
    assert session.handled == 1
    await asyncio.sleep(0)
    assert connection.transport.is_closing()


@pytest.mark.spec("LIVE-05")
async def test_what_comes_behind_a_request_that_takes_time_waits_and_keeps_its_order() -> None:
    connection, session = connect(Turns(FakeClock()), "192.0.2.1", slow=True)
    connection.data_received(text(b"\n".join([PING] * 3)) + text(PING) * 3)
    connection.data_received(text(PING))
    await asyncio.sleep(0)
    assert session.handled == 1
    connection.resume_reading()
    await asyncio.sleep(0)
    assert session.handled == 7


@pytest.mark.spec("SEC-01", "OPS-03")
@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize("frames", [1, 2])
async def test_a_request_that_goes_on_after_its_turn_uses_up_more_of_it(frames: int) -> None:
    turns = Turns(FakeClock())
    connection, session = connect(turns, "192.0.2.1", slow=True)
    connection.data_received(text(PING) * frames)
    assert session.handled == 1
    assert connection.usage.total == 1 + LONG_COST


@pytest.mark.spec("SEC-01")
async def test_a_crowd_that_subscribes_at_once_is_served_in_many_turns() -> None:
    turns = Turns(FakeClock())
    crowd = [connect(turns, f"192.0.2.{number}", slow=True) for number in range(200)]
    for connection, _ in crowd:
        connection.data_received(text(PING))
    begun = sum(session.handled for _, session in crowd)
    assert begun == -(-TURN_COST // (1 + LONG_COST))
    for _ in range(200 // begun + 1):
        await asyncio.sleep(0)
    assert all(session.handled == 1 for _, session in crowd)


async def test_a_client_that_has_to_wait_is_read_up_to_a_bound() -> None:
    connection, _ = connect(Turns(FakeClock()), "192.0.2.1")
    transport = cast(FakeTransport, connection.transport)
    connection.pause_reading()
    connection.data_received(bytes(SLICE_BYTES))
    assert transport.reading
    connection.data_received(b"x")
    assert not transport.reading


@pytest.mark.spec("LIVE-05")
async def test_what_waits_for_its_turn_is_handled_where_the_client_hangs_up() -> None:
    turns = Turns(FakeClock())
    connection, session = connect(turns, "192.0.2.1")
    turns.left = 0
    connection.data_received(text(PING) * 20)
    connection.eof_received()
    assert session.handled == 20
