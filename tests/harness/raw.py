"""Clients that write bytes by hand, for what well-behaved libraries refuse to send."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import struct
from typing import Any, NamedTuple, Self

DEADLINE_SECONDS = 5.0
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        """The code of an error's body."""
        code: str = json.loads(self.body)["error"]["code"]
        return code


class RawConnection:
    """A TCP connection; every read has a deadline."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, address: str, tls: ssl.SSLContext | None = None) -> Self:
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), ssl=tls))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def request(self, line: str, *headers: str, body: bytes = b"") -> None:
        """`line` is method and target; a Host is added, and a length where there is a body."""
        lines = [f"{line} HTTP/1.1", "Host: test", *headers]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def response(self, head: bool = False) -> Response:
        """The next answer; `head`: it answers a HEAD request and has no body."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            text = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = text[:-4].split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            size = 0 if head else int(headers.get("content-length", 0))
            return Response(int(first.split()[1]), headers, await self._reader.readexactly(size))

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._reader.readexactly(size)

    async def until(self, end: bytes) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self._reader.readuntil(end)

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                return await self._reader.read(-1)
            except ConnectionError:
                return b""


HANDSHAKE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


def client_frame(
    opcode: int, payload: bytes = b"", fin: bool = True, rsv: int = 0, masked: bool = True
) -> bytes:
    """A frame as a client sends it, or as it must not."""
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    bit = 0x80 if masked else 0
    if size < 126:
        head = bytes([first, bit | size])
    elif size < 1 << 16:
        head = bytes([first, bit | 126]) + struct.pack("!H", size)
    else:
        head = bytes([first, bit | 127]) + struct.pack("!Q", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


class RawWebSocket(RawConnection):
    """Frames by hand, after a right handshake."""

    @classmethod
    async def connect(
        cls, address: str, *headers: str, hub: str = "acme", tls: ssl.SSLContext | None = None
    ) -> Self:
        """Shaken hands and greeted."""
        self = await cls.open(address, tls)
        self.request(f"GET /v1/hubs/{hub}/socket", *HANDSHAKE, *headers)
        answer = await self.response()
        assert answer.status == 101, answer
        await self.receive()
        return self

    async def receive(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame."""
        first, size = await self.read(2)
        if size == 126:
            (size,) = struct.unpack("!H", await self.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.read(8))
        return first & 0x0F, await self.read(size)

    async def envelopes(self) -> list[dict[str, Any]]:
        """The envelopes of the next frame, which must be JSON."""
        opcode, payload = await self.receive()
        assert opcode == TEXT, (opcode, payload)
        return [json.loads(line) for line in payload.split(b"\n")]

    async def close_code(self) -> int:
        """The code of the close frame; what comes before it is passed over."""
        while True:
            opcode, payload = await self.receive()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big")
