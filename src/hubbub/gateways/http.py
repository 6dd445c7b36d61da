"""HTTP/1.1 connections: parse requests, keep answers in order, bound everything.

httptools does the parsing. What lies around it is small and strict: limits on heads, bodies and
time, one answer at a time per connection, and a way to hand a connection over to WebSocket or
server-sent events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote_to_bytes

import httptools
import msgspec

from hubbub.domain.errors import (
    BadRequest,
    HeadTooLarge,
    HubbubError,
    Internal,
    Malformed,
    RequestTimeout,
    TooLarge,
)

logger = logging.getLogger(__name__)

_REASONS = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
_MAX_WAITING = 64
_OK_JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "


class Target(msgspec.Struct, frozen=True):
    """A request target: decoded path segments and query parameters."""

    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...]

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name]


@lru_cache(maxsize=4096)
def parse_target(url: bytes) -> Target:
    """Split before decoding, so that an encoded `/` belongs to its segment. Raises `Malformed`."""
    try:
        parsed = httptools.parse_url(url)
        path = (parsed.path or b"/").split(b"/")[1:]
        segments = tuple(unquote_to_bytes(segment).decode() for segment in path)
        query = (parsed.query or b"").decode("ascii")
        parameters = tuple(
            parse_qsl(query, keep_blank_values=True, max_num_fields=300, errors="strict")
        )
    except (httptools.HttpParserError, ValueError) as error:
        raise Malformed(f"the request target cannot be read: {error}") from None
    return Target(segments, parameters)


class Request:
    """A whole request. Header names are in lower case; of repeated ones the values are joined."""

    __slots__ = ("body", "headers", "keep_alive", "method", "url")

    def __init__(self, method: bytes, url: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = b""
        self.keep_alive = True

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


class Handler(Protocol):
    """What stands behind the connections."""

    def handle(self, request: Request, exchange: Exchange) -> None:
        """Answer now or later through the exchange. May raise `HubbubError`."""

    def upgrade(self, request: Request, connection: HttpConnection, rest: bytes) -> None:
        """Take the connection over; `rest` came behind the head."""


class HttpLimits(msgspec.Struct, frozen=True):
    head_bytes: int = 16 * 1024
    body_bytes: int = 1024 * 1024
    head_seconds: float = 10.0
    idle_seconds: float = 75.0


class Exchange:
    """The answer to one request, to be given exactly once."""

    __slots__ = ("_answered", "_connection", "_keep_alive", "extra_headers")

    def __init__(self, connection: HttpConnection, keep_alive: bool) -> None:
        self._connection = connection
        self._keep_alive = keep_alive
        self._answered = False
        self.extra_headers = b""
        """Complete header lines that every answer gets (CORS)."""

    @property
    def connection(self) -> HttpConnection:
        return self._connection

    def answer_json(self, body: bytes) -> None:
        """The common case, kept cheap."""
        if self.extra_headers or not self._keep_alive:
            self.answer(200, body)
        else:
            self._finish(b"%b%d\r\n\r\n%b" % (_OK_JSON, len(body), body))

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", headers: str = ""
    ) -> None:
        head = _head(status, content_type, len(body), headers, self._keep_alive)
        self._finish(head.encode("latin-1") + self.extra_headers + b"\r\n" + body)

    def fail(self, error: HubbubError) -> None:
        headers = "Retry-After: 1\r\n" if error.retry else ""
        if error.http_status == 401:
            headers += "WWW-Authenticate: Bearer\r\n"
        self.answer(error.http_status, error_body(error), headers=headers)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Answer later; whatever happens, the client gets an answer."""
        self._connection.spawn(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except HubbubError as error:
            self.fail(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            self.fail(Internal("the hub failed to handle the request"))

    def _finish(self, data: bytes) -> None:
        if not self._answered:
            self._answered = True
            self._connection.finish(data, self._keep_alive)


def _head(status: int, content_type: str, length: int, headers: str, keep_alive: bool) -> str:
    close = "" if keep_alive else "Connection: close\r\n"
    return (
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n"
        f"Content-Type: {content_type}\r\nContent-Length: {length}\r\n{headers}{close}"
    )


def error_body(error: HubbubError) -> bytes:
    return msgspec.json.encode(
        {"error": {"code": error.code, "message": error.message, "retry": error.retry}}
    )


class HttpConnection(asyncio.Protocol):
    """One connection while it speaks HTTP."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_busy",
        "_expects_continue",
        "_failed",
        "_handler",
        "_head_bytes",
        "_headers",
        "_limits",
        "_parser",
        "_tasks",
        "_url",
        "_waiting",
        "_watch",
        "deadline",
        "transport",
    )

    def __init__(
        self, handler: Handler, limits: HttpLimits, watch: Callable[[HttpConnection, bool], None]
    ) -> None:
        """`watch(connection, alive)` lets the listener look after deadlines."""
        self._handler = handler
        self._limits = limits
        self._watch = watch
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._busy = False
        self._failed = False
        self._tasks: set[asyncio.Task[None]] | None = None
        self.transport: asyncio.Transport
        self.deadline = 0.0
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._expects_continue = False

    # -- from the transport ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self._expect(self._limits.head_seconds)
        self._watch(self, True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._failed = True
        self._watch(self, False)
        for task in self._tasks or ():
            task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._failed:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, HubbubError) else Malformed(str(error)))
        except httptools.HttpParserError as error:
            self.refuse(Malformed(f"not an HTTP request: {error}"))

    def _expect(self, seconds: float) -> None:
        self.deadline = asyncio.get_running_loop().time() + seconds

    # -- from the parser ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._reset()
        self._expect(self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        name = name.lower()
        known = self._headers.get(name)
        if known is None:
            self._headers[name] = value
        elif name in (b"host", b"authorization", b"content-type"):
            raise BadRequest(f"the header {name.decode()!r} is there twice")
        else:
            self._headers[name] = known + b", " + value
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            raise HeadTooLarge(f"the head is larger than {self._limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        headers = self._headers
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise BadRequest("Content-Length and Transfer-Encoding exclude each other")
        if b"host" not in headers and self._parser.get_http_version() == "1.1":
            raise BadRequest("the header 'host' is missing")
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes:
            raise self._too_large()
        if self._expects_continue and not self._busy:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise self._too_large()
        self._body.append(body)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self._limits.body_bytes} bytes")

    def on_message_complete(self) -> None:
        parser = self._parser
        if parser.should_upgrade():
            return
        request = Request(parser.get_method(), self._url, self._headers)
        body = self._body
        request.body = body[0] if len(body) == 1 else b"".join(body)
        request.keep_alive = parser.should_keep_alive()
        self.deadline = float("inf")
        if self._busy:
            self._waiting.append(request)
            if len(self._waiting) == _MAX_WAITING:
                self.transport.pause_reading()
        else:
            self._handle(request)

    # -- answering ------------------------------------------------------------------------------

    def _handle(self, request: Request) -> None:
        self._busy = True
        exchange = Exchange(self, request.keep_alive)
        try:
            self._handler.handle(request, exchange)
        except HubbubError as error:
            exchange.fail(error)
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            exchange.fail(Internal("the hub failed to handle the request"))

    def finish(self, data: bytes, keep_alive: bool) -> None:
        """An answer is complete: send it, then turn to the next request."""
        self._busy = False
        if self._failed:
            return
        self.transport.write(data)
        if not keep_alive:
            self._failed = True
            self.transport.close()
        elif self._waiting:
            if len(self._waiting) == _MAX_WAITING:
                self.transport.resume_reading()
            # A turn of its own: a long row of requests must not become a deep stack.
            asyncio.get_running_loop().call_soon(self._handle_next)
            self._busy = True
        else:
            self._expect(self._limits.idle_seconds)

    def _handle_next(self) -> None:
        if self._waiting and not self._failed:
            self._handle(self._waiting.popleft())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Work for this connection, given up if the client goes away."""
        task = asyncio.get_running_loop().create_task(work)
        if self._tasks is None:
            self._tasks = set()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def pause_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def refuse(self, error: HubbubError) -> None:
        """What came in cannot be trusted any more: answer and close."""
        self._failed = True
        body = error_body(error)
        head = _head(error.http_status, "application/json", len(body), "", False)
        self.transport.write(head.encode() + b"\r\n" + body)
        self.transport.close()

    def time_out(self) -> None:
        """Called by the listener after the deadline: slow heads, or nothing more to do."""
        if self._head_bytes or self._body:
            self.refuse(RequestTimeout("the request took too long to arrive"))
        else:
            self._failed = True
            self.transport.close()

    # -- leaving HTTP ---------------------------------------------------------------------------

    def _upgrade(self, rest: bytes) -> None:
        if self._busy or self._waiting:
            self.refuse(BadRequest("an upgrade cannot be pipelined behind other requests"))
            return
        request = Request(self._parser.get_method(), self._url, self._headers)
        request.keep_alive = False
        self.deadline = float("inf")
        try:
            self._handler.upgrade(request, self, rest)
        except HubbubError as error:
            self.refuse(error)

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """From now on the transport belongs to another protocol."""
        self._failed = True
        self._watch(self, False)
        self.transport.set_protocol(protocol)
