"""A WebSocket connection: frames in, requests to its session; packed bytes out."""

from __future__ import annotations

import asyncio

from hubbub.domain.errors import GoingAway, HubbubError, Malformed, TooLarge
from hubbub.domain.notices import Disconnect
from hubbub.gateways.encoders import WebSocketEncoder
from hubbub.gateways.outlet import Outlet
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
TURN_BYTES = 32 * 1024


class WebSocketConnection(Outlet):
    """From the end of the handshake to the close."""

    __slots__ = ("_codec", "_held", "_reader", "_rest", "_unfinished_bytes")

    technology = "websocket"

    def __init__(
        self,
        transport: asyncio.Transport,
        encoder: WebSocketEncoder,
        max_message_bytes: int,
        send_buffer_bytes: int,
    ) -> None:
        super().__init__(transport, encoder, send_buffer_bytes)
        self._codec = encoder.codec
        self._reader = FrameReader(max_message_bytes, encoder.deflate)
        self._rest = b""
        """What came in and has to wait for the next turn of the loop."""
        self._held = 0
        """By how many it is told to wait: its session, and channels that are behind."""
        self._unfinished_bytes = 0
        """What the reader held when that was last counted."""

    def data_received(self, data: bytes) -> None:
        """A client that sends much is served in turns, like everyone else."""
        if self._closing or (len(data) <= TURN_BYTES and not (self._rest or self._held)):
            self._read(data)
        elif self._rest or self._held:
            self._rest += data
            self._count()
        else:
            self._rest = data
            self.transport.pause_reading()
            self._next_turn()

    def _next_turn(self) -> None:
        if not self._rest or self._held:
            return
        data, self._rest = self._rest[:TURN_BYTES], self._rest[TURN_BYTES:]
        self._read(data)
        self._count()
        if self._rest:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif not self._held:
            super().resume_reading()

    def pause_reading(self) -> None:
        self._held += 1
        super().pause_reading()

    def resume_reading(self) -> None:
        self._held = max(0, self._held - 1)
        if self._held:
            return
        if self._rest:
            asyncio.get_running_loop().call_soon(self._next_turn)
        else:
            super().resume_reading()

    def _read(self, data: bytes) -> None:
        try:
            events = self._reader.feed(data)
        except FrameError as error:
            self._handle(error.events)
            self._fail(error.close_code, error.message)
            return
        self._handle(events)
        unfinished = self._reader.held_bytes
        if unfinished != self._unfinished_bytes:
            self._unfinished_bytes = unfinished
            self._count()

    @property
    def held_bytes(self) -> int:
        return self.buffered + self._reader.held_bytes + len(self._rest)

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            session = self.session
            if self._closing or session is None:
                if event.opcode is Opcode.CLOSE:
                    self.transport.close()
                    return
                continue
            opcode = event.opcode
            if opcode == self._codec.opcode:
                session.receive(self._codec.decode(event.data))
            elif opcode is Opcode.PING:
                session.last_seen = session.clock.monotonic()
                self.send(frame(Opcode.PONG, event.data))
            elif opcode is Opcode.PONG:
                session.last_seen = session.clock.monotonic()
            elif opcode is Opcode.CLOSE:
                self._answer_close(event)
            else:
                kind = "text" if self._codec.opcode == Opcode.TEXT else "binary"
                self._fail(UNSUPPORTED_DATA, f"{self._codec.subprotocol} uses {kind} messages")

    def _answer_close(self, event: Event) -> None:
        """The client closes: echo its code, keep its state, hang up."""
        if self.session is not None:
            self.session.reason = "closed"
        self.send(close_frame(parse_close(event.data)[0]))
        self._close_soon()
        self.transport.close()

    def _fail(self, close_code: int, message: str) -> None:
        """The client broke the protocol: say how, in words and with the standard's code."""
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

    def _close_soon(self) -> None:
        """What it says does not count any more, except that it closes too."""
        super()._close_soon()
        self._held = 0
        rest, self._rest = self._rest, b""
        if rest:
            asyncio.get_running_loop().call_soon(self._read, rest)

    def eof_received(self) -> None:
        self._end_session()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest = b""
        super().connection_lost(exc)


class EchoConnection(asyncio.Protocol):
    """Says back what it hears, on the hub's own framing: for conformance suites."""

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
