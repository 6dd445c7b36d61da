"""WebSocket frames (RFC 6455): opcodes, events, errors, and frames sent by a server."""

from __future__ import annotations

import base64
import enum
import hashlib
import struct

import msgspec

_HANDSHAKE_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

PROTOCOL_ERROR = 1002
NO_STATUS = 1005
INVALID_DATA = 1007
TOO_BIG = 1009

MAX_CONTROL_BYTES = 125
_MAX_REASON_BYTES = MAX_CONTROL_BYTES - 2

_HEADER_16 = struct.Struct("!BBH")
_HEADER_64 = struct.Struct("!BBQ")


class Opcode(enum.IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Event(msgspec.Struct, frozen=True, gc=False):
    """A complete message (TEXT, BINARY) or one control frame, unmasked and decompressed.

    TEXT is known to be valid UTF-8 and CLOSE to pass `parse_close`.
    """

    opcode: Opcode
    data: bytes


class FrameError(Exception):
    """The peer violated the protocol: send `close_frame(error.close_code)` and close the
    connection.

    `events` holds the events completed before the error in the same `feed`; they are still valid.
    """

    def __init__(self, close_code: int, message: str) -> None:
        super().__init__(message)
        self.close_code = close_code
        self.message = message
        self.events: list[Event] = []


def accept_key(key: str) -> str:
    """The Sec-WebSocket-Accept for a Sec-WebSocket-Key."""
    digest = hashlib.sha1(key.encode() + _HANDSHAKE_GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def frame(opcode: int, payload: bytes, rsv1: bool = False) -> bytes:
    """One final frame, unmasked as sent by servers. `rsv1` marks a compressed payload."""
    size = len(payload)
    first = 0x80 | (0x40 if rsv1 else 0) | opcode
    if size <= MAX_CONTROL_BYTES:
        return bytes((first, size)) + payload
    if opcode >= 8:
        raise ValueError(f"a control frame carries {MAX_CONTROL_BYTES} bytes, not {size}")
    if size < 1 << 16:
        return _HEADER_16.pack(first, 126, size) + payload
    return _HEADER_64.pack(first, 127, size) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """A CLOSE frame; the reason is truncated between characters.

    1005 ("no status") produces an empty CLOSE, so `close_frame(*parse_close(data))` echoes any
    close.
    """
    if code == NO_STATUS:
        return frame(Opcode.CLOSE, b"")
    if not _may_be_sent(code):
        raise ValueError(f"close code {code} may not be sent")
    cut = reason.encode(errors="replace")[:_MAX_REASON_BYTES].decode(errors="ignore")
    return frame(Opcode.CLOSE, code.to_bytes(2, "big") + cut.encode())


def parse_close(data: bytes) -> tuple[int, str]:
    """Code and reason of a CLOSE payload; an empty one means 1005. Raises FrameError."""
    if not data:
        return NO_STATUS, ""
    if len(data) == 1:
        raise FrameError(PROTOCOL_ERROR, "close payload of one byte")
    code = int.from_bytes(data[:2], "big")
    if not _may_be_sent(code):
        raise FrameError(PROTOCOL_ERROR, f"close code {code} may not be sent")
    try:
        return code, data[2:].decode()
    except UnicodeDecodeError as error:
        raise FrameError(INVALID_DATA, "close reason is not UTF-8") from error


def _may_be_sent(code: int) -> bool:
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999
