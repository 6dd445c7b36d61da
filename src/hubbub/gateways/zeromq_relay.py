"""A relay between ZeroMQ clients and libzmq, which buffers incomplete messages without a limit.

libzmq limits a frame (`ZMQ_MAXMSGSIZE`) and counts complete messages, but keeps the frames of a
message until the last one arrives. The relay listens in its place, knows each client's address,
forwards bytes to libzmq over a local socket, and counts those that have not come out as a message:
per connection, and for all. A connection over the limit without progress is closed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import cast

import msgspec
import zmq

from hubbub.domain.errors import Malformed
from hubbub.domain.holdings import Holdings
from hubbub.domain.limits import network_of
from hubbub.gateways.sockets import bound_unsent
from hubbub.gateways.turns import AddressUsage, ClientAddress, Turns
from hubbub.ports.clock import Clock
from hubbub.protocols.zeromq.zmtp import UnsettledFrames

logger = logging.getLogger(__name__)

STALLED_SECONDS = 1.0
"""How long a connection over its limit may go without a complete message."""
CONNECTIONS_WAITING = 2048
"""Maximum number of connections that wait to be accepted."""
SLICE_FRAMES, SLICE_COST = 256, 4
"""Frames of one connection that are looked at before the next has its turn, and what that costs."""
UNKNOWN = "unknown"
"""The address of clients that have disconnected; all of them count as one."""


class RelayLimits(msgspec.Struct, frozen=True):
    connection_bytes: int
    """Maximum number of pending bytes per connection; a whole message must fit."""
    total_bytes: int
    connections: int


class Relay:
    """Call `start` after libzmq is bound to `inner`, and `stop` before libzmq ends."""

    def __init__(self, limits: RelayLimits, overhead: int, clock: Clock) -> None:
        """`overhead`: how many bytes CURVE adds to a frame."""
        self.limits = limits
        self.overhead = overhead
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._holdings = Holdings(limits.total_bytes)
        self.cut = 0
        """The number of connections closed for too many pending bytes."""
        self._numbers = count(1)
        self._clients: dict[str, RelayedClient] = {}
        """By the name of the local socket."""
        self._peers: dict[bytes, RelayedClient] = {}
        """By the routing id that libzmq assigned."""
        self.turns = Turns(clock)
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def total(self) -> int:
        """Pending bytes of all connections."""
        return self._holdings.total

    def make_inner(self) -> str:
        """A path for libzmq's socket, in a folder that only this user can enter."""
        self._folder = tempfile.TemporaryDirectory(prefix="hubbub-zeromq-")
        return self.inner

    @property
    def inner(self) -> str:
        assert self._folder is not None
        return f"{self._folder.name}/router"

    async def start(self, endpoint: str) -> str:
        """Listens; returns the address. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        scheme, _, rest = endpoint.partition("://")
        if scheme == "ipc":
            _remove(rest)
            self._server = await loop.create_unix_server(
                lambda: RelayedClient(self), rest, backlog=CONNECTIONS_WAITING
            )
            return endpoint
        if scheme != "tcp":
            raise OSError(f"{endpoint!r} is no address; give tcp://host:port or ipc:///path")
        host, _, port = rest.rpartition(":")
        self._server = await loop.create_server(
            lambda: RelayedClient(self),
            None if host == "*" else host.strip("[]"),
            0 if port == "*" else int(port),
            backlog=CONNECTIONS_WAITING,
            reuse_address=True,
        )
        bound_unsent(self._server)
        bound = self._server.sockets[0].getsockname()
        shown = "0.0.0.0" if host == "*" else host  # noqa: S104
        return f"tcp://{shown}:{bound[1]}"

    def stop(self) -> None:
        """Accepts no new connections; existing ones still get their responses."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """Call it after libzmq has sent all data."""
        if self._sweep is not None:
            self._sweep.cancel()
        for client in list(self._clients.values()):
            client.transport.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # -- from the clients -----------------------------------------------------------------------

    def enter(self, client: RelayedClient) -> bool:
        """Whether there is room for another connection."""
        if len(self._clients) >= self.limits.connections:
            return False
        client.name = f"{self.inner}-{next(self._numbers)}"
        self._clients[client.name] = client
        return True

    def leave(self, client: RelayedClient) -> None:
        self._clients.pop(client.name, None)
        self._holdings.release(client)
        if client.peer is not None and self._peers.get(client.peer) is client:
            del self._peers[client.peer]

    def count(self, client: RelayedClient) -> None:
        """A connection's number of pending bytes changed."""
        held = client.held_bytes
        client.hold("full", held > self.limits.connection_bytes)
        if held > self.limits.connection_bytes and self._sweep is None:
            self._sweep_later()
        self._holdings.hold(client, client.network, held)

    def _sweep_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(STALLED_SECONDS, self._cut_stalled)

    def _cut_stalled(self) -> None:
        self._sweep = None
        full = [client for client in self._clients.values() if "full" in client.held_by]
        for client in full:
            if client.stalled:
                client.give_up()
            client.stalled = True
        if any(client.name in self._clients for client in full):
            self._sweep_later()

    # -- from libzmq ----------------------------------------------------------------------------

    def handed_out(self, frames: Sequence[zmq.Frame]) -> str:
        """libzmq returned a whole message, the sender's id first. Returns the sender's address."""
        peer = frames[0].bytes
        client = self._peers.get(peer) or self._meet(peer, frames[0])
        if client is None:
            return UNKNOWN
        client.frames.settle([len(frame) for frame in frames[1:]])
        client.stalled = False
        self.count(client)
        return client.peer_address

    def _meet(self, peer: bytes, frame: zmq.Frame) -> RelayedClient | None:
        """Identifies a connection at its first message: libzmq reports the descriptor of its local
        socket, whose other end has a name."""
        try:
            with socket.socket(fileno=os.dup(int(str(frame.get("__fd"))))) as end:
                name = end.getpeername()
        except (OSError, ValueError, zmq.ZMQError):
            return None
        client = self._clients.get(name.decode() if isinstance(name, bytes) else str(name))
        if client is not None:
            client.peer = peer
            self._peers[peer] = client
        return client


def _remove(path: str) -> None:
    """Removes a socket left by an earlier server."""
    Path(path).unlink(missing_ok=True)


class RelayedClient(asyncio.Protocol):
    """A client's connection, with the one to libzmq behind it."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.transport: asyncio.Transport
        self.frames = UnsettledFrames(relay.overhead)
        self.name = ""
        self.peer_address = ""
        self.network = ""
        self.address: ClientAddress
        self.usage = AddressUsage()
        self._rest = b""
        """Received data that waits for the connection's turn, from `_at` on."""
        self._at = 0
        self.peer: bytes | None = None
        self.stalled = False
        """The connection has been over its limit since before the last check, without a complete
        message."""
        self.held_by: set[str] = set()
        self._early = b""
        self._inner: _Inner | None = None
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer_address = peer[0] if isinstance(peer, tuple) else "local"
        self.network = network_of(self.peer_address)
        self.address = self._relay.turns.address_of(self.peer_address)
        end = transport.get_extra_info("socket")
        if end is not None and end.family != socket.AF_UNIX:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._relay.enter(self):
            self.transport.abort()
            return
        self.hold("connecting", True)
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        end = socket.socket(socket.AF_UNIX)
        end.setblocking(False)
        try:
            end.bind(self.name)
            await loop.sock_connect(end, self._relay.inner)
            os.unlink(self.name)
            _, self._inner = await loop.create_unix_connection(lambda: _Inner(self), sock=end)
        except OSError as error:
            logger.warning("a ZeroMQ client could not be served: %s", error)
            end.close()
            self.abort()
            return
        self._inner.transport.write(self._early)
        self._early = b""
        self.hold("connecting", False)

    def data_received(self, data: bytes) -> None:
        waits = bool(self._rest)
        self._rest, self._at = self._rest[self._at :] + data, 0
        if waits:
            self._relay.count(self)
        elif self._relay.turns.left > 0:
            self.take_turn()
        else:
            self._wait()

    def _wait(self) -> None:
        self.hold("turn", True)
        self._relay.turns.wait(self)
        self._relay.count(self)

    @property
    def held_bytes(self) -> int:
        return self.frames.held_bytes + len(self._rest) - self._at

    def take_turn(self) -> None:
        """Parses and forwards a slice of the data."""
        if self.transport.is_closing():
            return
        try:
            end = self.frames.feed(self._rest, self._at, SLICE_FRAMES)
        except Malformed:
            self.abort()
            return
        data = self._rest[self._at : end]
        self._at = end
        self._relay.turns.charge(self, SLICE_COST, len(data))
        if self._inner is None:  # an event loop may begin to read before it was told not to
            self._early += data
            self.transport.pause_reading()
        elif not self._inner.transport.is_closing():
            self._inner.transport.write(data)
        if self._at < len(self._rest):
            self._wait()
        else:
            self._rest, self._at = b"", 0
            self.hold("turn", False)
            self._relay.count(self)

    def hold(self, reason: str, holds: bool) -> None:
        """Stops reading while there is a reason."""
        if holds == (reason in self.held_by):
            return
        before = bool(self.held_by)
        (self.held_by.add if holds else self.held_by.discard)(reason)
        if bool(self.held_by) != before and not self.transport.is_closing():
            if self.held_by:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def pause_writing(self) -> None:
        if self._inner is not None:
            self._inner.pause_reading()

    def resume_writing(self) -> None:
        if self._inner is not None:
            self._inner.resume_reading()

    def give_up(self) -> None:
        """The connection has too many pending bytes, or the most while all together have too
        many."""
        self._relay.cut += 1
        logger.warning(
            "disconnected a ZeroMQ client at %s: it sent %d bytes without completing a message",
            self.peer_address,
            self.held_bytes,
        )
        self.abort()

    def abort(self) -> None:
        self.transport.abort()
        if self._inner is not None:
            self._inner.transport.abort()
        self._relay.leave(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.leave(self)
        if self._inner is not None:
            self._inner.transport.close()
        elif self._connecting is not None:
            self._connecting.cancel()


class _Inner(asyncio.Protocol):
    """The connection to libzmq."""

    def __init__(self, client: RelayedClient) -> None:
        self._client = client
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._client.transport.is_closing():
            self._client.transport.write(data)

    def pause_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self._client.hold("inner", True)

    def resume_writing(self) -> None:
        self._client.hold("inner", False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.transport.close()
