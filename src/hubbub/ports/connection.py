"""A client's connection, as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.errors import HubbubError
from hubbub.ports.encoding import Encoder


class Pausable(Protocol):
    """Where input comes from that can wait."""

    def pause_reading(self) -> None:
        """Take no more input from this client for now."""

    def resume_reading(self) -> None: ...


class Connection(Pausable, Protocol):
    """Bytes to one client. Writing never blocks and never raises; what the client cannot take
    at once waits in a bounded buffer, and whoever overflows it is cut off as a slow consumer."""

    encoder: Encoder
    fd: int
    """The descriptor of the socket while bytes may be written to it directly; -1: only `send` may
    write. The fan-out writes to it without a call for each connection."""
    technology: str
    """What the journal calls this way in and out: websocket, sse …"""
    one_way: bool
    """The client can only listen (server-sent events): it cannot answer a ping."""

    @property
    def rid(self) -> int | None:
        """How many events the client was sent, counted from any number on; None where its protocol
        does not count them."""

    @property
    def behind(self) -> bool:
        """The client has yet to take in what it was sent."""

    @property
    def full(self) -> bool:
        """The buffer has no room for more than live messages: `drain` would wait."""

    @property
    def buffered(self) -> int:
        """How many bytes wait in the buffer."""

    def send(self, data: bytes) -> None:
        """Write packed bytes, after all that was written before."""

    def block(self, data: bytes, sent: int) -> None:
        """The kernel took only `sent` of the bytes that were written to `fd`: bring the rest."""

    def lose(self) -> None:
        """Writing to `fd` failed: the client is gone."""

    def disconnect(self, error: HubbubError) -> None:
        """Say why, in the connection's own way, and close."""

    def close(self) -> None:
        """Close, because the client asked for it."""

    async def drain(self) -> None:
        """Wait until the buffer has room for more than live messages. Returns at once when the
        connection is gone."""


class Transmitter(Protocol):
    """Writes the same bytes to many connections: the innermost loop of the hub."""

    def __call__(self, connections: Sequence[Connection], data: bytes) -> None: ...
