"""HTTP/1.1 connections: requests are handled one after another, with a limit on everything that
waits.

A request is read when the previous one has been answered, the client has read the responses so far,
and it is the connection's turn. Until then its bytes wait, up to a limit at which the socket is no
longer read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, cast

from hubbub.domain.errors import HubbubError, Internal, Overloaded, RequestTimeout
from hubbub.domain.holdings import FREE_BYTES
from hubbub.gateways.backlog import Backlog
from hubbub.gateways.content_headers import passive
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import (
    HttpLimits,
    ReceivedRequest,
    RequestHead,
    error_body,
    error_headers,
    response_head,
)
from hubbub.gateways.http_reader import RequestReader, Upgrade
from hubbub.gateways.turns import (
    LONG_COST,
    SLICE_BYTES,
    SLICE_REQUESTS,
    AddressUsage,
    ClientAddress,
    Turns,
)
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_NEVER = float("inf")
_LARGE_ANSWER_BYTES = 4096
"""Larger responses are written at once, so that a client that does not read is noticed."""

# What keeps the next request from being read.
_BUSY = 1
"""A request is in progress."""
_HELD = 2
"""The connection was asked to wait, because channels lag."""
_STALLED = 4
"""The client does not read its responses."""
_CLOSED = 8
"""Reading has ended, or the transport belongs to another protocol."""


class ConnectionWatcher(Protocol):
    """Supervises the connections of a listener."""

    now: float
    """The event loop's time, in whole seconds."""
    turns: Turns
    known_heads: dict[bytes, RequestHead]
    """Parsed heads by their bytes. Their memos are valid only for this listener, with its keys and
    limits."""

    under_way: TaskSet
    """Work that continues after its connection has closed."""

    def watch(self, connection: HttpConnection) -> None: ...
    def unwatch(self, connection: HttpConnection) -> None: ...
    def hold(self, connection: HttpConnection, size: int) -> None:
        """Reports the bytes buffered for a client. May call `give_up` of any connection."""


class Handler(Protocol):
    """The request handler behind the connections."""

    def handle(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        """Responds now or later through the exchange. May raise `HubbubError`."""

    def upgrade(self, request: ReceivedRequest, connection: HttpConnection, rest: bytes) -> None:
        """Takes the connection over; `rest` followed the head."""


class HttpConnection(asyncio.Protocol):
    """One connection while it speaks HTTP."""

    __slots__ = (
        "_answers",
        "_backlog",
        "_blocked",
        "_handler",
        "_held",
        "_leaving",
        "_limits",
        "_queued",
        "_reader",
        "_receiving",
        "_task",
        "_turns",
        "_watcher",
        "address",
        "deadline",
        "peer",
        "transport",
        "usage",
    )

    def __init__(self, handler: Handler, limits: HttpLimits, watcher: ConnectionWatcher) -> None:
        self._handler = handler
        self._limits = limits
        self._watcher = watcher
        self._turns = watcher.turns
        self._reader: RequestReader
        self._backlog: Backlog
        self.transport: asyncio.Transport
        self.peer = ""
        """The remote address, which may be a proxy's."""
        self.address: ClientAddress
        self.usage = AddressUsage()
        self.deadline = 0.0
        self._blocked = 0
        self._held = 0
        """How many parties asked it to wait."""
        self._receiving = False
        """A request is incomplete."""
        self._leaving = False
        """The response in progress is the last one."""
        self._queued = False
        self._task: asyncio.Task[None] | None = None
        """The request in progress, if it needs a task."""
        self._answers: list[bytes] | None = None
        """Responses of the slice being served."""

    # -- from the transport ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self.address = self._turns.address_of(self.peer)
        self._reader = RequestReader(self._limits, self._watcher.known_heads)
        self._backlog = Backlog(self.transport, self._reader)
        self._expect(self._limits.head_seconds)
        self._watcher.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._blocked |= _CLOSED
        self._backlog.release()
        self._watcher.unwatch(self)
        if self._task is not None:
            self._task.cancel()
            self._task = None  # its error has this connection in its traceback
        self._reader.close()

    def data_received(self, data: bytes) -> None:
        if self._backlog.unread or self._blocked:
            self._keep(data)
            return
        if self._receiving and self._reader.gather(data):
            return
        if self._turns.left <= 0:
            self._keep(data)
            return
        request = self._reader.read_alone(data)
        if request is None:
            self._serve(data, 0)
        else:
            self._turns.charge(self, 1, len(data))
            self._handle(request)

    def _keep(self, data: bytes) -> None:
        """Stores data until the connection's turn."""
        if self._blocked & _CLOSED:
            return
        self._backlog.add(data)
        self._go_on()

    def take_turn(self) -> None:
        """Called by `Turns`."""
        self._queued = False
        backlog = self._backlog
        if backlog.unread and not self._blocked:
            data, backlog.unread = backlog.unread, b""
            if backlog.at:
                self._serve(data, backlog.at)
            else:
                self.data_received(data)
            if backlog.paused:
                self._regulate()
            self._count(0)

    def _serve(self, data: bytes, start: int) -> None:
        """Handles a slice of the received data; the rest waits."""
        reader, first, end = self._reader, start, len(data)
        left, last = SLICE_REQUESTS, start + SLICE_BYTES
        self._answers = []
        try:
            while start < end and left and start < last and not self._blocked:
                left -= 1
                request = reader.read(data, start)
                start = reader.at
                if request is not None:
                    self._handle(request)
                elif not reader.between:
                    self._await_more(reader)
        except HubbubError as error:
            self.refuse(error)
        except Upgrade as upgrade:
            start = end
            self._upgrade(upgrade.request, data[reader.at :])
        self.flush()
        self._answers = None
        self._turns.charge(self, SLICE_REQUESTS - left, start - first)
        if start < end and not self._blocked & _CLOSED:
            self._backlog.unread, self._backlog.at = data, start
            self._go_on()
        elif self._backlog.paused:
            self._regulate()

    def _await_more(self, reader: RequestReader) -> None:
        """A request has begun and is incomplete."""
        if not self._receiving:
            self._receiving = True
            self._expect(self._limits.head_seconds)
        self._count(reader.held_bytes)
        if reader.wants_continue and not self._blocked & _CLOSED:
            reader.wants_continue = False
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    @property
    def closed(self) -> bool:
        """Whether reading and responding have ended."""
        return bool(self._blocked & _CLOSED)

    def take_rest(self) -> bytes:
        """The unread data, for the protocol that takes the connection over."""
        return self._backlog.take()

    def _go_on(self) -> None:
        """Queues the connection if there is work, and reads as much as may wait."""
        if self._backlog.unread and not self._blocked and not self._queued:
            self._queued = True
            self._turns.wait(self)
        self._regulate()

    def _regulate(self) -> None:
        """Reads from the socket only while there is room."""
        backlog = self._backlog
        if backlog.unread_bytes > FREE_BYTES:
            self._count(backlog.unread_bytes)
        if not self._blocked & _CLOSED:
            backlog.regulate(self._blocked & (_HELD | _STALLED) != 0)

    def _count(self, size: int) -> None:
        """The data buffered for the client changed and is now at least `size` bytes. Counted if it
        is much, or was counted before."""
        if self._backlog.counted or size > FREE_BYTES:
            self._watcher.hold(self, self._backlog.count())

    def give_up(self) -> None:
        """All connections together buffer too much, and this one most. The client gets an error if
        the next response belongs to its request and it reads responses."""
        logger.warning("closed a connection of %s: clients make the hub buffer too much", self.peer)
        if self._blocked & (_BUSY | _STALLED | _CLOSED):
            self._blocked |= _CLOSED
            self._backlog.take()
            self._reader.drop()
            self.transport.abort()
        else:
            self.refuse(
                Overloaded(
                    "clients have too much under way, and your address most: send requests faster "
                    "or fewer at once"
                )
            )

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers of the incomplete request."""
        return self._reader.headers

    def _expect(self, seconds: float) -> None:
        self.deadline = self._watcher.now + seconds

    # -- answering ------------------------------------------------------------------------------

    def _handle(self, request: ReceivedRequest) -> None:
        self._blocked |= _BUSY
        if self._receiving:
            self._received()
        exchange = HttpExchange(self, request.head)
        try:
            self._handler.handle(request, exchange)
        except HubbubError as error:
            exchange.fail(error)
        except Exception:
            logger.exception("a request failed in an unforeseen way")
            exchange.fail(Internal("the hub failed to handle the request"))
        if self._blocked & _BUSY:
            self.deadline = _NEVER

    def _received(self) -> None:
        """A request that arrived in several pieces is complete."""
        self._receiving = False
        self._count(0)

    def finish(self, data: bytes, keep_alive: bool) -> None:
        """Sends a complete response, then reads the next request."""
        self._blocked &= ~_BUSY
        if self._blocked & _CLOSED:
            return
        if self._blocked & _STALLED:
            self._write(data)
            self._count(self.transport.get_write_buffer_size())
        else:
            self.deadline = self._watcher.now + self._limits.idle_seconds
            self._write(data)
        if not keep_alive or self._leaving:
            self._close()
        elif self._backlog.unread and self._answers is None:
            self._go_on()

    def _write(self, data: bytes) -> None:
        """Writes at once, or together with the other responses of the slice."""
        if self._answers is None:
            self.transport.write(data)
        else:
            self._answers.append(data)
            if len(data) > _LARGE_ANSWER_BYTES:
                self.flush()

    def flush(self) -> None:
        if self._answers:
            answers, self._answers = self._answers, []
            self.transport.write(answers[0] if len(answers) == 1 else b"".join(answers))

    def pause_writing(self) -> None:
        """The client does not read its responses: no more are written until it does."""
        self._blocked |= _STALLED
        self._await_client()
        self._regulate()

    def resume_writing(self) -> None:
        self._blocked &= ~_STALLED
        if self._blocked & _BUSY:
            self.deadline = _NEVER
        elif not self._blocked & _CLOSED:
            limits = self._limits
            self._expect(limits.head_seconds if self._receiving else limits.idle_seconds)
        self._count(0)
        self._go_on()

    def _await_client(self) -> None:
        """Starts a time limit in which the client must read some of the pending data."""
        self._expect(self._limits.send_seconds)
        self._count(self._backlog.offer())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work for this connection, cancelled when the client disconnects."""
        self.ends_with_client(asyncio.get_running_loop().create_task(work))

    def ends_with_client(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def complete(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts work for this connection that is not cancelled."""
        self._watcher.under_way.start(work)

    def pause_reading(self) -> None:
        self._held += 1
        self._blocked |= _HELD
        self._regulate()

    def resume_reading(self) -> None:
        self._held = max(0, self._held - 1)
        if not self._held:
            self._blocked &= ~_HELD
            self._go_on()

    def refuse(self, error: HubbubError) -> None:
        """The received data is invalid: responds and closes. Does nothing if an earlier request
        handed the connection over."""
        if self._blocked & _CLOSED:
            return
        body = error_body(error)
        headers = error_headers(error)
        content = passive("application/json")
        head = response_head(error.http_status, content, len(body), headers, False)
        if self._reader.method == b"HEAD":
            body = b""
        self._write(head.encode() + b"\r\n" + body)
        self._close()

    def _close(self) -> None:
        """Stops reading; the client has some time to read the last response."""
        self._blocked |= _CLOSED
        self._backlog.take()
        self._reader.drop()
        self.flush()
        self._await_client()
        self.transport.close()

    def time_out(self) -> None:
        """Called by the listener after the deadline."""
        if not self._blocked & (_STALLED | _CLOSED):
            self.leave()
        elif self._backlog.shrinks:
            self._await_client()  # slow, but it reads
        else:
            self.transport.abort()

    def leave(self) -> None:
        """Accepts no more requests; one in progress is still answered."""
        if self._blocked & _BUSY:
            self._leaving = True
        elif self._receiving:
            self.refuse(self._fault_of_late_request())
        elif not self._blocked & _CLOSED:
            self._close()

    def _fault_of_late_request(self) -> HubbubError:
        try:
            self._reader.parse_gathered()
        except HubbubError as error:
            return error
        return RequestTimeout("the request took too long to arrive")

    # -- leaving HTTP ---------------------------------------------------------------------------

    def _upgrade(self, request: ReceivedRequest, rest: bytes) -> None:
        self._receiving = False
        self.deadline = _NEVER
        self.flush()
        try:
            self._handler.upgrade(request, self, rest)
        except HubbubError as error:
            self.refuse(error)

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Hands the transport to another protocol."""
        self._turns.charge(self, LONG_COST, 0)
        self._blocked &= ~(_HELD | _STALLED)
        self._backlog.release()
        self._regulate()
        self._blocked |= _CLOSED
        self._watcher.unwatch(self)
        self.transport.set_protocol(protocol)
        self._reader.close()
