"""WebSocket (RFC 6455) without I/O: frames, messages, compression, the handshake's key."""

from hubbub.protocols.websocket.deflate import Deflate
from hubbub.protocols.websocket.frames import (
    Event,
    FrameError,
    Opcode,
    accept_key,
    close_frame,
    frame,
    parse_close,
)
from hubbub.protocols.websocket.reader import FrameReader

__all__ = [
    "Deflate",
    "Event",
    "FrameError",
    "FrameReader",
    "Opcode",
    "accept_key",
    "close_frame",
    "frame",
    "parse_close",
]
