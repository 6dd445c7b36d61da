"""permessage-deflate (RFC 7692) without context takeover: each message is compressed alone.

A context would cost 96 KB per connection, and a message compressed alone is the same bytes for
every subscriber, so that it is compressed once.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from websockets.exceptions import InvalidHeaderFormat
from websockets.headers import parse_extension
from websockets.typing import ExtensionParameter

from hubbub.protocols.websocket.frames import INVALID_DATA, TOO_BIG, FrameError

_SYNC_FLUSH_TAIL = b"\x00\x00\xff\xff"
# The sender strips the tail of its last block. An empty final block after it makes zlib report
# the end of the stream, which is how a message cut off inside a block is told from a whole one.
_END = _SYNC_FLUSH_TAIL + b"\x01\x00\x00\xff\xff"

_LARGEST_WINDOW_BITS = 15
_SMALLEST_WINDOW_BITS = 9  # RFC 7692 also knows 8, but zlib cannot write raw deflate with it
_WINDOW_BYTES = 1 << _LARGEST_WINDOW_BITS

# A message may hold several deflate streams, one after another (RFC 7692, 7.2.3.4). Each costs a
# new decompressor: without a bound, a message of two-byte streams would cost seconds.
_MAX_STREAMS = 8


@dataclass(frozen=True, slots=True)
class Deflate:
    """Negotiated parameters. Stateless: connections with the same parameters share one object."""

    window_bits: int = _LARGEST_WINDOW_BITS

    @staticmethod
    def negotiate(extensions_header: str) -> tuple[Deflate, str] | None:
        """Returns the first acceptable offer in Sec-WebSocket-Extensions, and the response to it.

        None declines: the response then has no extension. Several header lines must be joined by
        commas first.
        """
        try:
            offers = parse_extension(extensions_header)
        except InvalidHeaderFormat:
            return None
        for name, parameters in offers:
            window_bits = _acceptable_window(parameters) if name == _NAME else None
            if window_bits is not None:
                return _SHARED[window_bits], _answer(parameters, window_bits)
        return None

    def compress(self, payload: bytes) -> bytes:
        """Compresses a payload for a frame with RSV1 set."""
        compressor = zlib.compressobj(wbits=-self.window_bits)
        compressed = compressor.compress(payload) + compressor.flush(zlib.Z_SYNC_FLUSH)
        return compressed[: -len(_SYNC_FLUSH_TAIL)]

    def decompress(self, payload: bytes, max_bytes: int) -> bytes:
        """Never holds more than `max_bytes` and one window. Raises FrameError 1009 beyond
        `max_bytes`, 1007 for invalid data."""
        if not payload:  # strictly "no block at all", but some peers send it for ""
            return b""
        try:
            return _inflate(payload + _END, max_bytes)
        except zlib.error as error:
            raise FrameError(INVALID_DATA, f"bad compressed data: {error}") from error


def _inflate(data: bytes, max_bytes: int) -> bytes:
    message = b""
    for _ in range(_MAX_STREAMS):
        # A later stream may refer back into the earlier ones: their end is its dictionary.
        stream = zlib.decompressobj(-_LARGEST_WINDOW_BITS, zdict=message[-_WINDOW_BYTES:])
        message += stream.decompress(data, max_bytes - len(message) + 1)
        if len(message) > max_bytes:
            raise FrameError(TOO_BIG, f"message decompresses to more than {max_bytes} bytes")
        if not stream.eof:
            raise FrameError(INVALID_DATA, "compressed data ends inside a block")
        data = stream.unused_data
        if data in (b"", _END):
            return message
    raise FrameError(INVALID_DATA, f"more than {_MAX_STREAMS} deflate streams in one message")


_NAME = "permessage-deflate"
_SHARED = {bits: Deflate(bits) for bits in range(_SMALLEST_WINDOW_BITS, _LARGEST_WINDOW_BITS + 1)}

_Parameters = Sequence[ExtensionParameter]

_WINDOW_VALUES = frozenset(str(bits) for bits in range(8, 16))
_FLAG = frozenset({None})
_ALLOWED_VALUES: dict[str, frozenset[str | None]] = {
    "server_no_context_takeover": _FLAG,
    "client_no_context_takeover": _FLAG,
    "server_max_window_bits": frozenset(_WINDOW_VALUES),
    "client_max_window_bits": _FLAG | _WINDOW_VALUES,
}


def _acceptable_window(parameters: _Parameters) -> int | None:
    """The window size for compression; None if the offer is invalid or unacceptable."""
    values = dict(parameters)
    if len(values) < len(parameters):
        return None
    if any(value not in _ALLOWED_VALUES.get(name, ()) for name, value in parameters):
        return None
    window_bits = int(values.get("server_max_window_bits") or _LARGEST_WINDOW_BITS)
    return window_bits if window_bits >= _SMALLEST_WINDOW_BITS else None


def _answer(parameters: _Parameters, window_bits: int) -> str:
    """`client_max_window_bits` needs no response: any window can be decompressed."""
    answer = f"{_NAME}; server_no_context_takeover; client_no_context_takeover"
    if "server_max_window_bits" in dict(parameters):
        answer += f"; server_max_window_bits={window_bits}"
    return answer
