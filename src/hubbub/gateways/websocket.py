"""WebSocket connections: decodes frames into requests for the session, and writes packed bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain

from hubbub.domain.errors import GoingAway, HubbubError, Malformed, TooLarge
from hubbub.domain.notices import Disconnect
from hubbub.domain.requests import Request
from hubbub.gateways.encoders import WebSocketEncoder
from hubbub.gateways.outlet import Outlet, Talk
from hubbub.gateways.turns import LONG_COST, SLICE_BYTES, SLICE_REQUESTS, AddressUsage, Turns
from hubbub.protocols.websocket import (
    Event,
    FrameError,
    FrameReader,
    Opcode,
    close_frame,
    frame,
    parse_close,
)

UNSUPPORTED_DATA = 1003
BACK_SOON = 4000
"""Close code of a client that is likely to restore its session soon, such as a page in the
back/forward cache."""
RETURN_SECONDS = 30.0
"""How long its session continues without it, so that presence shows no leave and join."""
LAST_REQUESTS = 64
"""Queued requests that are still handled after the client disconnected."""


class WebSocketConnection(Outlet):
    """A connection from the end of the handshake to the close."""

    __slots__ = (
        "_codec",
        "_counted",
        "_events",
        "_held",
        "_paused",
        "_pending",
        "_queued",
        "_reader",
        "_requests",
        "_rest",
        "_returning",
        "_turns",
        "address",
        "usage",
    )

    technology = "websocket"

    def __init__(
        self,
        transport: asyncio.Transport,
        encoder: WebSocketEncoder,
        max_message_bytes: int,
        send_buffer_bytes: int,
        turns: Turns,
        peer: str = "",
    ) -> None:
        """`peer` is the client's address."""
        super().__init__(transport, encoder, send_buffer_bytes)
        self._codec = encoder.codec
        self._reader = FrameReader(max_message_bytes, encoder.deflate)
        self._turns = turns
        self.address = turns.address_of(peer)
        self.usage = AddressUsage()
        self._rest = b""
        """Received data that was not decoded."""
        self._events: Iterator[Event] = iter(())
        """Decoded frames that were not handled."""
        self._requests: Iterator[Request] | None = None
        """The remaining requests of the frame being handled."""
        self._pending = False
        """Data arrived that may not be handled yet."""
        self._queued = False
        self._paused = False
        self._held = 0
        """How many parties asked it to wait: its session, and channels that lag."""
        self._returning: asyncio.TimerHandle | None = None
        """A timer that ends the session of a client that has not returned."""
        self._counted = 0
        """The backlog when it was last counted."""

    @property
    def rid(self) -> int | None:
        return self._codec.rid

    # -- in -------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        session = self.session
        if (
            session is not None
            and not (self._pending or self._held or self._counted or self._closing)
            and self._turns.left > 0
        ):
            message = self._reader.read_alone(data, self._codec.opcode)
            if message is not None:
                self._serve_message(session, message, len(data))
                return
        if self._closing:
            self._await_close(data)
        elif self._pending or self._held or self._turns.left <= 0:
            self._keep(data)
        elif len(data) > SLICE_BYTES:
            self._rest = data
            self._serve(SLICE_REQUESTS)
        else:
            self._serve_little(data)

    def _serve_little(self, data: bytes) -> None:
        """Handles less than a slice while nothing waits, faster than `_serve`."""
        try:
            events = self._reader.feed(data)
        except FrameError as error:
            self._events = self._until(error)
        else:
            session = self.session
            if session and len(events) == 1 and events[0].opcode == self._codec.opcode:
                self._serve_message(session, events[0].data, len(data))
                if self._counted or self._reader.held_bytes:
                    self._go_on()
                return
            self._events = iter(events)
        self._turns.charge(self, 0, len(data))
        self._serve(SLICE_REQUESTS)

    def _serve_message(self, session: Talk, message: bytes, size: int) -> None:
        """Handles the only message that waits."""
        session.hear()
        requests = iter(self._codec.decode(message))
        handled = session.receive(requests, SLICE_REQUESTS)
        self._turns.charge(self, handled, size)
        if handled == SLICE_REQUESTS or self._held:
            if session.busy:
                self._turns.charge(self, LONG_COST * session.busy, 0)
            self._requests = requests
            self._pending = True
            self._go_on()

    def _keep(self, data: bytes) -> None:
        """Stores data until the connection's turn."""
        self._rest += data
        self._pending = True
        if self.session is not None:
            self.session.last_seen = self.session.clock.monotonic()
        self._go_on()

    def take_turn(self) -> None:
        """Called by `Turns`."""
        self._queued = False
        if self._closing:
            self._await_close()
        else:
            self._serve(SLICE_REQUESTS)

    def _serve(self, left: int) -> None:
        """Handles a slice of the received data; the rest waits for another turn."""
        most, size = left, len(self._rest)
        while left > 0 and not (self._held or self._closing):
            if self._requests is not None:
                if self.session is not None:
                    left -= self.session.receive(self._requests, left)
                    if self.session is not None:
                        left -= LONG_COST * self.session.busy
                if left > 0 and not self._held:
                    self._requests = None
            elif (event := next(self._events, None)) is not None:
                left -= self._handle(event)
            elif self._rest:
                data, self._rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
                self._read(data)
            else:
                self._pending = False
                break
        else:
            self._pending = True
        self._turns.charge(self, most - left, size - len(self._rest))
        self._go_on()

    def _go_on(self) -> None:
        """Queues the connection if there is work, and reads as much as may wait."""
        if self._pending and not (self._queued or self._held or self._closing):
            self._queued = True
            self._turns.wait(self)
        held = self._reader.held_bytes + len(self._rest)
        if held != self._counted:
            self._counted = held
            self._count()
        pause = len(self._rest) > SLICE_BYTES
        if pause is not self._paused and not self.transport.is_closing():
            self._paused = pause
            (self.transport.pause_reading if pause else self.transport.resume_reading)()

    def pause_reading(self) -> None:
        self._held += 1

    def resume_reading(self) -> None:
        self._held = max(0, self._held - 1)
        if not self._held:
            self._go_on()

    @property
    def held_bytes(self) -> int:
        return self.buffered + self._reader.held_bytes + len(self._rest)

    def _read(self, data: bytes) -> None:
        try:
            self._events = iter(self._reader.feed(data))
        except FrameError as error:
            self._events = self._until(error)

    def _until(self, error: FrameError) -> Iterator[Event]:
        """The events before the client violated the protocol."""
        yield from error.events
        self._fail(error.close_code, error.message)

    def _handle(self, event: Event) -> int:
        """Returns its cost, besides the requests in a message."""
        session, opcode = self.session, event.opcode
        if session is None:
            return 1
        if opcode == self._codec.opcode:
            session.hear()
            self._requests = iter(self._codec.decode(event.data))
            return 0
        if opcode is Opcode.PING:
            session.last_seen = session.clock.monotonic()
            self.send(frame(Opcode.PONG, event.data))
        elif opcode is Opcode.PONG:
            session.last_seen = session.clock.monotonic()
        elif opcode is Opcode.CLOSE:
            self._answer_close(event)
        else:
            kind = "text" if self._codec.opcode == Opcode.TEXT else "binary"
            self._fail(UNSUPPORTED_DATA, f"{self._codec.subprotocol} uses {kind} messages")
        return 1

    def _answer_close(self, event: Event) -> None:
        """The client closes: echoes its code, keeps the session's state, and disconnects."""
        code = parse_close(event.data)[0]
        self.send(close_frame(code))
        if self.session is not None:
            self.session.reason = "closed"
            if code == BACK_SOON and self.session.restorable:
                loop = asyncio.get_running_loop()
                self._returning = loop.call_later(RETURN_SECONDS, self._end_session)
        self._close_soon()
        self.transport.close()

    def _fail(self, close_code: int, message: str) -> None:
        """The client violated the protocol: closes with a reason and the standard's code."""
        if self._closing:
            return
        error = TooLarge(message) if close_code == 1009 else Malformed(message)
        unit = self.encoder.encode(Disconnect(error))
        self.send(self.encoder.pack([unit]) + close_frame(close_code, message))
        self._close_soon()

    def goodbye(self) -> bytes:
        return close_frame(1000)

    def farewell(self, error: HubbubError) -> bytes:
        unit = self.encoder.encode(Disconnect(error))
        code = 1001 if isinstance(error, GoingAway) else error.close_code
        return self.encoder.pack([unit]) + close_frame(code, f"{error.code}: {error.message}")

    def disconnect(self, error: HubbubError) -> None:
        if self._returning is None:
            super().disconnect(error)
        elif self.session is not None:  # it was restored, or ended from here
            self._returning.cancel()
            self._returning = None
            self.session.reason = error.code
            self._end_session()

    def _leave_session(self) -> None:
        if self._returning is None:
            super()._leave_session()

    def _lose_session(self) -> None:
        if self._returning is None:
            super()._lose_session()

    def _close_soon(self) -> None:
        super()._close_soon()
        self._held = 0
        # The client's `Close` may have come already, behind the request that is being handled.
        asyncio.get_running_loop().call_soon(self._await_close)

    def _await_close(self, data: bytes = b"") -> None:
        """Ignores further data except for the client's close frame. A client that sends more than a
        slice is not read any more: the connection ends soon."""
        self._rest += data
        if len(self._rest) > SLICE_BYTES:
            self._rest = b""
            if not self.transport.is_closing():
                self.transport.pause_reading()
        elif self._turns.left <= 0:
            if not self._queued:
                self._queued = True
                self._turns.wait(self)
        else:
            unhandled, rest, self._rest = self._events, self._rest, b""
            self._turns.charge(self, 1, len(rest))
            self._read(rest)
            if any(event.opcode is Opcode.CLOSE for event in chain(unhandled, self._events)):
                self.transport.close()

    def eof_received(self) -> None:
        if self._pending:
            self._serve(LAST_REQUESTS)
        self.fd = -1
        self._stop()
        self._lose_session()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        super().connection_lost(exc)


class EchoConnection(asyncio.Protocol):
    """Echoes what it receives, with the hub's own framing; for conformance suites."""

    __slots__ = ("_reader", "_transport")

    def __init__(self, transport: asyncio.Transport, reader: FrameReader) -> None:
        self._transport = transport
        self._reader = reader

    def data_received(self, data: bytes) -> None:
        try:
            events = self._reader.feed(data)
        except FrameError as error:
            self._echo(error.events)
            self._transport.write(close_frame(error.close_code, error.message))
            self._transport.close()
            return
        self._echo(events)

    def _echo(self, events: list[Event]) -> None:
        for event in events:
            if event.opcode is Opcode.CLOSE:
                self._transport.write(close_frame(parse_close(event.data)[0]))
                self._transport.close()
            elif event.opcode is Opcode.PING:
                self._transport.write(frame(Opcode.PONG, event.data))
            elif event.opcode is not Opcode.PONG:
                self._transport.write(frame(event.opcode, event.data))
