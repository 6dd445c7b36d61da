"""The packets that clients send, decoded and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from hubbub.protocols.mqtt.fields import (
    ACK_PROPERTIES,
    AUTH_PROPERTIES,
    CONNECT_PROPERTIES,
    DISCONNECT_PROPERTIES,
    NO_PROPERTIES,
    PUBLISH_PROPERTIES,
    SUBSCRIBE_PROPERTIES,
    UNSUBSCRIBE_PROPERTIES,
    WILL_PROPERTIES,
    Body,
    Properties,
    Property,
)
from hubbub.protocols.mqtt.names import filter_problem
from hubbub.protocols.mqtt.reasons import PacketError, Reason, malformed, violation

V3, V5 = 4, 5
"""The protocol levels of MQTT 3.1.1 and MQTT 5."""
CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT, AUTH = range(8, 16)
MAX_FILTERS_IN_A_PACKET: Final = 100


class MqttPacket(msgspec.Struct, frozen=True):
    """A packet from a client."""


class Will(msgspec.Struct, frozen=True):
    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = NO_PROPERTIES


class Connect(MqttPacket, frozen=True):
    version: int
    client_id: str
    clean: bool
    keep_alive: int
    user_name: str | None = None
    password: bytes | None = None
    will: Will | None = None
    properties: Properties = NO_PROPERTIES


class PublishPacket(MqttPacket, frozen=True):
    topic: str
    """Empty: the topic of the alias."""
    payload: bytes
    qos: int
    retain: bool
    duplicate: bool
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class AckPacket(MqttPacket, frozen=True):
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""

    kind: int
    packet_id: int
    reason: int = 0


class WantedFilter(msgspec.Struct, frozen=True):
    topic_filter: str
    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class SubscribePacket(MqttPacket, frozen=True):
    packet_id: int
    filters: tuple[WantedFilter, ...]
    identifier: int = 0


class UnsubscribePacket(MqttPacket, frozen=True):
    packet_id: int
    filters: tuple[str, ...]


class PingPacket(MqttPacket, frozen=True):
    pass


class DisconnectPacket(MqttPacket, frozen=True):
    reason: int = 0
    session_expiry: int | None = None


class AuthPacket(MqttPacket, frozen=True):
    reason: int
    method: str | None = None
    data: bytes = b""


class UnsupportedVersion(PacketError):
    """The client speaks a version of MQTT that the hub does not."""

    def __init__(self, level: int) -> None:
        super().__init__(
            Reason.UNSUPPORTED_VERSION, f"the protocol level is {level}; 4 and 5 are spoken here"
        )


def _connect(body: Body, flags: int, version: int) -> Connect:
    name = body.binary()
    level = body.byte()
    if name == b"MQIsdp" or (name == b"MQTT" and level not in (V3, V5)):
        raise UnsupportedVersion(level)
    if name != b"MQTT":
        raise malformed("the packet does not begin with the protocol name MQTT")
    options = body.byte()
    will_qos = options >> 3 & 3
    if options & 1 or will_qos == 3 or (not options & 4 and options & 0x38):
        raise malformed(f"the flags of CONNECT are 0x{options:02x}")
    if level == V3 and options & 0x40 and not options & 0x80:
        raise malformed("there is a password without a user name")
    keep_alive = body.two()
    given = body.properties(CONNECT_PROPERTIES) if level == V5 else NO_PROPERTIES
    if Property.AUTH_DATA in given and Property.AUTH_METHOD not in given:
        raise violation("there is authentication data without a method")
    client_id = body.text()
    will = None
    if options & 4:
        about = body.properties(WILL_PROPERTIES) if level == V5 else NO_PROPERTIES
        topic = _topic(body.text())
        if not topic:
            raise malformed("the topic of the will is empty")
        _check_response_topic(about)
        will = Will(topic, body.binary(), will_qos, bool(options & 0x20), about)
    user_name = body.text() if options & 0x80 else None
    password = body.binary() if options & 0x40 else None
    body.end()
    return Connect(
        level, client_id, bool(options & 2), keep_alive, user_name, password, will, given
    )


def _topic(topic: str) -> str:
    if "+" in topic or "#" in topic:
        raise malformed(f"the topic {topic[:40]!r} has a wildcard")
    return topic


def _check_response_topic(given: Properties) -> None:
    response = given.get(Property.RESPONSE_TOPIC)
    if response is not None and (not response or "+" in response or "#" in response):
        raise violation("the response topic is empty or has a wildcard")


def _publish(body: Body, flags: int, version: int) -> PublishPacket:
    qos = flags >> 1 & 3
    if qos == 3 or (flags & 8 and not qos):
        raise malformed(f"the flags of PUBLISH are 0x{flags:x}")
    topic = _topic(body.text())
    packet_id = body.packet_id() if qos else 0
    given = body.properties(PUBLISH_PROPERTIES) if version == V5 else NO_PROPERTIES
    if not topic and Property.TOPIC_ALIAS not in given:
        # A topic of length 0 is no topic; with MQTT 5 it needs an alias.
        raise malformed("the topic is empty") if version == V3 else violation("the topic is empty")
    _check_response_topic(given)
    return PublishPacket(
        topic, body.rest(), qos, bool(flags & 1), bool(flags & 8), packet_id, given
    )


def _ack(kind: int, allowed: frozenset[int]) -> Callable[[Body, int, int], AckPacket]:
    def read(body: Body, flags: int, version: int) -> AckPacket:
        packet_id, reason = body.packet_id(), 0
        if version == V5 and body.left:
            reason = body.byte()
            if reason not in allowed:
                raise malformed(f"the reason code is 0x{reason:02x}")
            if body.left:
                body.properties(ACK_PROPERTIES)
        body.end()
        return AckPacket(kind, packet_id, reason)

    return read


def _subscribe(body: Body, flags: int, version: int) -> SubscribePacket:
    packet_id = body.packet_id()
    given = body.properties(SUBSCRIBE_PROPERTIES) if version == V5 else NO_PROPERTIES
    wanted = []
    while body.left:
        topic_filter = _filter(body.text())
        options = body.byte()
        if version == V3 and options > 2:
            raise malformed(f"the QoS of {topic_filter[:40]!r} is {options}")
        if options & 0xC0 or options & 3 == 3 or options & 0x30 == 0x30:
            raise malformed(f"the options of {topic_filter[:40]!r} are 0x{options:02x}")
        wanted.append(
            WantedFilter(
                topic_filter, options & 3, bool(options & 4), bool(options & 8), options >> 4
            )
        )
    _check_count(len(wanted))
    return SubscribePacket(packet_id, tuple(wanted), given.get(Property.SUBSCRIPTION_ID, 0))


def _filter(topic_filter: str) -> str:
    problem = filter_problem(topic_filter)
    if problem is not None:
        raise malformed(problem)
    return topic_filter


def _check_count(filters: int) -> None:
    if not filters:
        raise violation("the packet names no topic filter")
    if filters > MAX_FILTERS_IN_A_PACKET:
        raise PacketError(
            Reason.QUOTA, f"a packet has {filters} topic filters; {MAX_FILTERS_IN_A_PACKET} may be"
        )


def _unsubscribe(body: Body, flags: int, version: int) -> UnsubscribePacket:
    packet_id = body.packet_id()
    if version == V5:
        body.properties(UNSUBSCRIBE_PROPERTIES)
    filters = []
    while body.left:
        filters.append(_filter(body.text()))
    _check_count(len(filters))
    return UnsubscribePacket(packet_id, tuple(filters))


def _ping(body: Body, flags: int, version: int) -> PingPacket:
    body.end()
    return PingPacket()


_LEAVING = frozenset(
    (0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99)
)


def _disconnect(body: Body, flags: int, version: int) -> DisconnectPacket:
    reason, given = 0, NO_PROPERTIES
    if version == V5 and body.left:
        reason = body.byte()
        if reason not in _LEAVING:
            raise violation(f"the reason code is 0x{reason:02x}")
        if body.left:
            given = body.properties(DISCONNECT_PROPERTIES)
    body.end()
    return DisconnectPacket(reason, given.get(Property.SESSION_EXPIRY))


def _auth(body: Body, flags: int, version: int) -> AuthPacket:
    if version != V5:
        raise malformed("MQTT 3.1.1 has no AUTH")
    reason, given = 0, NO_PROPERTIES
    if body.left:
        reason = body.byte()
        if reason not in (0x18, 0x19):
            raise violation(f"the reason code is 0x{reason:02x}")
        given = body.properties(AUTH_PROPERTIES)
    body.end()
    return AuthPacket(reason, given.get(Property.AUTH_METHOD), given.get(Property.AUTH_DATA, b""))


_RECEIVED = frozenset((0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_RELEASED = frozenset((0x00, 0x92))
_READERS: Mapping[int, tuple[int | None, Callable[[Body, int, int], MqttPacket]]] = {
    CONNECT: (0, _connect),
    PUBLISH: (None, _publish),
    PUBACK: (0, _ack(PUBACK, _RECEIVED)),
    PUBREC: (0, _ack(PUBREC, _RECEIVED)),
    PUBREL: (2, _ack(PUBREL, _RELEASED)),
    PUBCOMP: (0, _ack(PUBCOMP, _RELEASED)),
    SUBSCRIBE: (2, _subscribe),
    UNSUBSCRIBE: (2, _unsubscribe),
    PINGREQ: (0, _ping),
    DISCONNECT: (0, _disconnect),
    AUTH: (0, _auth),
}
"""The reserved bits of each packet that clients send (None: flags of its own), and its reader."""


def decode(first: int, body: bytes, version: int) -> MqttPacket:
    """The packet with this first byte. `version` is ignored for CONNECT. Raises `PacketError`."""
    kind, flags = first >> 4, first & 0x0F
    found = _READERS.get(kind)
    if found is None:
        if kind in (CONNACK, SUBACK, UNSUBACK, PINGRESP):
            raise violation(f"clients do not send packets of type {kind}")
        raise malformed(f"there is no packet of type {kind}")
    reserved, read = found
    if reserved is not None and flags != reserved:
        raise malformed(f"the reserved bits of a packet of type {kind} are 0x{flags:x}")
    return read(Body(body), flags, version)


class MqttReader:
    """Cuts a stream of bytes into packets. The size of a packet is limited by what its fixed header
    says, before the rest has arrived."""

    __slots__ = ("_buffer", "most_bytes", "version")

    def __init__(self, most_bytes: int) -> None:
        self._buffer = bytearray()
        self.most_bytes = most_bytes
        self.version = 0
        """0 until CONNECT was read."""

    @property
    def held_bytes(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next(self) -> MqttPacket | None:
        """The next whole packet; None until there is one. After a `PacketError` nothing more may be
        read."""
        buffer = self._buffer
        length = at = 0
        for shift in (0, 7, 14, 21):
            at += 1
            if at >= len(buffer):
                if at == 1 and len(buffer):
                    self._check_first(buffer[0])
                return None
            byte = buffer[at]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise malformed("the length of a packet has more than four bytes")
        self._check_first(buffer[0])
        end = at + 1 + length
        if end > self.most_bytes:
            raise PacketError(
                Reason.TOO_LARGE, f"a packet has {end} bytes; at most {self.most_bytes} are allowed"
            )
        if len(buffer) < end:
            return None
        first, body = buffer[0], bytes(buffer[at + 1 : end])
        del buffer[:end]
        packet = decode(first, body, self.version)
        if isinstance(packet, Connect):
            if self.version:
                raise violation("a second CONNECT")
            self.version = packet.version
        return packet

    def _check_first(self, first: int) -> None:
        if not self.version and first >> 4 != CONNECT:
            raise violation("the first packet is not CONNECT")
