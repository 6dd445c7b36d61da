"""One connection of HTTP/2 to a server that strangers named: many requests at a time, within the
server's limits of streams and windows, and answers within bounds.

The framing is that of `h2`, but for GOAWAY: `h2` takes it for the end of everything, while answers
to the requests that the server did take are still to come (RFC 9113 6.8). So GOAWAY is read here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import H2Error

from hubbub.connectors.dialing import Unprocessed
from hubbub.domain.callbacks import CallbackParts
from hubbub.ports.outgoing import HttpRequest, HttpResponse, SendFailed

_IDLE_SECONDS = 300.0
_GOAWAY = 7
_HEAD_BYTES = 9
_MOST_FRAME_BYTES = 16_384
_LAST_STREAM = 2**31 - 1


@dataclass(slots=True, eq=False)
class _Stream:
    """A request and its response."""

    request: HttpRequest
    parts: CallbackParts
    waiter: asyncio.Future[HttpResponse]
    started: float
    timer: asyncio.TimerHandle | None = None
    id: int = 0
    """0: it waits for a free stream."""
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: list[bytes] = field(default_factory=list)
    body_bytes: int = 0
    sent_at: float = 0.0


class Http2Connection(asyncio.Protocol):
    """Created by `Http2Out`, which checks `usable` before each request."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ended: Callable[[Http2Connection], None]
    ) -> None:
        self._loop = loop
        self._ended = ended
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, _Stream] = {}
        self._waiting: deque[_Stream] = deque()
        self._received = b""
        self._received_at = 0.0
        self._settled: asyncio.Future[None] = loop.create_future()
        self._idle: asyncio.TimerHandle | None = None
        self._leaving = False
        self.closed = False

    # -- requests -------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether the connection accepts requests."""
        return not self.closed and not self._leaving

    async def settled(self) -> None:
        """Waits for the server's settings, which limit what may be sent. Raises `SendFailed`."""
        await self._settled

    async def request(
        self, request: HttpRequest, parts: CallbackParts, seconds: float, started: float
    ) -> HttpResponse:
        """Raises `SendFailed`, and `Unprocessed`."""
        if not self.usable:
            raise Unprocessed
        stream = _Stream(request, parts, self._loop.create_future(), started)
        stream.timer = self._loop.call_later(seconds, self._time_out, stream)
        self._waiting.append(stream)
        self._start_waiting()
        self._flush()
        try:
            return await stream.waiter
        except asyncio.CancelledError:
            self._give_up(stream, None)
            raise

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self.closed = True

    def _start_waiting(self) -> None:
        """Starts as many requests as the server allows concurrently, unless it is closing."""
        while self._waiting and not self._leaving and not self.closed:
            if len(self._streams) >= self._h2.remote_settings.max_concurrent_streams:
                return
            self._start(self._waiting.popleft())
        if self._leaving:
            while self._waiting:
                self._fail(self._waiting.popleft(), Unprocessed())

    def _start(self, stream: _Stream) -> None:
        request, parts = stream.request, stream.parts
        headers = [
            (":method", request.method),
            (":scheme", "https" if parts.tls else "http"),
            (":authority", parts.authority),
            (":path", parts.target),
            *((name.lower(), value) for name, value in request.headers),
            ("content-length", str(len(request.body))),
        ]
        try:
            stream.id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream.id, headers, end_stream=not request.body)
        except H2Error as error:
            self._fail(stream, SendFailed("protocol", f"the request cannot be sent: {error}"[:200]))
            self._leaving = True
            return
        self._streams[stream.id] = stream
        stream.sent_at = self._loop.time()
        stream.unsent = memoryview(request.body)
        self._send_body(stream)

    def _send_body(self, stream: _Stream) -> None:
        """Sends as much as the flow-control windows allow."""
        while stream.unsent:
            window = self._h2.local_flow_control_window(stream.id)
            room = min(window, self._h2.max_outbound_frame_size, _MOST_FRAME_BYTES)
            if room <= 0:
                return
            part, stream.unsent = stream.unsent[:room], stream.unsent[room:]
            self._h2.send_data(stream.id, bytes(part), end_stream=not stream.unsent)

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() != "h2":
            self._lose(SendFailed("protocol", "the server does not speak HTTP/2"))
            return
        self._h2.initiate_connection()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(SendFailed("closed", "the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        try:
            for event in self._h2.receive_data(self._without_goaway(data)):
                self._take(event)
        except H2Error as error:
            self._lose(SendFailed("protocol", f"the server breaks HTTP/2: {error}"[:200]))
            return
        self._start_waiting()
        self._flush()
        self._look_idle()

    def _without_goaway(self, data: bytes) -> bytes:
        """Removes GOAWAY frames; returns whole frames only."""
        data, kept, start = self._received + data, [], 0
        while len(data) - start >= _HEAD_BYTES:
            size = int.from_bytes(data[start : start + 3], "big")
            if size > _MOST_FRAME_BYTES:
                raise H2Error(f"a frame of {size} bytes, which was not allowed")
            end = start + _HEAD_BYTES + size
            if len(data) < end:
                break
            if data[start + 3] == _GOAWAY and size >= 8:
                body = data[start + _HEAD_BYTES : end]
                self._go_away(int.from_bytes(body[:4], "big") & _LAST_STREAM)
            else:
                kept.append(data[start:end])
            start = end
        self._received = data[start:]
        return b"".join(kept)

    # -- what the server says -------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if isinstance(event, RemoteSettingsChanged):
            if not self._settled.done():
                self._settled.set_result(None)
            self._send_bodies()
        elif isinstance(event, WindowUpdated):
            self._send_bodies()
        elif isinstance(event, ResponseReceived | DataReceived | StreamEnded | StreamReset):
            self._take_of_stream(event)

    def _take_of_stream(
        self, event: ResponseReceived | DataReceived | StreamEnded | StreamReset
    ) -> None:
        if isinstance(event, DataReceived):
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        if isinstance(event, ResponseReceived):
            found = {str(name): str(value) for name, value in event.headers}
            status = found.pop(":status", "")
            stream.status = int(status) if status.isdecimal() else 0
            stream.headers = found
        elif isinstance(event, DataReceived):
            stream.body_bytes += len(event.data)
            if stream.body_bytes > stream.request.max_answer_bytes:
                self._give_up(stream, SendFailed("too_large", "the answer is too large"))
            else:
                stream.body.append(event.data)
        elif isinstance(event, StreamEnded):
            self._conclude(stream)
        elif event.error_code == ErrorCodes.REFUSED_STREAM:
            self._fail(stream, Unprocessed())
        else:
            self._fail(stream, SendFailed("closed", f"the server reset it ({event.error_code})"))

    def _send_bodies(self) -> None:
        for stream in list(self._streams.values()):
            self._send_body(stream)

    def _go_away(self, last: int) -> None:
        """The server will respond to requests up to the stream `last`, and ignores all others."""
        self._leaving = True
        for number in [each for each in self._streams if each > last]:
            self._fail(self._streams[number], Unprocessed())

    # -- ends -----------------------------------------------------------------------------------

    def _conclude(self, stream: _Stream) -> None:
        self._forget(stream)
        if not stream.waiter.done():
            seconds = perf_counter() - stream.started
            body = b"".join(stream.body)
            stream.waiter.set_result(HttpResponse(stream.status, stream.headers, body, seconds))

    def _fail(self, stream: _Stream, error: Exception) -> None:
        self._forget(stream)
        if not stream.waiter.done():
            stream.waiter.set_exception(error)

    def _give_up(self, stream: _Stream, error: Exception | None) -> None:
        """Tells the server that the response is no longer needed."""
        if stream.id in self._streams and not self.closed:
            try:
                self._h2.reset_stream(stream.id, ErrorCodes.CANCEL)
            except H2Error:
                self._leaving = True
        if error is None:
            self._forget(stream)
        else:
            self._fail(stream, error)
        self._start_waiting()
        self._flush()
        self._look_idle()

    def _time_out(self, stream: _Stream) -> None:
        """If the server sent nothing meanwhile, the connection may be dead."""
        silent = stream.id and self._received_at < stream.sent_at
        self._give_up(stream, SendFailed("timeout", "the receiver took too long to answer"))
        if silent:
            self._lose(SendFailed("closed", "the server is silent"))

    def _forget(self, stream: _Stream) -> None:
        self._streams.pop(stream.id, None)
        if not stream.id and stream in self._waiting:
            self._waiting.remove(stream)
        if stream.timer is not None:
            stream.timer.cancel()

    def _lose(self, error: SendFailed) -> None:
        """The connection failed, with all its requests."""
        self.close()
        if not self._settled.done():
            self._settled.set_exception(error)
            self._settled.exception()  # perhaps nobody waits for it any more
        for stream in (*self._streams.values(), *self._waiting):
            self._fail(stream, error if stream.id else Unprocessed())
        if self._idle is not None:
            self._idle.cancel()
        self._ended(self)

    def _look_idle(self) -> None:
        """Closes a connection that is unused for long, or at once if it is closing."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._streams and not self._waiting and not self.closed:
            seconds = 0.0 if self._leaving else _IDLE_SECONDS
            error = SendFailed("closed", "the connection was idle")
            self._idle = self._loop.call_later(seconds, self._lose, error)

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self.closed:
            self._transport.write(data)
