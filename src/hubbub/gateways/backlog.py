"""The memory that one HTTP client uses: unread requests, the request in progress, and responses
that the client has not read."""

from __future__ import annotations

import asyncio

from hubbub.domain.holdings import FREE_BYTES
from hubbub.gateways.http_reader import RequestReader

_UNREAD_BYTES = 64 * 1024
"""Maximum size of unread requests; beyond it the socket is not read."""


class Backlog:
    """Buffered bytes of one connection in both directions; stops reading if there are too many."""

    __slots__ = ("_offered_bytes", "_reader", "_transport", "at", "counted", "paused", "unread")

    def __init__(self, transport: asyncio.Transport, reader: RequestReader) -> None:
        transport.set_write_buffer_limits(high=FREE_BYTES)
        self._transport = transport
        self._reader = reader
        self.unread = b""
        """Received bytes that were not parsed, from `at` on."""
        self.at = 0
        self.paused = False
        """The socket is not read."""
        self.counted = False
        """The last `count` included bytes that count for the limit over all connections."""
        self._offered_bytes = 0
        """Bytes that waited for the client when its time limit began."""

    @property
    def unread_bytes(self) -> int:
        return len(self.unread) - self.at if self.unread else 0

    def add(self, data: bytes) -> None:
        self.unread = self.unread[self.at :] + data if self.unread else data
        self.at = 0

    def take(self) -> bytes:
        """Removes and returns the unread bytes."""
        unread, self.unread = self.unread[self.at :], b""
        return unread

    def release(self) -> None:
        """Drops everything."""
        self.unread = b""
        self.counted = False

    def count(self) -> int:
        """The number of all buffered bytes."""
        size = self._reader.held_bytes + self._transport.get_write_buffer_size()
        size += self.unread_bytes
        self.counted = size > FREE_BYTES
        return size

    def regulate(self, wait: bool) -> None:
        """Reads from the socket only while there is room, and not at all while the connection has
        to `wait`."""
        pause = wait or self.unread_bytes > _UNREAD_BYTES
        if pause is self.paused or self._transport.is_closing():
            return
        self.paused = pause
        if pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def offer(self) -> int:
        """Starts the time limit in which the client must read some of these pending bytes."""
        self._offered_bytes = self._transport.get_write_buffer_size()
        return self._offered_bytes

    @property
    def shrinks(self) -> bool:
        """Whether the client has read some of the offered bytes."""
        return self._transport.get_write_buffer_size() < self._offered_bytes
