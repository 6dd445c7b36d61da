"""Clients that send what they like: HTTP and WebSocket on connections from the attack's address."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any, NamedTuple, Self, cast

from attack.arena import RED, Arena, Attack, Drill, Findings

PATIENCE_SECONDS = 30.0
_STATUS = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
_CODE = re.compile(rb'"code":\s?"([a-z_]+)"')
_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
GONE = (ConnectionError, OSError, asyncio.IncompleteReadError, TimeoutError)


_open: set[Line] = set()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of an error; empty where there is none."""
        found = _CODE.search(self.body)
        return found[1].decode() if found else self.headers.get("hubbub-error", "")

    @property
    def label(self) -> str:
        return f"{self.status} {self.code}".strip()


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        _open.add(self)

    @classmethod
    async def open(
        cls, arena: Arena, source: str = "", receive_buffer: int = 0, port: int = 0
    ) -> Self:
        raw = socket.socket()
        raw.setblocking(False)
        if receive_buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        raw.bind((source or arena.source, 0))
        loop = asyncio.get_running_loop()
        tls = arena.tls() if not port else None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await loop.sock_connect(raw, ("127.0.0.1", port or arena.port))
                name = "127.0.0.1" if tls else None
                return cls(
                    *await asyncio.open_connection(
                        sock=raw, ssl=tls, server_hostname=name, limit=1 << 20
                    )
                )
        except BaseException:
            raw.close()
            raise

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ask(
        self, method: str, path: str, token: str = "", body: Any = b"", **headers: str
    ) -> Answer:
        """One request and its answer; a body that is not bytes is sent as JSON."""
        self.send(request(method, path, token, body, **headers))
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.answer(head=method == "HEAD")

    async def answer(self, head: bool = False) -> Answer:
        text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text[:-4].split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        size = 0 if head else int(fields.get("content-length", 0))
        return Answer(int(first.split()[1]), fields, await self.reader.readexactly(size))

    async def tally(self, answers: Counter[str], enough: int = 0) -> int:
        """Counts statuses and error codes until the hub closes, or `enough` answers came."""
        seen = 0
        tail = b""
        while data := await self.reader.read(1 << 18):
            text = tail + data
            cut = len(text) - 12  # a status line that began here is counted with the next piece
            for found in _STATUS.finditer(text):
                if found.start() < cut:
                    answers[found[1].decode()] += 1
                    seen += 1
            for found in _CODE.finditer(text):
                answers[found[1].decode()] += 1
            tail = text[-12:]
            if enough and seen >= enough:
                break
        return seen

    def stop_reading(self) -> None:
        """What comes fills the system's buffers, and then the hub's."""
        cast(asyncio.Transport, self.writer.transport).pause_reading()

    def drop(self) -> None:
        _open.discard(self)
        self.writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()


def request(method: str, path: str, token: str = "", body: Any = b"", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: {headers.pop('Host', '127.0.0.1')}"]
    if isinstance(body, bytes):
        content = body
    else:
        content = json.dumps(body).encode()
        headers.setdefault("Content_Type", "application/json")
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if content or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(content)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


async def ask(
    arena: Arena, method: str, path: str, token: str = "", body: Any = b"", **headers: str
) -> Answer:
    """A request on a connection of its own."""
    async with await Line.open(arena) as line:
        return await line.ask(method, path, token, body, **headers)


class Socket(Line):
    """A WebSocket in JSON. Frames are masked with zeros, which is as good as any mask here."""

    @classmethod
    async def connect(
        cls,
        arena: Arena,
        token: str = "",
        hub: str = RED,
        source: str = "",
        receive_buffer: int = 0,
        **headers: str,
    ) -> Self:
        """Shaken hands; what the hub says first is not read yet."""
        line = await cls.open(arena, source, receive_buffer)
        answer = await line.ask("GET", f"/v1/hubs/{hub}/socket", token, b"", **UPGRADE, **headers)
        if answer.status != 101:
            line.drop()
            raise Refused(answer)
        return line

    def say(self, event: str, **payload: Any) -> None:
        self.send(frame(json.dumps({"event": event, "payload": payload}).encode()))

    async def hear(self) -> list[dict[str, Any]]:
        """The envelopes of the next frame; a close frame is `Closed`."""
        first, size = await self.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
        text = await self.reader.readexactly(size)
        if first & 0x0F == 9:
            self.send(frame(text, opcode=10))
        if first & 0x0F == 8:
            return [{"event": "Closed", "payload": {"code": int.from_bytes(text[:2], "big")}}]
        if first & 0x0F != 1:
            return []
        said = [json.loads(line) for line in text.split(b"\n")]
        if any(envelope["event"] == "Ping" for envelope in said):
            self.say("Pong")
        return said

    async def find(self, *events: str) -> dict[str, Any]:
        """The next envelope with one of these events, or `Closed`."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for envelope in await self.hear():
                    if envelope["event"] in (*events, "Closed", "Disconnect"):
                        return envelope

    async def codes(self, answers: Counter[str]) -> None:
        """Counts error codes until the hub closes."""
        with contextlib.suppress(*GONE):
            while data := await self.reader.read(1 << 18):
                answers["deliveries"] += data.count(b'"event":"Publish"')
                for found in _CODE.finditer(data):
                    answers[found[1].decode()] += 1


class Refused(Exception):
    """A handshake that was answered with something else than 101."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.label)
        self.answer = answer


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": _KEY,
}


def frame(payload: bytes, opcode: int = 1, fin: bool = True, rsv: int = 0) -> bytes:
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + bytes(4) + payload


def now() -> float:
    return asyncio.get_running_loop().time()


async def for_seconds(seconds: float, *work: Awaitable[object]) -> None:
    """Runs everything side by side, and ends what is still under way after the time. A connection
    that the hub ends is an end like any other."""

    async def one(job: Awaitable[object]) -> None:
        with contextlib.suppress(*GONE, Refused):
            await job

    tasks = [asyncio.ensure_future(one(job)) for job in work]
    _, pending = await asyncio.wait(tasks, timeout=seconds)
    for task in pending:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


@contextlib.asynccontextmanager
async def lines(arena: Arena, count: int, receive_buffer: int = 0) -> AsyncIterator[list[Line]]:
    """As many connections as the hub takes, up to `count`."""
    opened: list[Line] = []
    try:
        for _ in range(count):
            try:
                opened.append(await Line.open(arena, receive_buffer=receive_buffer))
            except GONE:
                break
        yield opened
    finally:
        drop(opened)


async def carry_out(attack: Attack | Drill, *arguments: Any) -> Findings:
    """Runs it, and leaves no connection open, whatever it was about to do."""
    try:
        return await attack.run(*arguments)
    finally:
        drop(list(_open))
        await asyncio.sleep(0)


def drop(opened: Iterable[Line]) -> None:
    for line in opened:
        line.drop()
