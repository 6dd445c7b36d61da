"""HTTP/1.1 connections: parse requests, keep answers in order, bound everything.

httptools does the parsing. What lies around it is small and strict: limits on heads, bodies and
time, one answer at a time per connection, and a way to hand a connection over to WebSocket or
server-sent events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol, cast

import httptools

from hubbub.domain.errors import (
    BadRequest,
    HeadTooLarge,
    HubbubError,
    Internal,
    Malformed,
    RequestTimeout,
    TooLarge,
)
from hubbub.gateways.http import (
    Exchange,
    Handler,
    Head,
    HttpLimits,
    Request,
    error_body,
    error_headers,
    response_head,
)

logger = logging.getLogger(__name__)

_MAX_WAITING = 64
_NEVER = float("inf")
_KNOWN_HEADS = 2048
_KNOWN_HEAD_BYTES = 4096


class Watcher(Protocol):
    """Looks after the deadlines of connections."""

    now: float
    """The loop's time, to the second."""
    known_heads: dict[bytes, Head]
    """Heads that were parsed before, by their very bytes. What their memos say holds only for
    this listener, with its keys and limits."""

    def watch(self, connection: HttpConnection) -> None: ...
    def unwatch(self, connection: HttpConnection) -> None: ...


class HttpConnection(asyncio.Protocol):
    """One connection while it speaks HTTP."""

    __slots__ = (
        "_answers",
        "_between",
        "_body",
        "_body_bytes",
        "_busy",
        "_expects_continue",
        "_failed",
        "_first",
        "_handler",
        "_head_bytes",
        "_head_done",
        "_headers",
        "_held_bytes",
        "_last",
        "_leaving",
        "_limits",
        "_parser",
        "_tasks",
        "_url",
        "_waiting",
        "_watcher",
        "deadline",
        "peer",
        "transport",
    )

    def __init__(self, handler: Handler, limits: HttpLimits, watcher: Watcher) -> None:
        self._handler = handler
        self._limits = limits
        self._watcher = watcher
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._busy = False
        self._between = True
        """No request has begun that is not complete."""
        self._failed = False
        self._leaving = False
        """The answer under way is the last one."""
        self._tasks: set[asyncio.Task[None]] | None = None
        self.transport: asyncio.Transport
        self.peer = ""
        """The address at the other end, be it a client's or a proxy's."""
        self.deadline = 0.0
        self._last: Head | None = None
        """The last head that was known before: most likely the next one is the same."""
        self._first: Head | None = None
        """The head of the first request of what came in together."""
        self._answers: list[bytes] | None = None
        """Answers to what came in together, while it is being handled."""
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._head_done = False
        self._held_bytes = 0
        """What came since the parser last gave anything out."""
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._expects_continue = False

    # -- from the transport ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self._expect(self._limits.head_seconds)
        self._watcher.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._failed = True
        self._watcher.unwatch(self)
        for task in self._tasks or ():
            task.cancel()
        self._release_parser()

    def data_received(self, data: bytes) -> None:
        if self._failed:
            return
        self._answers = []
        rest = self._take_known(data)
        if rest:
            head_end = rest.find(b"\r\n\r\n") + 4 if self._between else 0
            self._first = None
            self._parse(rest)
            if head_end > 4 and self._between and not self._failed:
                self._remember(rest, head_end)
        self.flush()
        self._answers = None

    def _take_known(self, data: bytes) -> bytes:
        """Take requests whose heads were parsed before; answers what is left for the parser."""
        start, end = 0, len(data)
        while self._between and not self._failed and start < end:
            head = self._last
            if head is None or not data.startswith(head.raw, start):
                head_end = data.find(b"\r\n\r\n", start) + 4
                head = self._last = self._watcher.known_heads.get(data[start:head_end])
                if head is None:
                    break
            body_start = start + len(head.raw)
            body_end = body_start + head.length
            if end < body_end:
                break
            self._take(Request(head, data[body_start:body_end]))
            start = body_end
        return data[start:] if start else data

    def _parse(self, data: bytes) -> None:
        if not self._between:
            self._held_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, HubbubError) else Malformed(str(error)))
        except httptools.HttpParserError as error:
            self.refuse(Malformed(f"not an HTTP request: {error}"))
        else:
            # The parser keeps a line until its end: one without an end must not fill the memory.
            if self._held_bytes > self._limits.head_bytes and not self._failed:
                self.refuse(self._head_too_large())

    def _remember(self, data: bytes, head_end: int) -> None:
        """These bytes began with a whole request with a plain body: the next time that its head
        comes, the parser is not asked again."""
        head = self._first
        if (
            head is None
            or not head.keep_alive
            or b"expect" in head.headers
            or b"transfer-encoding" in head.headers
            or head_end > _KNOWN_HEAD_BYTES
            or len(data) < head_end + head.length
        ):
            return
        known_heads = self._watcher.known_heads
        if len(known_heads) >= _KNOWN_HEADS:
            known_heads.clear()
        head.raw = data[:head_end]
        known_heads[head.raw] = head

    def _expect(self, seconds: float) -> None:
        self.deadline = self._watcher.now + seconds

    # -- from the parser ------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._between = False
        self._reset()
        self._expect(self._limits.head_seconds)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value))
        if self._head_done:
            return  # a trailer: nothing that it says may count as said in the head
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
            raise self._head_too_large()

    def _head_too_large(self) -> HeadTooLarge:
        return HeadTooLarge(f"the head is larger than {self._limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        if self._failed:
            return  # it came behind a request that took the connection away from HTTP
        self._head_done = True
        self._held_bytes = 0
        headers = self._headers
        if b"content-length" in headers and b"transfer-encoding" in headers:
            raise BadRequest("Content-Length and Transfer-Encoding exclude each other")
        if b"host" not in headers and self._parser.get_http_version() == "1.1":
            raise BadRequest("the header 'host' is missing")
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes:
            raise self._too_large()
        if self._expects_continue and not self._busy:
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._held_bytes = 0
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise self._too_large()
        self._body.append(body)

    def _too_large(self) -> TooLarge:
        return TooLarge(f"the body is larger than {self._limits.body_bytes} bytes")

    def on_message_complete(self) -> None:
        if self._failed:
            return
        parser = self._parser
        if parser.should_upgrade():
            return
        self._between = True
        self._held_bytes = 0
        keep_alive = bool(parser.should_keep_alive()) and parser.get_http_version() == "1.1"
        head = Head(parser.get_method(), self._url, self._headers, keep_alive)
        if self._first is None:
            self._first = head
        body = self._body
        self._take(Request(head, body[0] if len(body) == 1 else b"".join(body)))

    def _take(self, request: Request) -> None:
        """Handle it, or let it wait for its turn."""
        self.deadline = _NEVER
        if self._busy:
            self._waiting.append(request)
            if len(self._waiting) == _MAX_WAITING:
                self.transport.pause_reading()
        else:
            self._handle(request)

    # -- answering ------------------------------------------------------------------------------

    def _handle(self, request: Request) -> None:
        self._busy = True
        exchange = Exchange(self, request.head)
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
        self._write(data)
        if not keep_alive or self._leaving:
            self._failed = True
            self.flush()
            self.transport.close()
        elif self._waiting:
            if len(self._waiting) == _MAX_WAITING:
                self.transport.resume_reading()
            # A turn of its own: a long row of requests must not become a deep stack.
            asyncio.get_running_loop().call_soon(self._handle_next)
            self._busy = True
        else:
            self._expect(self._limits.idle_seconds)

    def _write(self, data: bytes) -> None:
        """Write at once, or with the other answers to what came in together."""
        if self._answers is None:
            self.transport.write(data)
        else:
            self._answers.append(data)

    def flush(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, []
            self.transport.write(answers[0] if len(answers) == 1 else b"".join(answers))

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
        """What came in cannot be trusted any more: answer and close. Where a request before it took
        the connection, it is not this one's any more to answer on."""
        if self._failed:
            return
        self._failed = True
        body = error_body(error)
        headers = error_headers(error)
        head = response_head(error.http_status, "application/json", len(body), headers, False)
        self._write(head.encode() + b"\r\n" + body)
        self.flush()
        self.transport.close()

    def time_out(self) -> None:
        """Called by the listener after the deadline (slow heads, or nothing more to do), and when
        it stops: then a request under way still gets its answer."""
        if self._busy:
            self._leaving = True
        elif not self._between:
            self.refuse(RequestTimeout("the request took too long to arrive"))
        else:
            self._failed = True
            self.transport.close()

    # -- leaving HTTP ---------------------------------------------------------------------------

    def _upgrade(self, rest: bytes) -> None:
        if self._failed:
            return  # as in on_headers_complete
        if self._headers.get(b"upgrade", b"websocket").lower() != b"websocket":
            self._ignore_upgrade(rest)
            return
        if self._busy or self._waiting:
            self.refuse(BadRequest("an upgrade cannot be pipelined behind other requests"))
            return
        if self._parser.get_http_version() != "1.1":
            self.refuse(BadRequest("a WebSocket handshake needs HTTP/1.1"))
            return
        head = Head(self._parser.get_method(), self._url, self._headers, keep_alive=False)
        request = Request(head)
        self.deadline = _NEVER
        self.flush()
        try:
            self._handler.upgrade(request, self, rest)
        except HubbubError as error:
            self.refuse(error)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """A client that would rather speak something else (HTTP/2) is served as it is."""
        del self._headers[b"upgrade"]
        lines = [b"%b %b HTTP/1.1" % (self._parser.get_method(), self._url)]
        lines += [b"%b: %b" % header for header in self._headers.items()]
        self._parser = httptools.HttpRequestParser(self)
        self._between = True
        self._parse(b"\r\n".join([*lines, b"", rest]))

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """From now on the transport belongs to another protocol."""
        self._failed = True
        self._watcher.unwatch(self)
        self.transport.set_protocol(protocol)
        self._release_parser()

    def _release_parser(self) -> None:
        """It holds this connection, which holds it: neither would go before the garbage
        collector looks."""
        if hasattr(self, "_parser"):
            del self._parser
