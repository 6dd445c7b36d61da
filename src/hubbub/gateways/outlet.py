"""Writes to clients: directly to the socket while it accepts data, otherwise through a bounded
buffer.

The event loop's transport costs about as much per write as the system call itself. So while a
connection's transport is empty, bytes go directly to the file descriptor. What the kernel does not
accept goes to the transport, and later data waits in the backlog until the transport is empty
again. With TLS all bytes go through the transport, and wait in the backlog while the transport has
much to send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from os import write
from typing import Protocol, cast

from hubbub.domain.errors import HubbubError, SlowConsumer
from hubbub.domain.holdings import FREE_BYTES, Holdings
from hubbub.domain.limits import network_of
from hubbub.domain.requests import Request
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection
from hubbub.ports.encoding import Encoder

LINGER_SECONDS = 2.0
"""How long a closing connection may take to read its last data."""

_CHUNK_BYTES = 256 * 1024
_ENCRYPTED_BYTES = 64 * 1024
"""Data in the transport of a TLS connection beyond which the backlog is used."""


class Talk(Protocol):
    """The part of a session that a connection uses."""

    clock: Clock
    last_seen: float
    reason: str | None
    busy: int

    @property
    def restorable(self) -> bool:
        """The client holds a key that restores the session."""

    def hear(self) -> None:
        """A message arrived from the client."""

    def receive(self, received: Iterator[Request], most: int) -> int:
        """Handles at most this many requests; returns how many."""

    def disconnected(self, keep_state: bool = True) -> None:
        """The connection is gone, or about to be."""

    def lost(self) -> None:
        """The connection is gone."""

    def cut_off(self, unread_bytes: int) -> None:
        """The client reads too slowly."""


class Lingering:
    """Closing connections: each has a moment for its client to read the last bytes and
    disconnect."""

    def __init__(self) -> None:
        self._timers: dict[asyncio.Transport, asyncio.TimerHandle] = {}
        self._ended: asyncio.Event | None = None

    def add(self, transport: asyncio.Transport) -> None:
        if transport not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[transport] = loop.call_later(LINGER_SECONDS, transport.abort)

    def discard(self, transport: asyncio.Transport) -> None:
        """The connection is gone."""
        timer = self._timers.pop(transport, None)
        if timer is not None:
            timer.cancel()
            if self._ended is not None and not self._timers:
                self._ended.set()

    async def end(self) -> None:
        """Returns when all of them are closed, at most after `LINGER_SECONDS`."""
        if self._timers:
            self._ended = asyncio.Event()
            await self._ended.wait()


class Outlet(asyncio.Protocol):
    """Base of long-lived connections. `fd` is the socket while it may be written to directly, and
    -1 while the transport is busy, encrypted or closing."""

    __slots__ = (
        "_address",
        "_backlog",
        "_backlog_bytes",
        "_closing",
        "_congested",
        "_drained",
        "_holdings",
        "_limit",
        "_lingering",
        "_socket_fd",
        "encoder",
        "fd",
        "session",
        "transport",
    )

    one_way = False
    technology = ""

    def __init__(self, transport: asyncio.Transport, encoder: Encoder, limit: int) -> None:
        self.transport = transport
        self.encoder = encoder
        self.session: Talk | None = None
        self._limit = limit
        self._backlog: list[bytes] | None = None
        self._backlog_bytes = 0
        self._closing = False
        self._holdings: Holdings | None = None
        self._lingering: Lingering | None = None
        self._address = ""
        self._drained: asyncio.Future[None] | None = None
        encrypted = transport.get_extra_info("ssl_object") is not None
        sock = transport.get_extra_info("socket")
        self._socket_fd = -1 if encrypted or sock is None else cast(int, sock.fileno())
        self.fd = self._socket_fd
        self._congested = False
        """Whether the transport of a TLS connection has much to send."""
        if encrypted:
            transport.set_write_buffer_limits(high=min(_ENCRYPTED_BYTES, limit // 4))
        else:
            transport.set_write_buffer_limits(high=0)
            if transport.get_write_buffer_size():
                self.fd = -1

    def count_in(self, holdings: Holdings, lingering: Lingering, address: str) -> None:
        """From now on its backlog counts for the limit over all connections, and `lingering` closes
        it."""
        self._holdings = holdings
        self._lingering = lingering
        self._address = network_of(address)

    # -- what the engine calls ------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        fd = self.fd
        if fd < 0:
            self._send_later(data)
            return
        try:
            sent = write(fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.lose()
            return
        if sent != len(data):
            self.block(data, sent)

    def block(self, data: bytes, sent: int) -> None:
        """The kernel accepted only `sent` bytes: the transport sends the rest, and the backlog
        waits."""
        self.fd = -1
        self.transport.write(memoryview(data)[sent:])
        if not self.transport.get_write_buffer_size():
            self.resume_writing()
        else:
            self._count()

    async def drain(self) -> None:
        if not self.full:
            return
        if self._drained is None:
            self._drained = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._drained)

    def pause_reading(self) -> None:
        """Does nothing: a one-way client sends nothing."""

    def resume_reading(self) -> None:
        pass

    def disconnect(self, error: HubbubError) -> None:
        if self._closing:
            return
        if self.session is not None:
            self.session.reason = error.code
        farewell = self.farewell(error)
        if self.fd >= 0:
            self.send(farewell)
        elif self._socket_fd < 0 and not self._congested:
            self.transport.write(farewell)
        else:
            # Behind a backlog that the client does not read, the reason would come too late.
            self._backlog, self._backlog_bytes = [farewell], len(farewell)
        self._close_soon()

    def close(self) -> None:
        if not self._closing:
            self.send(self.goodbye())
            self._close_soon()

    def goodbye(self) -> bytes:
        """The last bytes for a client that closes the connection."""
        return b""

    def farewell(self, error: HubbubError) -> bytes:
        """The last bytes for this client, in its own protocol."""
        raise NotImplementedError

    def encoder_in(self, channel: str) -> Encoder:
        return self.encoder

    @property
    def full(self) -> bool:
        return not self._closing and self.buffered > self._limit // 4

    @property
    def rid(self) -> int | None:
        return None

    @property
    def behind(self) -> bool:
        return self.buffered > 0

    @property
    def buffered(self) -> int:
        return self._backlog_bytes + self.transport.get_write_buffer_size()

    @property
    def held_bytes(self) -> int:
        """All bytes buffered for the client."""
        return self.buffered

    # -- the backlog ----------------------------------------------------------------------------

    def _send_later(self, data: bytes) -> None:
        if self._closing:
            return
        if self._socket_fd < 0 and not self._congested:
            self.transport.write(data)
        elif self._backlog is None:
            self._backlog = [data]
            self._backlog_bytes = len(data)
        else:
            self._backlog.append(data)
            self._backlog_bytes += len(data)
        buffered = self.buffered
        if buffered > self._limit:
            self._cut_off(f"more than {self._limit} bytes were waiting for it")
        elif buffered > FREE_BYTES:
            self._count()

    def _count(self) -> None:
        """The number of buffered bytes changed."""
        if self._holdings is not None and not self._closing:
            self._holdings.hold(self, self._address, self.held_bytes)

    def give_up(self) -> None:
        """All connections together buffer too much, and this one most."""
        self._cut_off("too much is waiting for all clients, and for its address most")

    def _cut_off(self, why: str) -> None:
        """Disconnects a slow client. It learns the reason if it continues to read."""
        if self.session is not None:
            self.session.cut_off(self.buffered)
        self.disconnect(SlowConsumer(f"the client reads too slowly: {why}"))

    def pause_writing(self) -> None:
        self._congested = True

    def resume_writing(self) -> None:
        """The transport has room: sends the backlog, then writes directly again."""
        if self.transport.is_closing():
            return
        self._congested = False
        self.fd = self._socket_fd
        if self.fd < 0:
            while self._backlog and not self._congested:
                self.transport.write(self._next_chunk())
        while self._backlog and self.fd >= 0:
            self.send(self._next_chunk())
        if not self._backlog:
            self._backlog = None
            if self._closing and self.fd >= 0:
                self.fd = -1
        self._count()
        if self.buffered <= self._limit // 4:
            self._release_drained()

    def _next_chunk(self) -> bytes:
        assert self._backlog is not None
        size = count = 0
        for data in self._backlog:
            size += len(data)
            count += 1
            if size >= _CHUNK_BYTES:
                break
        chunk = b"".join(self._backlog[:count])
        del self._backlog[:count]
        self._backlog_bytes -= len(chunk)
        return chunk

    def _release_drained(self) -> None:
        if self._drained is not None:
            if not self._drained.done():
                self._drained.set_result(None)
            self._drained = None

    # -- the end --------------------------------------------------------------------------------

    def _close_soon(self) -> None:
        """Sends nothing more; the client has a moment to read the last data."""
        self._stop()
        if self.fd >= 0:
            self.fd = -1
        self._leave_session()
        self._release_drained()
        if not self.transport.is_closing():
            self.transport.resume_reading()  # to see that it hangs up
            if self._lingering is not None:
                self._lingering.add(self.transport)

    def _stop(self) -> None:
        """Stops sending; pending data has little time left."""
        self._closing = True
        if self._holdings is not None:
            self._holdings.release(self)

    def lose(self) -> None:
        self._stop()
        self.fd = -1
        self._release_drained()
        self.transport.abort()
        self._end_session()

    def _leave_session(self) -> None:
        """The connection is being closed."""
        self._end_session()

    def _end_session(self, keep_state: bool = True) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.disconnected(keep_state)

    def _lose_session(self) -> None:
        session, self.session = self.session, None
        if session is not None:
            session.lost()

    def connection_lost(self, exc: Exception | None) -> None:
        self.fd = -1
        if self._lingering is not None:
            self._lingering.discard(self.transport)
        self._stop()
        self._backlog = None
        self._release_drained()
        self._lose_session()


def transmit(connections: Sequence[Connection], data: bytes) -> None:
    """Writes the same bytes to many connections."""
    size = len(data)
    for connection in connections:
        fd = connection.fd
        if fd < 0:
            connection.send(data)
            continue
        try:
            sent = write(fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            connection.lose()
            continue
        if sent != size:
            connection.block(data, sent)
