"""One HTTP connection to a tenant's server: one request at a time, with bounded responses."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

import httptools

from hubbub.ports.outgoing import HttpResponse, SendFailed

_HEAD_BYTES = 64 * 1024
"""The size limit of a response without its body."""


@dataclass(slots=True, eq=False)
class OutgoingConnection(asyncio.Protocol):
    """Created by `HttpOut`, which decides when it is reused."""

    _loop: asyncio.AbstractEventLoop
    _transport: asyncio.Transport | None = None
    _parser: httptools.HttpResponseParser = field(init=False)
    _waiter: asyncio.Future[HttpResponse] | None = None
    _timer: asyncio.TimerHandle | None = None
    _headers: dict[str, str] = field(default_factory=dict)
    _body: list[bytes] = field(default_factory=list)
    _body_bytes: int = 0
    _received: int = 0
    _max_bytes: int = 0
    _status: int = 0
    _started: float = 0.0
    _in_answer: bool = False
    _complete: bool = False
    closed: bool = False
    idle_since: float = 0.0
    untouched: bool = True
    """Whether no byte of the response has arrived yet."""

    def __post_init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)

    # -- requests -------------------------------------------------------------------------------

    def request(
        self, head: bytes, body: bytes, max_answer_bytes: int, seconds: float, started: float
    ) -> asyncio.Future[HttpResponse]:
        """Sends a request. The future raises `SendFailed` after `seconds`."""
        assert self._transport is not None
        assert self._waiter is None
        waiter = self._waiter = self._loop.create_future()
        self._headers = {}
        self._body = []
        self._body_bytes = self._received = 0
        self._max_bytes = max_answer_bytes
        self._started = started
        self.untouched = True
        self._timer = self._loop.call_later(max(0.0, seconds), self._time_out)
        if len(body) <= _HEAD_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return waiter

    def close(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        return (
            not self.closed
            and self._complete
            and not self._in_answer
            and self._transport is not None
            and not self._transport.get_write_buffer_size()
        )

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._waiter is None:
            return
        if self._in_answer and self._ends_with_connection() and exc is None:
            self._conclude()
        else:
            self._fail(SendFailed("closed", "the receiver closed the connection", self._seen()))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # nobody asked
            self.close()
            return
        self.untouched = False
        self._received += len(data)
        if self._received - self._body_bytes > _HEAD_BYTES + self._max_bytes:
            self._too_large()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(SendFailed("protocol", "the receiver changed the protocol", self._seen()))
        except httptools.HttpParserError as error:
            if self._waiter is not None:
                message = f"the receiver does not speak HTTP/1: {error}"
                self._fail(SendFailed("protocol", message[:200], self._seen()))
            self.close()

    # -- the parser's callbacks -----------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._in_answer = True
        self._complete = False
        self._status = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._max_bytes:
            self._too_large()
        elif self._waiter is not None:
            self._body.append(body)

    def on_message_complete(self) -> None:
        self._in_answer = False
        if 100 <= self._status < 200:  # the answer is still to come
            self._headers = {}
            return
        self._complete = self._parser.should_keep_alive()
        self._conclude()

    # -- ends -----------------------------------------------------------------------------------

    def _ends_with_connection(self) -> bool:
        framed = "content-length" in self._headers or "transfer-encoding" in self._headers
        return self._status >= 200 and not framed

    def _conclude(self) -> None:
        waiter = self._release()
        if waiter is not None and not waiter.done():
            body = b"".join(self._body)
            duration = perf_counter() - self._started
            waiter.set_result(HttpResponse(self._status, self._headers, body, duration))
        elif waiter is None:
            self.close()  # an answer that nobody asked for

    def _too_large(self) -> None:
        message = f"the answer is larger than {self._max_bytes} bytes"
        self._fail(SendFailed("too_large", message, self._seen()))

    def _time_out(self) -> None:
        self._fail(SendFailed("timeout", "the receiver took too long to answer", self._seen()))

    def _fail(self, error: SendFailed) -> None:
        waiter = self._release()
        self.close()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _release(self) -> asyncio.Future[HttpResponse] | None:
        waiter, self._waiter = self._waiter, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return waiter

    def _seen(self) -> int | None:
        return self._status if self._status >= 200 else None
