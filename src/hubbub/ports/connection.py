"""A client's connection, as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hubbub.domain.errors import HubbubError
from hubbub.ports.encoding import Encoder


class Pausable(Protocol):
    """An input source that can be paused."""

    def pause_reading(self) -> None:
        """Stops reading from this client until further notice."""

    def resume_reading(self) -> None: ...


class Connection(Pausable, Protocol):
    """Output to one client. Writing never blocks and never raises; unsent bytes wait in a bounded
    buffer, and a client that overflows it is disconnected as a slow consumer."""

    encoder: Encoder
    fd: int
    """The socket's descriptor while bytes may be written to it directly; -1: only `send` may write.
    The fan-out writes to it without a call per connection."""
    technology: str
    """The protocol's name in the journal: websocket, sse …"""
    one_way: bool
    """Whether the connection is one-way (server-sent events): the client cannot respond to a
    ping."""

    def encoder_in(self, channel: str) -> Encoder:
        """The encoder for the messages of one channel: `encoder`, or one that connections with the
        same options for their channels share."""

    @property
    def rid(self) -> int | None:
        """The number of events sent to the client, counted from an arbitrary start; None if its
        protocol does not count them."""

    @property
    def behind(self) -> bool:
        """Whether the client has unread bytes in the buffer."""

    @property
    def full(self) -> bool:
        """Whether the buffer has room only for live messages: `drain` would wait."""

    @property
    def buffered(self) -> int:
        """The number of bytes in the buffer."""

    def send(self, data: bytes) -> None:
        """Writes packed bytes after all earlier ones."""

    def block(self, data: bytes, sent: int) -> None:
        """The kernel accepted only `sent` of the bytes written to `fd`: queues the rest."""

    def lose(self) -> None:
        """Called when writing to `fd` failed: the client is gone."""

    def disconnect(self, error: HubbubError) -> None:
        """Sends the error in the protocol's form and closes the connection."""

    def close(self) -> None:
        """Closes the connection at the client's request."""

    async def drain(self) -> None:
        """Waits until the buffer has room for more than live messages. Returns at once if the
        connection is closed."""


class Transmitter(Protocol):
    """Writes the same bytes to many connections: the hub's innermost loop."""

    def __call__(self, connections: Sequence[Connection], data: bytes) -> None: ...
