"""MQTT clients that write their packets by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from hubbub.protocols.mqtt.fields import Body, Property, binary, properties, text
from hubbub.protocols.mqtt.packets import (
    CONNACK,
    CONNECT,
    DISCONNECT,
    PUBLISH,
    PUBREL,
    SUBACK,
    SUBSCRIBE,
    UNSUBSCRIBE,
    V5,
)
from hubbub.protocols.mqtt.writing import ack, packet

DEADLINE_SECONDS = 10.0
PING = b"\xc0\x00"
Given = Sequence[tuple[Property, Any]]


def _about(version: int, given: Given) -> bytes:
    return properties(given) if version == V5 else b""


def connect(
    version: int = V5,
    client_id: str = "device",
    clean: bool = True,
    keep_alive: int = 60,
    user_name: str | None = None,
    password: bytes | None = None,
    will: tuple[str, bytes, int, bool] | None = None,
    given: Given = (),
    will_given: Given = (),
) -> bytes:
    flags = clean << 1
    payload = text(client_id)
    if will is not None:
        topic, content, qos, retain = will
        flags |= 4 | qos << 3 | retain << 5
        payload += _about(version, will_given) + text(topic) + binary(content)
    if user_name is not None:
        flags |= 0x80
        payload += text(user_name)
    if password is not None:
        flags |= 0x40
        payload += binary(password)
    head = text("MQTT") + bytes((version, flags)) + keep_alive.to_bytes(2)
    return packet(CONNECT, head + _about(version, given) + payload)


def publish(
    topic: str,
    payload: bytes = b"",
    qos: int = 0,
    packet_id: int = 0,
    retain: bool = False,
    duplicate: bool = False,
    version: int = V5,
    given: Given = (),
) -> bytes:
    head = text(topic) + (packet_id.to_bytes(2) if qos else b"")
    flags = qos << 1 | retain | duplicate << 3
    return packet(PUBLISH, head + _about(version, given) + payload, flags)


def subscribe(
    *filters: tuple[str, int], packet_id: int = 1, version: int = V5, given: Given = ()
) -> bytes:
    """Each filter with its options; those of MQTT 3.1.1 are the QoS."""
    body = b"".join(text(name) + bytes((options,)) for name, options in filters)
    return packet(SUBSCRIBE, packet_id.to_bytes(2) + _about(version, given) + body, 2)


def unsubscribe(*filters: str, packet_id: int = 1, version: int = V5) -> bytes:
    body = b"".join(map(text, filters))
    return packet(UNSUBSCRIBE, packet_id.to_bytes(2) + _about(version, ()) + body, 2)


class Arrived(NamedTuple):
    """A PUBLISH from the hub."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    duplicate: bool
    packet_id: int
    properties: dict[Property, Any]


class Device:
    """A connection; every read has a deadline."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, version: int
    ) -> None:
        self._reader = reader
        self.writer = writer
        self.version = version
        self._id = 100

    @classmethod
    async def open(cls, port: int, version: int = V5) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port), version)

    @classmethod
    async def connected(cls, port: int, version: int = V5, **options: Any) -> Self:
        device = await cls.open(port, version)
        device.send(connect(version, **options))
        assert (await device.expect(CONNACK))[1] == 0
        return device

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> tuple[int, bytes]:
        """The first byte and the body of the next packet."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            first = (await self._reader.readexactly(1))[0]
            length = shift = 0
            while True:
                byte = (await self._reader.readexactly(1))[0]
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    return first, await self._reader.readexactly(length)
                shift += 7

    async def expect(self, kind: int) -> bytes:
        first, body = await self.next()
        assert first >> 4 == kind, (first, body)
        return body

    async def ended(self) -> int | None:
        """The reason of the DISCONNECT before the end of the connection; None: there was none."""
        reason = None
        try:
            while True:
                first, body = await self.next()
                if first >> 4 == DISCONNECT:
                    reason = body[0] if body else 0
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return reason

    async def subscribe(self, *filters: tuple[str, int], given: Given = ()) -> list[int]:
        self._id += 1
        self.send(subscribe(*filters, packet_id=self._id, version=self.version, given=given))
        body = await self.expect(SUBACK)
        assert int.from_bytes(body[:2]) == self._id
        return list(body[3:] if self.version == V5 else body[2:])

    async def arrived(self) -> Arrived:
        first, data = await self.next()
        assert first >> 4 == PUBLISH, (first, data)
        body, qos = Body(data), first >> 1 & 3
        topic = body.text()
        packet_id = body.two() if qos else 0
        given: dict[Property, Any] = {}
        if self.version == V5:
            given = _read_properties(Body(body.take(body.variable())))
        return Arrived(topic, body.rest(), qos, bool(first & 1), bool(first & 8), packet_id, given)

    async def silent(self) -> bool:
        """Whether nothing but the answer to a ping is on its way."""
        self.send(PING)
        return await self.next() == (0xD0, b"")

    def acknowledge(self, kind: int, packet_id: int) -> None:
        self.send(ack(self.version, kind, packet_id))

    def release(self, packet_id: int) -> None:
        self.acknowledge(PUBREL, packet_id)


def _read_properties(body: Body) -> dict[Property, Any]:
    found: dict[Property, Any] = {}
    identifiers: list[int] = []
    while body.left:
        kind = Property(body.variable())
        if kind is Property.SUBSCRIPTION_ID:
            identifiers.append(body.variable())
            found[kind] = identifiers
        elif kind is Property.USER:
            found.setdefault(kind, []).append((body.text(), body.text()))
        elif kind is Property.PAYLOAD_FORMAT:
            found[kind] = body.byte()
        elif kind is Property.MESSAGE_EXPIRY:
            found[kind] = body.four()
        elif kind is Property.CORRELATION:
            found[kind] = body.binary()
        else:
            found[kind] = body.text()
    return found
