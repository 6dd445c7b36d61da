"""The mark that every measured message carries: found without parsing what is around it.

A mark is `MARK` and the time of sending in nanoseconds since 1970, 19 digits. It needs no
escaping in JSON, so a server may wrap, batch or re-encode a message and it is still found.
"""

from __future__ import annotations

MARK = b"~sent-at~"
DIGITS = 19
STAMP = b"@stamp@"
INDEX = b"@index@"
DIGIT = b"@digit@"


class Template:
    """Bytes in which `STAMP` stands for a mark's digits, `INDEX` for a running number and `DIGIT`
    for its last digit."""

    def __init__(self, text: bytes) -> None:
        escaped = text.replace(b"%", b"%%")
        text = escaped.replace(STAMP, b"%(s)d").replace(INDEX, b"%(i)d")
        self._format = text.replace(DIGIT, b"%(d)d")

    def fill(self, stamp: int, index: int = 0) -> bytes:
        return self._format % {b"s": stamp, b"i": index, b"d": index % 10}


def json_payload(size: int) -> bytes:
    """A JSON object of `size` bytes, once filled, with a mark in it."""
    frame = b'{"m":"' + MARK + STAMP + b'","p":""}'
    padding = size - (len(frame) - len(STAMP) + DIGITS)
    if padding < 0:
        raise ValueError(f"a payload of {size} bytes has no room for its mark")
    return frame[:-2] + b"x" * padding + b'"}'


class ChunkCounter:
    """Counts marks in streams that arrive in pieces, cut anywhere.

    One buffer serves every connection: a piece is received into `room`, behind the last few
    bytes of the connection's previous piece, so that a mark cut in two is counted once.
    """

    def __init__(self, mark: bytes = MARK, size: int = 256 * 1024) -> None:
        self._mark = mark
        self._overlap = len(mark) - 1
        self._buffer = bytearray(self._overlap + size)
        self.room = memoryview(self._buffer)[self._overlap :]
        self._end = self._overlap

    def start(self) -> bytearray:
        """What stands before a connection's first piece."""
        return bytearray(self._overlap)

    def take(self, tail: bytearray, received: int) -> int:
        """How many marks ended in the `received` bytes in `room`; `tail` is what came before."""
        buffer = self._buffer
        buffer[: self._overlap] = tail
        self._end = end = self._overlap + received
        return buffer.count(self._mark, 0, end)

    def tail(self) -> bytearray:
        """What `take` needs with the connection's next piece."""
        return self._buffer[self._end - self._overlap : self._end]

    def text(self) -> bytes:
        """The piece taken last."""
        return bytes(self._buffer[self._overlap : self._end])

    def first_and_last(self) -> tuple[int, int]:
        """The first and the last whole stamp of the piece taken last; 0 where there is none."""
        buffer, end, size = self._buffer, self._end, len(self._mark)
        first = buffer.find(self._mark, 0, end) + size
        if first < size or first + DIGITS > end:
            return 0, 0
        oldest = int(buffer[first : first + DIGITS])
        last = buffer.rfind(self._mark, 0, end) + size
        if last == first or last + DIGITS > end:
            return oldest, oldest
        return oldest, int(buffer[last : last + DIGITS])
