"""Frames on a stream between processes: four bytes of length, little-endian, and a body."""

from __future__ import annotations

HEADER_BYTES = 4


class FrameTooLarge(Exception):
    """The other side announces a frame beyond the bound."""


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(HEADER_BYTES, "little") + body


class FrameReader:
    """Puts frames together from the pieces in which they arrive."""

    __slots__ = ("_max_bytes", "_received")

    def __init__(self, max_bytes: int | None = None) -> None:
        self._received = bytearray()
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are whole now. Raises `FrameTooLarge` as soon as a header says so."""
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
