"""Frames on a stream between processes: a little-endian length of four bytes, and a body."""

from __future__ import annotations

HEADER_BYTES = 4


class FrameTooLarge(Exception):
    """The other side announced a frame that exceeds the limit."""


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "little") + body


class LengthPrefixReader:
    """Assembles frames from the pieces in which they arrive."""

    __slots__ = ("_max_bytes", "_received")

    def __init__(self, max_bytes: int | None = None) -> None:
        self._received = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are now complete. Raises `FrameTooLarge` as soon as a header exceeds the
        limit."""
        received = self._received
        received += data
        bodies = []
        while len(received) >= HEADER_BYTES:
            length = int.from_bytes(received[:HEADER_BYTES], "little")
            if self._max_bytes is not None and length > self._max_bytes:
                raise FrameTooLarge(f"a frame of {length} bytes; at most {self._max_bytes}")
            end = HEADER_BYTES + length
            if len(received) < end:
                break
            bodies.append(bytes(received[HEADER_BYTES:end]))
            del received[:end]
        return bodies
