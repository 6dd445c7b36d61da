"""Deliveries to devices: bytes that all subscribers with the same options share, and those of one
connection, whose packets have ids of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from weakref import WeakValueDictionary

from hubbub.domain import notices
from hubbub.domain.messages import Message
from hubbub.domain.notices import Notice
from hubbub.gateways.mqtt.messages import packet_of, published_qos
from hubbub.gateways.mqtt.options import ChannelOptions
from hubbub.ports.clock import Clock
from hubbub.protocols.mqtt.window import UnnumberedPublish
from hubbub.protocols.websocket import Opcode, frame


def framed(data: bytes) -> bytes:
    """As one message of a WebSocket."""
    return frame(Opcode.BINARY, data) if data else b""


def bare(data: bytes) -> bytes:
    return data


Framing = Callable[[bytes], bytes]


class SharedEncoder:
    """Deliveries with QoS 0: the same bytes for all subscribers with equal options."""

    prepare = None
    in_order = False

    def __init__(
        self, version: int, framing: Framing, options: ChannelOptions, clock: Clock, metadata: bool
    ) -> None:
        self._version = version
        self._framing = framing
        self._options = options
        self._clock = clock
        self._metadata = metadata

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        options = self._options
        if options.qos is None:
            return b""
        retain = options.retain_as_published and message.retain
        return packet_of(
            message, self._version, 0, retain, options.identifiers, self._clock.now(),
            self._metadata,
        )  # fmt: skip

    def encode(self, notice: Notice) -> bytes:
        return b""

    def pack(self, units: Sequence[bytes]) -> bytes:
        return self._framing(b"".join(units))


class SharedEncoders:
    """Finds the shared encoder of equal options; it exists while a connection uses it."""

    def __init__(self, clock: Clock, metadata: bool) -> None:
        self._clock = clock
        self._metadata = metadata
        self._known: WeakValueDictionary[tuple[int, Framing, ChannelOptions], SharedEncoder] = (
            WeakValueDictionary()
        )

    def find(self, version: int, framing: Framing, options: ChannelOptions) -> SharedEncoder:
        key = version, framing, options
        found = self._known.get(key)
        if found is None:
            found = SharedEncoder(version, framing, options, self._clock, self._metadata)
            self._known[key] = found
        return found


class Talker(Protocol):
    """The connection of an `OwnEncoder`."""

    def options_in(self, channel: str) -> ChannelOptions: ...

    def own_session(self) -> str | None: ...

    def told(self, notice: Notice) -> bytes:
        """What the client is told for a notice that is no message."""

    def wants_retained(self, channel: str) -> bool: ...

    def number(self, packet: UnnumberedPublish) -> bytes:
        """What may be written now of a PUBLISH and those before it."""


class OwnEncoder:
    """Deliveries to one connection. A unit is a PUBLISH without a packet id, or other whole
    packets; `pack` gives out the ids, and holds back what the client's window has no room for."""

    prepare = None
    in_order = False

    def __init__(
        self,
        talker: Talker,
        version: int,
        framing: Framing,
        clock: Clock,
        metadata: bool,
        most_bytes: int = 0,
    ) -> None:
        """`most_bytes`: larger packets are not sent; 0: no limit."""
        self._most_bytes = most_bytes
        self._talker = talker
        self._version = version
        self._framing = framing
        self._clock = clock
        self._metadata = metadata

    def encode_message(self, message: Message, epoch: str, previous: int | None = None) -> bytes:
        options = self._talker.options_in(message.channel)
        return self._encode(message, options, epoch, retained=False)

    def _encode(
        self, message: Message, options: ChannelOptions, epoch: str, retained: bool
    ) -> bytes:
        if options.qos is None or (
            options.no_local
            and message.session is not None
            and message.session == self._talker.own_session()
        ):
            return b""
        qos = min(options.qos, published_qos(message))
        retain = retained or (options.retain_as_published and message.retain)
        packet = packet_of(
            message, self._version, qos, retain, options.identifiers, self._clock.now(),
            self._metadata,
        )  # fmt: skip
        if 0 < self._most_bytes < len(packet):
            return b""
        return UnnumberedPublish.of(
            packet, message.channel, epoch, 0 if retained else message.serial
        )

    def encode(self, notice: Notice) -> bytes:
        if not isinstance(notice, notices.MessageDelivery):
            return self._talker.told(notice)
        message = notice.message
        if notice.retained and not self._talker.wants_retained(message.channel):
            return b""
        options = self._talker.options_in(message.channel)
        return self._encode(message, options, "", notice.retained)

    def pack(self, units: Sequence[bytes]) -> bytes:
        number = self._talker.number
        return self._framing(b"".join([_sent(unit, number) for unit in units]))


def _sent(unit: bytes, number: Callable[[UnnumberedPublish], bytes]) -> bytes:
    return number(unit) if isinstance(unit, UnnumberedPublish) else unit
