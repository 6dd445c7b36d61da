"""Frames of ZMTP, ZeroMQ's wire protocol (RFC 23), parsed only to count them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable

from hubbub.domain.errors import Malformed

FRAME_COST_BYTES = 64
"""libzmq's memory overhead per frame."""
CURVE_OVERHEAD = 33
"""The overhead of a CURVE-encrypted frame on the wire."""

_SIGNATURE_END = 10
_GREETINGS = {1: 12, 2: 12, 3: 64}
"""Length of the greeting by version; later versions are like the last one."""
_LONG, _COMMAND = 0x02, 0x04
_SHORT_COMMAND = 255


class UnsettledFrames:
    """Tracks the bytes of one connection that libzmq has received but not yet delivered as whole
    messages. libzmq delivers a message only after its last frame, and in an encrypted connection
    only libzmq can recognize that frame."""

    __slots__ = (
        "_frames",
        "_greeted",
        "_head",
        "_inside",
        "_overhead",
        "_settleable",
        "_skip",
        "_unfinished",
    )

    def __init__(self, overhead: int = 0) -> None:
        """`overhead`: bytes per frame on the wire beyond those delivered."""
        self._overhead = overhead
        self._frames: deque[int] = deque()
        """Sizes of whole frames that were not delivered yet."""
        self._settleable = 0
        """Their total cost."""
        self._unfinished = 0
        """Received bytes of the incomplete frame."""
        self._inside = 0
        """The size of that frame; 0 if libzmq consumes it itself."""
        self._skip = 0
        self._head = b""
        """The received part of the greeting or of a frame's header."""
        self._greeted = False

    @property
    def held_bytes(self) -> int:
        return self._settleable + self._unfinished

    def feed(self, data: bytes, start: int = 0, most: int = sys.maxsize) -> int:
        """Consumes bytes from `start` on until `most` frames have begun; returns the end position.
        Raises `Malformed` for input that no supported client sends."""
        end = len(data)
        while start < end and most > 0:
            if self._skip:
                step = min(self._skip, end - start)
                self._skip -= step
                start += step
                if self._inside > 0:
                    self._unfinished += step
                if not self._skip:
                    self._frame_ends()
                continue
            start = self._read_head(data, start)
            most -= 1
        return start

    def _read_head(self, data: bytes, start: int) -> int:
        """Consumes the bytes of a frame header; returns the end position."""
        needed = self._head_length()
        taken = data[start : start + needed - len(self._head)]
        self._head += taken
        if len(self._head) >= self._head_length():
            self._head_is_whole()
        return start + len(taken)

    def _head_length(self) -> int:
        if not self._greeted:
            return _SIGNATURE_END + 1
        if not self._head:
            return 1
        return 9 if self._head[0] & _LONG else 2

    def _head_is_whole(self) -> None:
        head, self._head = self._head, b""
        if not self._greeted:
            version = min(head[_SIGNATURE_END], max(_GREETINGS))
            if head[0] != 0xFF or version not in _GREETINGS:
                raise Malformed("this is not ZMTP 2 or newer")
            self._greeted = True
            self._skip = _GREETINGS[version] - len(head)
            return
        size = int.from_bytes(head[1:], "big")
        own = head[0] & ~_LONG == _COMMAND and size <= _SHORT_COMMAND
        self._inside = 0 if own else size
        self._skip = size
        if not size:
            self._frame_ends(empty=not own)

    def _frame_ends(self, empty: bool = False) -> None:
        if self._inside > 0 or empty:
            self._frames.append(self._inside)
            self._settleable += self._inside + FRAME_COST_BYTES
        self._unfinished = 0
        self._inside = 0

    def settle(self, sizes: Iterable[int]) -> None:
        """libzmq delivered a message with frames of these sizes, and so everything before it."""
        frames = self._frames
        for size in sizes:
            while frames:
                found = frames.popleft()
                self._settleable -= found + FRAME_COST_BYTES
                if found == size + self._overhead:
                    break
