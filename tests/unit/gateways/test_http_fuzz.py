"""Requests whose heads were parsed before against requests that are parsed each time, and both
against httptools: the same bytes, in any pieces, must come to the same end.

Compared are the requests that reach the handler, every byte that is answered, and whether the
connection is closed: at once, or with the reason when the time for the rest of a head that came in
small pieces is over. The heads that are known are shared by all examples of a run, so that a head
which one example leaves behind wrongly is found by the others.

Intended differences to httptools, where the hub is stricter: `Content-Length` beside
`Transfer-Encoding`, other codings than `chunked`, a missing or doubled `Host`, limits. After such a
refusal nothing more is read; so what was read must be how httptools began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import httptools
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.http_connections import Door, NoMemory
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import HttpLimits, ReceivedRequest, RequestHead

pytestmark = pytest.mark.spec("OPS-03", "SEC-01")

LIMITS = HttpLimits(head_bytes=400, body_bytes=60)
KNOWN: dict[bytes, RequestHead] = {}
LOOP = asyncio.new_event_loop()

fuzz = settings(
    derandomize=True,
    max_examples=300,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

Seen = tuple[bytes, bytes, dict[bytes, bytes], bytes]


class Outcome(NamedTuple):
    requests: list[Seen]
    upgrades: list[tuple[bytes, bytes]]
    answers: bytes
    closed: bool


def say_back(request: ReceivedRequest, exchange: HttpExchange) -> None:
    """Some answers come at once, some in the next turn of the loop."""
    text = b"%b %b %r %b" % (request.method, request.url, sorted(request.headers), request.body)
    if b"later" in request.url:
        asyncio.get_running_loop().call_soon(exchange.answer_json, text)
    else:
        exchange.answer_json(text)


def ours(chunks: list[bytes], known: dict[bytes, RequestHead]) -> Outcome:
    async def run() -> Outcome:
        door = Door(say_back, known, LIMITS)
        connection, transport = door.connect()
        for chunk in chunks:
            if not transport.closing and not door.upgrades:
                connection.data_received(chunk)
                await door.settle()
        answers, closed = bytes(transport.written), transport.closing
        if not closed and not door.upgrades:
            connection.time_out()
            last = bytes(transport.written[len(answers) :])
            if last and not last.startswith(b"HTTP/1.1 408 "):
                answers, closed = answers + last, True
        return Outcome(door.requests, door.upgrades, answers, closed)

    return LOOP.run_until_complete(run())


@pytest.fixture(scope="module", autouse=True)
def _close_loop() -> Iterator[None]:
    yield
    LOOP.close()


class Reference:
    """httptools alone."""

    def __init__(self, stream: bytes) -> None:
        self.requests: list[Seen] = []
        self.ended = False
        """It stopped before the end of the stream."""
        self._url = self._body = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(stream)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.ended = True

    def on_message_begin(self) -> None:
        self._url, self._body, self._headers, self._complete = b"", b"", [], False

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._complete:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._complete = True

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        joined: dict[bytes, bytes] = {}
        for name, value in self._headers:
            joined[name] = joined[name] + b", " + value if name in joined else value
        self.requests.append((self._parser.get_method(), self._url, joined, self._body))


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    chunks: list[bytes] = []
    at = number = 0
    while at < len(stream):
        size = sizes[number % len(sizes)]
        chunks.append(stream[at : at + size])
        at += size
        number += 1
    return chunks


def assert_same(stream: bytes, pieces: list[int]) -> Outcome:
    chunks = cut(stream, pieces)
    parsed = ours(chunks, NoMemory())
    assert ours(chunks, KNOWN) == parsed, "a known head made a difference"
    whole = ours([stream], KNOWN)  # may name another of several faults
    assert whole.requests == parsed.requests, "the pieces made a difference"
    assert whole.closed == parsed.closed, "the pieces made a difference"
    reference = Reference(stream)
    common = len(parsed.requests)
    if b"Upgrade" not in stream:
        assert parsed.requests == reference.requests[:common]
        if not parsed.closed:
            assert common == len(reference.requests)
            assert not reference.ended
    return parsed


# --- strategies ---

sizes = st.lists(st.sampled_from([1, 2, 3, 5, 8, 13, 60, 1000, 10_000]), min_size=1, max_size=6)
methods = st.sampled_from([b"GET", b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS"])
targets = st.sampled_from([b"/", b"/a", b"/later", b"/later?x=1", b"/%20"])
more_headers = st.lists(
    st.sampled_from([b"A: 1", b"a: 2", b"B:", b"Connection: keep-alive"]),
    max_size=3,
)
odd_headers = st.lists(
    st.sampled_from(
        [
            b"Connection: close",
            b"Expect: 100-continue",
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: identity",
            b"Content-Length: 3",
            b"Content-Length: 03",
            b"Content-Length: 61",
            b"Host: again",
            b"Connection: Upgrade\r\nUpgrade: h2c",
            b"Connection: Upgrade\r\nUpgrade: websocket",
            b"X: " + b"y" * 390,
        ]
    ),
    max_size=2,
)
bodies = st.binary(max_size=20) | st.sampled_from(
    [b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"0\r\n\r\n"]
)
newlines = st.sampled_from([b"", b"", b"", b"\r\n", b"\n", b"\n\r\n\r\n", b"\r\n\r\n", b"\r"])


@st.composite
def requests(draw: st.DrawFn, odd: bool = False) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (draw(methods), draw(targets)), b"Host: x", *draw(more_headers)]
    if odd:
        lines += draw(odd_headers)
        if draw(st.integers(0, 9)) == 0:
            lines[0] = lines[0].replace(b"1.1", b"1.0")
    body = draw(bodies)
    if draw(st.integers(0, 3)) == 0:
        lines.append(b"Transfer-Encoding: chunked")
        end = draw(st.sampled_from([b"0\r\n\r\n", b"0;x=y\r\n\r\n", b"0\r\nT: 1\r\n\r\n"]))
        sent = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body, b"z") if part) + end
    elif body or draw(st.booleans()):
        lines.append(b"Content-Length: %d" % len(body))
        sent = body
    else:
        sent = b""
    return b"\r\n".join([*lines, b"", sent])


streams = st.lists(requests(), min_size=1, max_size=6).map(b"".join)
odd_streams = st.lists(
    st.builds(bytes.__add__, newlines, requests() | requests(odd=True)), min_size=1, max_size=5
).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A stream with bytes changed, put in or taken out, or its end cut off."""
    stream = bytearray(draw(odd_streams))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(stream) - 1, 0)))
        match draw(st.sampled_from(["flip", "insert", "newline", "delete", "cut", "double"])):
            case "flip" if stream:
                stream[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                stream[at:at] = draw(st.binary(min_size=1, max_size=4))
            case "newline":
                stream[at:at] = draw(st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n"]))
            case "delete":
                del stream[at : at + draw(st.integers(1, 4))]
            case "cut":
                del stream[at:]
            case "double":
                stream[at:at] = stream[: draw(st.integers(0, len(stream)))]
            case _:
                pass
    return bytes(stream)


# --- properties ---

PLAIN = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


@fuzz
@given(streams, sizes)
def test_valid_requests_are_read_alike(stream: bytes, pieces: list[int]) -> None:
    outcome = assert_same(stream, pieces)
    assert not outcome.closed
    assert outcome.requests


@fuzz
@given(odd_streams, sizes)
@example(b"\n\r\n\r\n" + PLAIN + b"\n\r\n\r\n" + PLAIN, [10_000])
@example(b"\n\r\n\r\n", [10_000])
def test_odd_requests_are_read_alike(stream: bytes, pieces: list[int]) -> None:
    assert_same(stream, pieces)


@fuzz
@given(mutated(), sizes)
def test_mutated_requests_are_read_alike(stream: bytes, pieces: list[int]) -> None:
    assert_same(stream, pieces)


@fuzz
@given(st.binary(max_size=100), sizes)
def test_noise_is_read_alike(stream: bytes, pieces: list[int]) -> None:
    assert_same(stream, pieces)


@fuzz
@given(st.sampled_from([PLAIN, PLAIN.replace(b"GET", b"HEAD"), b""]), newlines, mutated(), sizes)
def test_what_follows_a_known_head_is_read_alike(
    known: bytes, between: bytes, stream: bytes, pieces: list[int]
) -> None:
    assert_same(known * 2 + between + stream, pieces)


def test_every_split_of_a_stream_is_read_alike() -> None:
    """Above all between the newlines that end a head or a chunked body."""
    chunked = b"POST /later HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    stream = PLAIN + chunked + b"2\r\nab\r\n0\r\n\r\n" + PLAIN + b"\r\n" + PLAIN
    for first in range(1, len(stream)):
        for second in (1, 2, 3, 4, 1000):
            outcome = assert_same(stream, [first, second, 1000])
            assert [seen[3] for seen in outcome.requests] == [b"", b"ab", b"", b""]


def test_newlines_alone_are_no_request() -> None:
    """Once they were taken for the head of the request that they had stood before."""
    known: dict[bytes, RequestHead] = {}
    assert len(ours([b"\n\r\n\r\n" + PLAIN], known).requests) == 1
    assert ours([b"\n\r\n\r\n"], known) == Outcome([], [], b"", closed=False)
