"""Encoders: an encoding with a framing, shared by a group of connections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Protocol

from hubbub.domain import notices
from hubbub.domain.documents.steps import Steps
from hubbub.domain.documents.text import JsonText
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice
from hubbub.domain.requests import Request
from hubbub.protocols import sse
from hubbub.protocols.hubiquitus import codec as hubiquitus
from hubbub.protocols.hubiquitus import socket_io
from hubbub.protocols.websocket import Deflate, Opcode, frame

_FRAME_UNITS = 1000
_FRAME_BYTES = 256 * 1024


class WebSocketCodec(Protocol):
    """A WebSocket subprotocol."""

    subprotocol: str
    opcode: int

    @property
    def prepare(self) -> Callable[[JsonText], Steps[JsonText]] | None:
        """See `ports.encoding.Encoder`."""

    @property
    def rid(self) -> int | None:
        """See `ports.connection.Connection`."""

    def decode(self, data: bytes) -> list[Request]: ...
    def encode_message(self, message: Message) -> bytes: ...
    def encode(self, notice: Notice) -> bytes: ...
    def join(self, units: Sequence[bytes], /) -> bytes:
        """The payload of one WebSocket message that holds these units."""

    def __hash__(self) -> int: ...


class WebSocketEncoder:
    """A codec in WebSocket frames, compressed or not. Created by `encoder_for`, one per kind."""

    in_order = False

    def __init__(self, codec: WebSocketCodec, deflate: Deflate | None) -> None:
        self.codec = codec
        self.deflate = deflate
        self._opcode, self._join = codec.opcode, codec.join
        self._encode_message = codec.encode_message
        self.encode = codec.encode
        self.prepare = codec.prepare

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        if previous is None:
            return self._encode_message(message)
        return self.encode(notices.MessageDelivery(message, previous_serial=previous))

    def pack(self, units: Sequence[bytes]) -> bytes:
        """Joins units into frames of limited size, since receivers buffer whole frames."""
        if len(units) == 1:
            if self.deflate is not None:
                return self._frame(units)
            return frame(self._opcode, self._join(units))
        frames: list[bytes] = []
        batch: list[bytes] = []
        size = 0
        for unit in units:
            if batch and (size + len(unit) > _FRAME_BYTES or len(batch) >= _FRAME_UNITS):
                frames.append(self._frame(batch))
                batch, size = [], 0
            batch.append(unit)
            size += len(unit)
        frames.append(self._frame(batch))
        return b"".join(frames)

    def _frame(self, units: Sequence[bytes]) -> bytes:
        payload = self.codec.join(units)
        if self.deflate is None:
            return frame(self.codec.opcode, payload)
        return frame(self.codec.opcode, self.deflate.compress(payload), rsv1=True)


class HubiquitusEncoder(WebSocketEncoder):
    """Hubiquitus events, one per frame. Belongs to one connection, whose events it counts."""

    def pack(self, units: Sequence[bytes]) -> bytes:
        return b"".join(self._event(text) for unit in units for text in unit.split(b"\n") if text)

    def _event(self, text: bytes) -> bytes:
        return frame(Opcode.PING, b"") if text == hubiquitus.PING else self._frame((text,))


_LEAVE = b"\x01"
"""The unit that ends a socket.io connection."""


class SocketIoEncoder(HubiquitusEncoder):
    """Encodes events as packets of socket.io."""

    codec: hubiquitus.HubiquitusCodec

    def __init__(self, codec: hubiquitus.HubiquitusCodec, deflate: Deflate | None) -> None:
        super().__init__(codec, deflate)
        self.encode = self._encode

    def _encode(self, notice: Notice) -> bytes:
        unit = self.codec.encode(notice)
        if isinstance(notice, notices.Disconnect) and not notice.error.reconnect:
            return unit + b"\n" + _LEAVE  # otherwise the client would connect again by itself
        return unit

    def _event(self, text: bytes) -> bytes:
        if text == hubiquitus.PING:
            return frame(Opcode.TEXT, socket_io.HEARTBEAT)
        if text == _LEAVE:
            return frame(Opcode.TEXT, socket_io.DISCONNECT)
        return frame(Opcode.TEXT, socket_io.write_event(text))


def encoder_for(codec: WebSocketCodec, deflate: Deflate | None) -> WebSocketEncoder:
    if isinstance(codec, hubiquitus.HubiquitusCodec):
        return HubiquitusEncoder(codec, deflate)
    return _shared_encoder(codec, deflate)


@cache
def _shared_encoder(codec: WebSocketCodec, deflate: Deflate | None) -> WebSocketEncoder:
    return WebSocketEncoder(codec, deflate)


class SseEncoder:
    """Server-sent events of one channel: all subscribers get the same ids."""

    prepare = None
    in_order = False

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        if not message.serial:
            return sse.encode_message(message, None)
        moved = self._moved(message.channel, epoch, message.serial)
        if previous is None:
            return sse.encode_message(message, moved)
        return sse.encode(notices.MessageDelivery(message, previous_serial=previous), moved)

    def encode(self, notice: Notice) -> bytes:
        if isinstance(notice, notices.Ping):
            return sse.heartbeat()
        if isinstance(notice, notices.ChannelReset):
            return sse.encode(notice, self._moved(notice.channel, notice.epoch, notice.serial))
        return sse.encode(notice)

    def _moved(self, channel: str, epoch: str, serial: int) -> str:
        """The id of the new position, from which the client will resume."""
        return sse.encode_positions({channel: sse.StreamPosition(epoch, serial)})

    def pack(self, units: Sequence[bytes]) -> bytes:
        return b"".join(units)


_UNKNOWN = sse.StreamPosition("", 0)
_RECENT_CHANNELS = 12
"""Channels of patterns in one id: with the longest names they take 4.5 KB."""
_OVERLAP_MILLISECONDS = 5_000


class SseVectorEncoder(SseEncoder):
    """Server-sent events of several channels, or of a channel with a document: an id names a
    position in each of them, so that every client has its own."""

    in_order = True

    def __init__(self) -> None:
        self.positions: dict[str, sse.StreamPosition] = {}

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        if not message.serial:
            return sse.encode_message(message, sse.encode_positions(self.positions))
        return super().encode_message(message, epoch, previous)

    def encode(self, notice: Notice) -> bytes:
        if isinstance(notice, notices.DocumentUpdated):
            self._at_version(notice.channel, notice.epoch, notice.version)
            return sse.encode(notice, sse.encode_positions(self.positions))
        if isinstance(notice, notices.DocumentInfo):
            # Without an id: missed updates follow, each with its own. If the stream ends before
            # them, the client goes on from the version that it has.
            self._at_version(notice.channel, notice.epoch, notice.version)
        return super().encode(notice)

    def _at_version(self, channel: str, epoch: str, version: int) -> None:
        position = self.positions.get(channel, _UNKNOWN)
        self.positions[channel] = position._replace(document_epoch=epoch, document_version=version)

    def _moved(self, channel: str, epoch: str, serial: int) -> str:
        position = self.positions.get(channel, _UNKNOWN)
        self.positions[channel] = position._replace(epoch=epoch, serial=serial)
        return sse.encode_positions(self.positions)


class SsePatternEncoder(SseVectorEncoder):
    """Server-sent events of patterns, which may match thousands of channels: an id contains the
    positions of the most recent channels, and for all others a time a few seconds before the newest
    message. So nothing is lost; if many channels publish within those seconds, messages may be
    repeated."""

    def __init__(self, named: Collection[str], now: int) -> None:
        """`named`: channels followed by name, whose positions are in every id; `now`: in
        milliseconds since 1970."""
        super().__init__()
        self._named = named
        self._newest = now + _OVERLAP_MILLISECONDS

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        self._newest = max(self._newest, message.published_at)
        if not message.serial:
            return sse.encode_message(message, self.event_id())
        return SseEncoder.encode_message(self, message, epoch, previous)

    def encode(self, notice: Notice) -> bytes:
        if isinstance(notice, notices.DocumentUpdated):
            self._at_version(notice.channel, notice.epoch, notice.version)
            return sse.encode(notice, self.event_id())
        return super().encode(notice)

    def event_id(self) -> str:
        others = [channel for channel in self.positions if channel not in self._named]
        for channel in others[:-_RECENT_CHANNELS]:
            del self.positions[channel]
        return sse.with_since(
            self._newest - _OVERLAP_MILLISECONDS, sse.encode_positions(self.positions)
        )

    def _moved(self, channel: str, epoch: str, serial: int) -> str:
        position = self.positions.pop(channel, _UNKNOWN)
        self.positions[channel] = position._replace(epoch=epoch, serial=serial)
        return self.event_id()


SSE = SseEncoder()
