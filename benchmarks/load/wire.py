"""What clients send, as bytes: WebSocket, MQTT and NATS, only as far as a measurement needs."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from enum import Enum

from websockets.speedups import apply_mask


class Framing(Enum):
    """How bytes are put on the wire."""

    RAW = 0
    TEXT = 1
    BINARY = 2


@dataclass(frozen=True, slots=True)
class Step:
    """Something to send while getting ready, and what the server's answer must contain.

    `stamp.INDEX` in `send` becomes the number of the connection. An empty `expect` goes on
    without waiting. With `variants`, connections send those in turn instead.
    """

    send: bytes
    expect: bytes
    framing: Framing = Framing.RAW
    variants: tuple[bytes, ...] = ()

    def text(self, number: int) -> bytes:
        return self.variants[number % len(self.variants)] if self.variants else self.send


@dataclass(frozen=True, slots=True)
class Route:
    """Where a client connects and how it gets ready. Those after the first may connect to `others`
    in turn."""

    port: int
    steps: tuple[Step, ...] = ()
    others: tuple[int, ...] = ()

    def port_of(self, number: int) -> int:
        return (self.port, *self.others)[number % (1 + len(self.others))]


@dataclass(frozen=True, slots=True)
class Publication:
    """How one message is published on a route; `message` is a `stamp.Template`'s text."""

    route: Route
    message: bytes
    framing: Framing


def frame(framing: Framing, payload: bytes) -> bytes:
    """The payload as it goes on the wire: a masked WebSocket frame, or itself."""
    if framing is Framing.RAW:
        return payload
    size = len(payload)
    first = 0x80 | framing.value
    key = os.urandom(4)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + key + apply_mask(payload, key)


def upgrade(path: str, *headers: str, expect: bytes = b" 101 ") -> Step:
    """Opens a WebSocket."""
    return _get(path, *_UPGRADE, *headers, expect=expect)


def event_stream(path: str, *headers: str) -> Step:
    """Opens a stream of server-sent events."""
    return _get(path, "Accept: text/event-stream", *headers, expect=b" 200 ")


def post(path: str, body: bytes, size: int, *headers: str) -> bytes:
    """A keep-alive request whose body has `size` bytes once its template is filled."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {size}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def mqtt_connect(client: bytes) -> bytes:
    variable = b"\x00\x04MQTT\x04\x02\x00\x00" + _mqtt_text(client)
    return _mqtt_packet(0x10, variable)


def mqtt_subscribe(topic: bytes) -> bytes:
    return _mqtt_packet(0x82, b"\x00\x01" + _mqtt_text(topic) + b"\x00")


def mqtt_publish(topic: bytes, payload: bytes, growth: int) -> bytes:
    """A PUBLISH at QoS 0; the payload grows by `growth` bytes when its template is filled."""
    return _mqtt_packet(0x30, _mqtt_text(topic) + payload, growth)


_UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def _get(path: str, *headers: str, expect: bytes) -> Step:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    return Step("\r\n".join(lines).encode(), expect)


def _mqtt_text(text: bytes) -> bytes:
    return struct.pack("!H", len(text)) + text


def _mqtt_packet(first: int, body: bytes, growth: int = 0) -> bytes:
    left, size = len(body) + growth, b""
    while True:
        left, digit = divmod(left, 128)
        size += bytes([digit | (0x80 if left else 0)])
        if not left:
            return bytes([first]) + size + body
