"""Reads the frames of WebSocket clients (RFC 6455) from arbitrary pieces of bytes.

`frames` defines the frames, `deflate` the compression.
"""

from __future__ import annotations

import codecs
import struct

from websockets.speedups import apply_mask

from hubbub.domain.payloads import is_utf8
from hubbub.protocols.websocket.deflate import Deflate
from hubbub.protocols.websocket.frames import (
    INVALID_DATA,
    MAX_CONTROL_BYTES,
    PROTOCOL_ERROR,
    TOO_BIG,
    Event,
    FrameError,
    Opcode,
    parse_close,
)

_FIN = 0x80
_RSV1 = 0x40
_RSV2_AND_RSV3 = 0x30
_MASKED = 0x80

_OPCODES = {int(opcode): opcode for opcode in Opcode}
_LENGTH_BYTES = {126: 2, 127: 8}
_LEAST_LENGTH = {2: 126, 8: 1 << 16}

# First bytes of a message in a single frame, not compressed: what nearly all frames are.
_WHOLE_MESSAGES = {_FIN | opcode: opcode for opcode in (Opcode.TEXT, Opcode.BINARY)}
_COMMON_HEADER = struct.Struct("!BBH4s")  # two bytes, a 16-bit length, the mask

_MISSING = -1


class FrameReader:
    """The receiving half of one connection, on the server's side.

    Between messages it holds no buffer. Buffers are bounded by `max_message_bytes`: sizes are
    checked as soon as a header announces them. Payloads are checked when their frame is complete,
    fragments of a text individually.

    After a CLOSE or an error, all further input is discarded (RFC 6455, 1.4 and 7.1.7).
    """

    __slots__ = ("_closed", "_deflate", "_limit", "_message", "_needed", "_partial")

    def __init__(self, max_message_bytes: int, deflate: Deflate | None = None) -> None:
        self._limit = max_message_bytes
        self._deflate = deflate
        self._partial: bytearray | None = None
        self._needed = 2
        self._message: _Fragments | None = None
        self._closed = False

    @property
    def held_bytes(self) -> int:
        """The buffered bytes of an incomplete message."""
        held = 0 if self._partial is None else len(self._partial)
        return held if self._message is None else held + len(self._message.data)

    def read_alone(self, data: bytes, opcode: int) -> bytes | None:
        """The message, if `data` is nothing but one whole, uncompressed message of this kind, as
        nearly all data of clients is; None: `feed` must read it."""
        if self._partial is not None or self._message is not None or self._closed:
            return None
        size = len(data)
        if size < 8 or data[0] != _FIN | opcode:
            return None
        body = 6
        length = data[1] - _MASKED
        if length > MAX_CONTROL_BYTES:
            body = 8
            length = data[2] << 8 | data[3]
            if length <= MAX_CONTROL_BYTES or data[1] != _MASKED | 126:
                return None
        if body + length != size or length > self._limit:
            return None
        payload = apply_mask(data[body:], data[body - 4 : body])
        return payload if payload.isascii() or opcode != Opcode.TEXT or is_utf8(payload) else None

    def feed(self, data: bytes) -> list[Event]:
        """The messages and control frames that `data` completes, in order. Raises FrameError."""
        if self._closed:
            return []
        if self._partial is not None:
            # Looked at again only once it can lead further: bytes that drip in cost no rescans.
            if len(self._partial) + len(data) < self._needed:
                self._partial += data
                return []
            data = b"".join((self._partial, data))
        events: list[Event] = []
        try:
            read = self._read(data, events)
        except FrameError as error:
            error.events = events
            self._close()
            raise
        self._partial = bytearray(data[read:]) if read < len(data) else None
        return events

    def _read(self, data: bytes, events: list[Event]) -> int:
        """Reads all complete frames in `data`; returns the position of the first incomplete one."""
        position = 0
        while True:
            if self._message is None:
                position = _read_whole_messages(data, position, self._limit, events)
                if position == len(data):
                    return position
            end = self._read_frame(data, position, events)
            if end == _MISSING:
                return position
            position = len(data) if self._closed else end

    def _read_frame(self, data: bytes, start: int, events: list[Event]) -> int:
        """Reads one frame; returns its end, or _MISSING after setting `_needed` to the bytes that
        it takes."""
        available = len(data) - start
        if available < 2:
            return self._need(2)
        first, second = data[start], data[start + 1]
        self._check_start(first, second)
        length = second & 0x7F
        mask_at = 2 + _LENGTH_BYTES.get(length, 0)
        if available < mask_at:
            return self._need(mask_at)
        if mask_at > 2:
            length = _extended_length(data[start + 2 : start + mask_at])
        self._check_size(first, length)
        body = mask_at + 4
        if available < body + length:
            return self._need(body + length)
        end = start + body + length
        payload = apply_mask(data[start + body : end], data[start + mask_at : start + body])
        self._take(first, payload, events)
        return end

    def _need(self, size: int) -> int:
        self._needed = size
        return _MISSING

    def _check_start(self, first: int, second: int) -> None:
        """Checks the first two bytes of a frame."""
        opcode = first & 0x0F
        if opcode not in _OPCODES:
            raise FrameError(PROTOCOL_ERROR, f"unknown opcode {opcode}")
        compressible = self._deflate is not None and opcode in (Opcode.TEXT, Opcode.BINARY)
        if first & _RSV2_AND_RSV3 or (first & _RSV1 and not compressible):
            raise FrameError(PROTOCOL_ERROR, "reserved bit set")
        if not second & _MASKED:
            raise FrameError(PROTOCOL_ERROR, "frame of a client is not masked")
        if opcode >= Opcode.CLOSE:
            _check_control(first, second)
        elif opcode == Opcode.CONTINUATION and self._message is None:
            raise FrameError(PROTOCOL_ERROR, "continuation of no message")
        elif opcode != Opcode.CONTINUATION and self._message is not None:
            raise FrameError(PROTOCOL_ERROR, "new message inside a fragmented one")

    def _check_size(self, first: int, length: int) -> None:
        """Control frames are short anyway. Deflate may expand a message slightly: a message at the
        limit must still be accepted; `decompress` checks the real size."""
        if first & 0x0F >= Opcode.CLOSE:
            return
        message, limit = self._message, self._limit
        if first & _RSV1 or (message is not None and message.compressed):
            limit += limit // 64 + 64
        if length + (len(message.data) if message is not None else 0) > limit:
            raise FrameError(TOO_BIG, f"message of more than {self._limit} bytes")

    def _take(self, first: int, payload: bytes, events: list[Event]) -> None:
        opcode = _OPCODES[first & 0x0F]
        if opcode is Opcode.CLOSE:
            parse_close(payload)
            events.append(Event(opcode, payload))
            self._close()
        elif opcode > Opcode.CLOSE:
            events.append(Event(opcode, payload))
        elif first & _FIN and opcode is not Opcode.CONTINUATION:
            events.append(self._whole(opcode, payload, bool(first & _RSV1)))
        else:
            self._take_fragment(opcode, first, payload, events)

    def _take_fragment(
        self, opcode: Opcode, first: int, payload: bytes, events: list[Event]
    ) -> None:
        message = self._message
        if message is None:
            message = self._message = _Fragments(opcode, bool(first & _RSV1))
        message.add(payload, final=bool(first & _FIN))
        if first & _FIN:
            self._message = None
            events.append(self._assembled(message))

    def _whole(self, opcode: Opcode, payload: bytes, compressed: bool) -> Event:
        if compressed:
            assert self._deflate is not None  # _check_start refuses RSV1 without it
            payload = self._deflate.decompress(payload, self._limit)
        if opcode is Opcode.TEXT:
            _check_text(payload)
        return Event(opcode, payload)

    def _assembled(self, message: _Fragments) -> Event:
        data = bytes(message.data)
        if message.compressed:
            return self._whole(message.opcode, data, compressed=True)
        return Event(message.opcode, data)  # its text was checked fragment by fragment

    def _close(self) -> None:
        self._closed = True
        self._partial = self._message = None


class _Fragments:
    """An incomplete message. One buffer, since a list of many tiny fragments would exceed the
    memory limit of messages."""

    __slots__ = ("_decoder", "compressed", "data", "opcode")

    def __init__(self, opcode: Opcode, compressed: bool) -> None:
        self.opcode = opcode
        self.compressed = compressed
        self.data = bytearray()
        plain_text = opcode is Opcode.TEXT and not compressed
        self._decoder = _Utf8Decoder() if plain_text else None

    def add(self, payload: bytes, final: bool) -> None:
        self.data += payload
        if self._decoder is None:
            return
        try:
            self._decoder.decode(payload, final)
        except UnicodeDecodeError as error:
            raise FrameError(INVALID_DATA, "text is not UTF-8") from error


_Utf8Decoder = codecs.getincrementaldecoder("utf-8")


def _read_whole_messages(data: bytes, start: int, limit: int, events: list[Event]) -> int:
    """The fast path: reads uncompressed, unfragmented messages up to the first frame that is of
    another kind, invalid, too long or incomplete; returns its position."""
    size = len(data)
    last = size - _COMMON_HEADER.size
    read_header, append = _COMMON_HEADER.unpack_from, events.append
    text, opcodes = Opcode.TEXT, _WHOLE_MESSAGES
    while start <= last:
        first, second, length, mask = read_header(data, start)
        if second == 0xFE and length > MAX_CONTROL_BYTES:
            body = start + 8
        elif 0x80 <= second < 0xFE:
            length = second - 0x80
            body = start + 6
            mask = data[start + 2 : body]
        else:
            break
        end = body + length
        if end > size or length > limit or first not in opcodes:
            break
        payload = apply_mask(data[body:end], mask)
        opcode = opcodes[first]
        if opcode is text and not payload.isascii():
            _check_text(payload)
        append(Event(opcode, payload))
        start = end
    return start


def _check_text(payload: bytes) -> None:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        raise FrameError(INVALID_DATA, "text is not UTF-8") from error


def _check_control(first: int, second: int) -> None:
    if not first & _FIN:
        raise FrameError(PROTOCOL_ERROR, "control frame in fragments")
    if second & 0x7F > MAX_CONTROL_BYTES:
        raise FrameError(PROTOCOL_ERROR, f"control frame of more than {MAX_CONTROL_BYTES} bytes")


def _extended_length(encoded: bytes) -> int:
    length = int.from_bytes(encoded, "big")
    if length >> 63:
        raise FrameError(PROTOCOL_ERROR, "length with its top bit set")
    if length < _LEAST_LENGTH[len(encoded)]:
        raise FrameError(PROTOCOL_ERROR, f"length {length} in {len(encoded)} extra bytes")
    return length
