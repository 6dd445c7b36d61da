"""What one HTTP client makes the hub hold: requests that were not read, the request under way, and
answers that the client does not take."""

from __future__ import annotations

import asyncio

from hubbub.domain.holdings import FREE_BYTES
from hubbub.gateways.http_reader import RequestReader

_UNREAD_BYTES = 64 * 1024
"""Of requests that were not read yet: beyond it nothing more is taken from the socket."""


class Backlog:
    """Bytes in and out of one connection, which is held back where they are too many."""

    __slots__ = ("_offered_bytes", "_reader", "_transport", "at", "counted", "paused", "unread")

    def __init__(self, transport: asyncio.Transport, reader: RequestReader) -> None:
        transport.set_write_buffer_limits(high=FREE_BYTES)
        self._transport = transport
        self._reader = reader
        self.unread = b""
        """What came in and was not read yet, from `at` on."""
        self.at = 0
        self.paused = False
        """Nothing is taken from the socket."""
        self.counted = False
        """The last `count` was of bytes that count for the bound over all connections."""
        self._offered_bytes = 0
        """What waited for the client when its time to take it began."""

    @property
    def unread_bytes(self) -> int:
        return len(self.unread) - self.at if self.unread else 0

    def add(self, data: bytes) -> None:
        self.unread = self.unread[self.at :] + data if self.unread else data
        self.at = 0

    def take(self) -> bytes:
        """What was not read; none of it waits any longer."""
        unread, self.unread = self.unread[self.at :], b""
        return unread

    def release(self) -> None:
        """Nothing is held here any more."""
        self.unread = b""
        self.counted = False

    def count(self) -> int:
        """All bytes that are held."""
        size = self._reader.held_bytes + self._transport.get_write_buffer_size()
        size += self.unread_bytes
        self.counted = size > FREE_BYTES
        return size

    def regulate(self, wait: bool) -> None:
        """Take from the socket only what may wait, and nothing where the connection has to
        `wait`."""
        pause = wait or self.unread_bytes > _UNREAD_BYTES
        if pause is self.paused or self._transport.is_closing():
            return
        self.paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def offer(self) -> int:
        """From now on the client is to take some of the answers that wait: so many bytes."""
        self._offered_bytes = self._transport.get_write_buffer_size()
        return self._offered_bytes

    @property
    def shrinks(self) -> bool:
        """The client has taken some of what was offered."""
        return self._transport.get_write_buffer_size() < self._offered_bytes
