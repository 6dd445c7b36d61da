"""Numbers, texts and properties of packets: reading with every check of the specification, and
writing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum, unique
from typing import Any, Final

from hubbub.protocols.mqtt.reasons import PacketError, Reason, malformed, violation

MAX_LENGTH: Final = 268_435_455
MAX_USER_PROPERTIES: Final = 64
MAX_USER_PROPERTY_BYTES: Final = 8 * 1024
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@unique
class Property(IntEnum):
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTH_METHOD = 0x15
    AUTH_DATA = 0x16
    PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    RESPONSE_INFORMATION = 0x19
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    USER = 0x26
    MAXIMUM_PACKET = 0x27
    SHARED_AVAILABLE = 0x2A


_KNOWN = frozenset(
    (0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x11, 0x12, 0x13, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A,
     0x1C, 0x1F, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A)
)  # fmt: skip
_P = Property
_MESSAGE = (
    _P.PAYLOAD_FORMAT, _P.MESSAGE_EXPIRY, _P.CONTENT_TYPE, _P.RESPONSE_TOPIC, _P.CORRELATION,
    _P.USER,
)  # fmt: skip
CONNECT_PROPERTIES: Final = frozenset((
    _P.SESSION_EXPIRY, _P.AUTH_METHOD, _P.AUTH_DATA, _P.PROBLEM_INFORMATION,
    _P.RESPONSE_INFORMATION, _P.RECEIVE_MAXIMUM, _P.ALIAS_MAXIMUM, _P.USER, _P.MAXIMUM_PACKET,
))  # fmt: skip
WILL_PROPERTIES: Final = frozenset((*_MESSAGE, _P.WILL_DELAY))
PUBLISH_PROPERTIES: Final = frozenset((*_MESSAGE, _P.TOPIC_ALIAS))
ACK_PROPERTIES: Final = frozenset((_P.REASON_STRING, _P.USER))
SUBSCRIBE_PROPERTIES: Final = frozenset((_P.SUBSCRIPTION_ID, _P.USER))
UNSUBSCRIBE_PROPERTIES: Final = frozenset((_P.USER,))
DISCONNECT_PROPERTIES: Final = frozenset((_P.SESSION_EXPIRY, _P.REASON_STRING, _P.USER))
AUTH_PROPERTIES: Final = frozenset((_P.AUTH_METHOD, _P.AUTH_DATA, _P.REASON_STRING, _P.USER))

_FLAGS = frozenset((_P.PAYLOAD_FORMAT, _P.PROBLEM_INFORMATION, _P.RESPONSE_INFORMATION))
_BYTES = frozenset((*_FLAGS, _P.MAXIMUM_QOS, _P.SHARED_AVAILABLE))
_TWO = frozenset((_P.SERVER_KEEP_ALIVE, _P.RECEIVE_MAXIMUM, _P.ALIAS_MAXIMUM, _P.TOPIC_ALIAS))
_FOUR = frozenset((_P.MESSAGE_EXPIRY, _P.SESSION_EXPIRY, _P.WILL_DELAY, _P.MAXIMUM_PACKET))
_TEXT = frozenset((
    _P.CONTENT_TYPE, _P.RESPONSE_TOPIC, _P.ASSIGNED_CLIENT_ID, _P.AUTH_METHOD, _P.REASON_STRING,
))  # fmt: skip
_BINARY = frozenset((_P.CORRELATION, _P.AUTH_DATA))
_NOT_ZERO = frozenset((_P.RECEIVE_MAXIMUM, _P.MAXIMUM_PACKET, _P.SUBSCRIPTION_ID))

Properties = Mapping[Property, Any]
"""By identifier; `USER` is a list of pairs, `SUBSCRIPTION_ID` a number (from clients)."""
NO_PROPERTIES: Final[Properties] = {}


class Body:
    """The bytes of one packet behind its fixed header, read from front to back. Every method raises
    `PacketError` where the bytes end early."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data)

    @property
    def left(self) -> int:
        return self._end - self._at

    def byte(self) -> int:
        return self.take(1)[0]

    def two(self) -> int:
        return int.from_bytes(self.take(2))

    def four(self) -> int:
        return int.from_bytes(self.take(4))

    def variable(self) -> int:
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise malformed("a length has more than four bytes")

    def take(self, count: int) -> bytes:
        start = self._at
        if start + count > self._end:
            raise malformed("the packet ends before its last field")
        self._at = start + count
        return self._data[start : self._at]

    def rest(self) -> bytes:
        return self.take(self.left)

    def binary(self) -> bytes:
        return self.take(self.two())

    def text(self) -> str:
        data = self.binary()
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise malformed("a text is not UTF-8") from None
        if _CONTROL.search(text):
            raise malformed("a text has a control character")
        return text

    def packet_id(self) -> int:
        found = self.two()
        if not found:
            raise violation("the packet id is 0")
        return found

    def end(self) -> None:
        if self.left:
            raise malformed(f"the packet has {self.left} bytes behind its last field")

    def properties(self, allowed: frozenset[Property]) -> Properties:
        length = self.variable()
        if not length:
            return NO_PROPERTIES
        inner = Body(self.take(length))
        found: dict[Property, Any] = {}
        while inner.left:
            identifier = inner.variable()
            if identifier not in _KNOWN:
                raise malformed(f"there is no property 0x{identifier:02x}")
            if identifier not in allowed:
                raise violation(f"the property 0x{identifier:02x} does not belong into this packet")
            inner._read(Property(identifier), found)
        return found

    def _read(self, kind: Property, found: dict[Property, Any]) -> None:
        if kind is Property.USER:
            pairs = found.setdefault(kind, [])
            pairs.append((self.text(), self.text()))
            if (
                len(pairs) > MAX_USER_PROPERTIES
                or sum(len(name) + len(value) for name, value in pairs) > MAX_USER_PROPERTY_BYTES
            ):
                raise PacketError(
                    Reason.QUOTA,
                    f"a packet has at most {MAX_USER_PROPERTIES} user properties and "
                    f"{MAX_USER_PROPERTY_BYTES} bytes of them",
                )
            return
        if kind in found:
            raise violation(f"the property 0x{kind:02x} is there twice")
        value: Any
        if kind in _BYTES:
            value = self.byte()
            if kind in _FLAGS and value > 1:
                raise violation(f"the property 0x{kind:02x} is {value}, not 0 or 1")
        elif kind in _TWO:
            value = self.two()
        elif kind in _FOUR:
            value = self.four()
        elif kind in _TEXT:
            value = self.text()
        elif kind in _BINARY:
            value = self.binary()
        else:
            value = self.variable()
        if not value and kind in _NOT_ZERO:
            raise violation(f"the property 0x{kind:02x} is 0")
        if not value and kind is Property.TOPIC_ALIAS:
            raise PacketError(Reason.ALIAS_INVALID, "the topic alias is 0")
        found[kind] = value


def variable(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def binary(value: bytes) -> bytes:
    return len(value).to_bytes(2) + value


def text(value: str) -> bytes:
    return binary(value.encode())


def properties(given: Sequence[tuple[Property, Any]]) -> bytes:
    """The properties in the order given, with their length in front."""
    written = bytearray()
    for kind, value in given:
        written.append(kind)
        if kind is Property.USER:
            written += text(value[0]) + text(value[1])
        elif kind in _BYTES:
            written.append(value)
        elif kind in _TWO:
            written += value.to_bytes(2)
        elif kind in _FOUR:
            written += value.to_bytes(4)
        elif kind in _TEXT:
            written += text(value)
        elif kind in _BINARY:
            written += binary(value)
        else:
            written += variable(value)
    return variable(len(written)) + bytes(written)
