"""HTTP connections among others: slices of a turn, and clients that do not take their answers."""

from __future__ import annotations

import asyncio

import pytest

from harness.http_connections import Door
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import HttpLimits, ReceivedRequest
from hubbub.gateways.turns import SLICE_BYTES, SLICE_REQUESTS

pytestmark = pytest.mark.spec("SEC-01", "OPS-03")

FLOOD = b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n"
ONE = b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK"
SEND_SECONDS = HttpLimits().send_seconds


def brief(request: ReceivedRequest, exchange: HttpExchange) -> None:
    exchange.answer_json(b"{}")


def large(request: ReceivedRequest, exchange: HttpExchange) -> None:
    exchange.answer_json(b"x" * 20_000)


def paths(door: Door) -> list[bytes]:
    return [url for _, url, _, _ in door.requests]


# -- turns --------------------------------------------------------------------------------------


async def test_who_pipelines_thousands_of_requests_waits_its_turn_behind_others() -> None:
    door = Door(brief)
    flood, answered = door.connect()
    flood.data_received(FLOOD * 6000)
    assert len(door.requests) == SLICE_REQUESTS
    other, other_answered = door.connect()
    other.data_received(ONE)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert ANSWER in other_answered.written
    assert paths(door).index(b"/one") <= 3 * SLICE_REQUESTS
    await door.settle()
    assert answered.written.count(ANSWER) == 6000


async def test_many_floods_use_up_a_turn_together_and_are_served_alike() -> None:
    """However many connections there are, all of them leave the loop after the same amount."""
    door = Door(brief)
    floods = [door.connect() for _ in range(200)]
    for flood, _ in floods:
        flood.data_received(FLOOD * 400)
    most = 0
    for _ in range(100):
        before = len(door.requests)
        await asyncio.sleep(0)
        most = max(most, len(door.requests) - before)
    assert SLICE_REQUESTS < most <= 400
    other, other_answered = door.connect()
    other.data_received(ONE)
    before = len(door.requests)
    while ANSWER not in other_answered.written:
        await asyncio.sleep(0)
    assert paths(door).index(b"/one") - before <= 8 * SLICE_REQUESTS
    answered = [transport.written.count(ANSWER) for _, transport in floods]
    assert max(answered) - min(answered) <= 2 * SLICE_REQUESTS
    await door.settle()
    assert len(door.requests) == 200 * 400 + 1


async def test_who_asks_little_goes_before_floods_of_many_addresses_again_and_again() -> None:
    """Also where the floods always have their last answer before they send more."""
    door = Door(brief)
    floods = [door.connect(address=f"192.0.2.{1 + number}") for number in range(100)]
    other, _ = door.connect(address="198.51.100.1")
    waits = []
    for _ in range(30):
        for flood, _ in floods:
            flood.data_received(FLOOD * 32)
        other.data_received(ONE)
        before = len(door.requests)
        asked = paths(door).count(b"/one")
        while paths(door).count(b"/one") == asked:
            await asyncio.sleep(0)
        waits.append(len(door.requests) - before)
        for _ in range(40):
            await asyncio.sleep(0)
    assert max(waits[1:]) <= 16 * SLICE_REQUESTS


async def test_many_connections_of_an_address_count_as_one() -> None:
    door = Door(brief)
    for number in range(200):
        flood, _ = door.connect(address=f"2001:db8::{number:x}")
        flood.data_received(FLOOD * 100)
    lone, answered = door.connect(address="198.51.100.1")
    lone.data_received(FLOOD * 2000)
    while answered.written.count(ANSWER) < 2000:
        await asyncio.sleep(0)
    assert len(door.requests) < 3 * 2000


async def test_a_slice_is_bounded_in_bytes_too() -> None:
    door = Door(brief)
    flood, _ = door.connect()
    head = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A:b\r\n" * 1500 + b"\r\n"
    flood.data_received(head * 12)
    assert 0 < len(door.requests) <= SLICE_BYTES // len(head) + 1
    await door.settle()
    assert len(door.requests) == 12


async def test_requests_behind_one_under_way_wait_unread_and_bounded() -> None:
    waiting: list[HttpExchange] = []

    def later(request: ReceivedRequest, exchange: HttpExchange) -> None:
        waiting.append(exchange)

    door = Door(later)
    connection, transport = door.connect()
    body = b"x" * 30_000
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    sent = 0
    while transport.reading and sent < 100:
        connection.data_received(post)
        sent += 1
    assert sent < 6  # some 64 KiB wait, not 64 requests of any size
    for number in range(sent):
        assert len(door.requests) == number + 1
        waiting[number].answer_json(b"{}")
        await door.settle()
    assert transport.reading
    assert transport.written.count(ANSWER) == sent


async def test_what_cannot_be_read_is_refused_behind_the_answers_before_it() -> None:
    """Else a client would take the refusal for the answer to what it had asked before."""
    waiting: list[HttpExchange] = []

    def later(request: ReceivedRequest, exchange: HttpExchange) -> None:
        waiting.append(exchange)

    door = Door(later)
    connection, transport = door.connect()
    connection.data_received(ONE + b"\x00nonsense\r\n\r\n")
    await door.settle()
    assert transport.written == b""
    waiting[0].answer_json(b"{}")
    await door.settle()
    first, second = transport.written.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200")
    assert second.startswith(b"400")
    assert transport.closing


# -- answers nobody reads -----------------------------------------------------------------------


async def test_a_client_that_takes_no_answers_is_not_read_and_not_answered() -> None:
    door = Door(large)
    connection, transport = door.connect(stalled=True)
    connection.data_received(FLOOD * 500)
    await door.settle()
    assert len(door.requests) <= 5
    assert transport.get_write_buffer_size() <= 64 * 1024 + 21_000
    assert not transport.reading
    while transport.buffered:
        transport.take(1 << 20)
        await door.settle()
    assert len(door.requests) == 500
    assert transport.reading


async def test_small_answers_that_are_not_taken_are_bounded_as_well() -> None:
    door = Door(brief)
    connection, transport = door.connect(stalled=True)
    connection.data_received(FLOOD * 5000)
    await door.settle()
    assert len(door.requests) < 2000
    assert transport.get_write_buffer_size() <= 64 * 1024 + SLICE_REQUESTS * 4096
    assert not transport.reading


async def test_who_takes_nothing_within_the_time_limit_is_cut() -> None:
    door = Door(large)
    connection, transport = door.connect(stalled=True)
    connection.data_received(FLOOD * 5000)
    await door.settle()
    assert connection.deadline == door.now + SEND_SECONDS
    transport.take(1000)
    door.now = connection.deadline
    connection.time_out()
    assert not transport.aborted  # slow, but it reads
    assert connection.deadline == door.now + SEND_SECONDS
    door.now = connection.deadline
    connection.time_out()
    assert transport.aborted


async def test_who_never_takes_a_last_answer_is_cut_too() -> None:
    """A transport that is closed still waits for its client to read."""
    door = Door(large)
    connection, transport = door.connect(stalled=True)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert transport.closing
    assert not transport.aborted
    assert connection.deadline == door.now + SEND_SECONDS
    connection.time_out()
    assert transport.aborted


async def test_an_answer_that_takes_long_to_make_is_no_fault_of_its_client() -> None:
    waiting: list[HttpExchange] = []

    def later(request: ReceivedRequest, exchange: HttpExchange) -> None:
        if request.url == b"/one":
            waiting.append(exchange)
        else:
            large(request, exchange)

    door = Door(later)
    connection, transport = door.connect(stalled=True)
    connection.data_received(FLOOD * 3 + ONE)
    transport.stalled = False
    transport.take(1 << 20)
    await door.settle()
    assert len(waiting) == 1
    assert connection.deadline == float("inf")


async def test_who_is_held_back_by_two_waits_for_both() -> None:
    door = Door(brief)
    connection, transport = door.connect()
    connection.pause_reading()
    connection.pause_reading()
    connection.data_received(ONE)
    connection.resume_reading()
    await door.settle()
    assert not transport.reading
    assert not door.requests
    connection.resume_reading()
    await door.settle()
    assert transport.reading
    assert len(door.requests) == 1


# -- answers without a body ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "rest",
    [
        b"Host: x\r\n\r\n",
        b"Host: x\r\nHost: y\r\n\r\n",
        b"Host: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"Host: x\r\nA: \x00\r\n\r\n",
        b"Host: x\r\nA: " + b"y" * 20_000,
        b"Host: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    ],
    ids=["good", "two hosts", "too large", "a NUL", "a head without end", "another coding"],
)
async def test_no_answer_to_head_has_a_body(rest: bytes) -> None:
    door = Door(brief)
    connection, transport = door.connect()
    connection.data_received(b"HEAD / HTTP/1.1\r\n" + rest)
    await door.settle()
    assert transport.written.startswith(b"HTTP/1.1 ")
    assert transport.written.endswith(b"\r\n\r\n")
    assert transport.written.count(b"\r\n\r\n") == 1


async def test_a_head_that_arrives_too_slowly_is_refused_without_a_body_if_it_is_a_head() -> None:
    door = Door(brief)
    for method, body in ((b"HEAD", False), (b"GET", True)):
        connection, transport = door.connect()
        connection.data_received(method + b" / HTTP/1.1\r\nHost:")
        connection.time_out()
        assert transport.written.startswith(b"HTTP/1.1 408 ")
        assert transport.written.endswith(b"\r\n\r\n") is not body
        assert transport.closing


async def test_pieces_of_heads_that_do_not_end_take_no_turns_from_others() -> None:
    door = Door(brief)
    slow = [door.connect()[0] for _ in range(2_000)]
    for connection in slow:
        connection.data_received(b"GET / HTTP/1.1\r\nHost: x")
    await door.settle()
    left = door.turns.left
    for connection in slow:
        connection.data_received(b"\r\nX-1: ")
    assert door.turns.left == left
    other, answered = door.connect()
    other.data_received(ONE)
    assert ANSWER in answered.written
    slow[0].data_received(b"y\r\n\r\n")
    await door.settle()
    assert door.requests[1:] == [(b"GET", b"/", {b"host": b"x", b"x-1": b"y"}, b"")]


async def test_a_head_that_comes_in_small_pieces_is_bounded() -> None:
    limits = HttpLimits()
    door = Door(brief, limits=limits)
    connection, transport = door.connect()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x")
    sent = 0
    while not transport.closing and sent <= 2 * limits.head_bytes:
        connection.data_received(b"\r\nX-1: 2")
        sent += 8
    assert transport.written.startswith(b"HTTP/1.1 431 ")
    assert sent <= limits.head_bytes + 512


async def test_what_is_wrong_with_a_head_that_never_ends_is_told_when_its_time_is_over() -> None:
    door = Door(brief)
    connection, transport = door.connect()
    connection.data_received(b"GET / HTTP/1.1\r\nHost: x")
    connection.data_received(b"\r\nA: \x00")
    connection.time_out()
    assert transport.written.startswith(b"HTTP/1.1 400 ")
    assert transport.closing


# -- codings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coding",
    [
        *("gzip, chunked", "chunked, gzip", "chunked, chunked", "identity, chunked", "gzip"),
        *("chunked;q=1", "x-chunked", "deflate", "compress, chunked", "chunked, identity"),
        *("chunked\r\nTransfer-Encoding: chunked", "gzip\r\nTransfer-Encoding: chunked"),
        *("gzip,chunked", "GZIP, Chunked", ", chunked", "chunked,"),
    ],
)
async def test_no_transfer_coding_but_chunked_is_taken(coding: str) -> None:
    """A body in another coding would be published as if it were the payload."""
    door = Door(brief)
    connection, transport = door.connect()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n"
    connection.data_received(head.encode() + b"1\r\na\r\n0\r\n\r\n" + ONE)
    await door.settle()
    assert door.requests == []
    assert transport.written.startswith(b"HTTP/1.1 400 ")
    assert transport.closing


@pytest.mark.parametrize("coding", ["chunked", "Chunked", " chunked "])
async def test_chunked_alone_is_taken(coding: str) -> None:
    door = Door(brief)
    connection, _ = door.connect()
    head = f"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {coding}\r\n\r\n"
    connection.data_received(head.encode() + b"1\r\na\r\n0\r\n\r\n" + ONE)
    await door.settle()
    assert [body for _, _, _, body in door.requests] == [b"a", b""]


async def test_a_chunked_body_in_http_1_0_is_refused() -> None:
    door = Door(brief)
    connection, transport = door.connect()
    connection.data_received(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert door.requests == []
    assert transport.written.startswith(b"HTTP/1.1 400 ")
