"""The packets that the hub sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hubbub.protocols.mqtt.fields import Property, properties, text, variable
from hubbub.protocols.mqtt.packets import (
    AUTH,
    CONNACK,
    DISCONNECT,
    PUBACK,
    PUBLISH,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V5,
)
from hubbub.protocols.mqtt.reasons import Reason, return_code

PING_ANSWER = b"\xd0\x00"
Given = Sequence[tuple[Property, Any]]


def packet(kind: int, body: bytes, flags: int = 0) -> bytes:
    return bytes((kind << 4 | flags,)) + variable(len(body)) + body


def connack(version: int, reason: Reason, present: bool = False, given: Given = ()) -> bytes:
    if version != V5:
        return packet(CONNACK, bytes((present, return_code(reason))))
    return packet(CONNACK, bytes((present, reason)) + properties(given))


def ack(version: int, kind: int, packet_id: int, reason: int = 0) -> bytes:
    """A PUBACK, PUBREC, PUBREL or PUBCOMP."""
    body = packet_id.to_bytes(2)
    if version == V5 and reason:
        body += bytes((reason,))
    return packet(kind, body, 2 if kind == PUBREL else 0)


def puback(version: int, packet_id: int, reason: int = 0) -> bytes:
    return ack(version, PUBACK, packet_id, reason)


def suback(version: int, packet_id: int, codes: Sequence[int]) -> bytes:
    told = bytes(codes) if version == V5 else bytes(min(code, 0x80) for code in codes)
    between = b"\x00" if version == V5 else b""
    return packet(SUBACK, packet_id.to_bytes(2) + between + told)


def unsuback(version: int, packet_id: int, codes: Sequence[int]) -> bytes:
    body = packet_id.to_bytes(2)
    return packet(UNSUBACK, body + b"\x00" + bytes(codes) if version == V5 else body)


def disconnect(version: int, reason: Reason) -> bytes:
    """Nothing with MQTT 3.1.1, where the server closes without a word."""
    return packet(DISCONNECT, bytes((reason,))) if version == V5 else b""


def auth(reason: Reason, method: str) -> bytes:
    return packet(AUTH, bytes((reason,)) + properties(((Property.AUTH_METHOD, method),)))


def publish(
    version: int,
    topic: str,
    payload: bytes,
    qos: int,
    retain: bool,
    packet_id: int = 0,
    given: Given = (),
) -> bytes:
    name = text(topic)
    head = name + packet_id.to_bytes(2) if qos else name
    about = properties(given) if version == V5 else b""
    return packet(PUBLISH, head + about + payload, qos << 1 | retain)


def numbered(written: bytes, packet_id: int, duplicate: bool = False) -> bytes:
    """A PUBLISH of QoS 1 or 2 with another packet id."""
    at = 1
    while written[at] >= 0x80:
        at += 1
    at += 1
    at += 2 + int.from_bytes(written[at : at + 2])
    first = written[0] | 8 if duplicate else written[0]
    return bytes((first,)) + written[1:at] + packet_id.to_bytes(2) + written[at + 2 :]
