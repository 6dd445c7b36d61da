"""Receivers of webhooks on loopback: they note down what came and answer as they are told."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import msgspec

ANSWER_SECONDS = 20.0


class Received(msgspec.Struct, frozen=True):
    """A request; header names are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        fields = parse_qs(urlsplit(self.target).query, keep_blank_values=True)
        return {name: values[-1] for name, values in fields.items()}


Reply = int | bytes
"""A status, or the bytes of the whole answer."""
Respond = Callable[[Received], Reply | Awaitable[Reply]]


def whole_answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines = [f"HTTP/1.1 {status} X", *lines, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def confirm(request: Received) -> Reply:
    """Says yes to what a hub asks, and takes every message."""
    challenge = request.query.get("hub.challenge")
    return whole_answer(200, challenge.encode()) if challenge is not None else 200


class Receiver:
    """A server at a free port, or at one that was free before."""

    def __init__(self, respond: Respond | None = None, port: int = 0) -> None:
        self.respond = respond or confirm
        self.received: list[Received] = []
        self.connections = 0
        self.port = port
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def messages(self) -> list[Received]:
        return [request for request in self.received if request.method == "POST"]

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.messages]

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until what came makes the condition true."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def got(self, count: int) -> list[Received]:
        """Wait for so many messages."""
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            while True:
                request = await _read(reader)
                self.received.append(request)
                self._changed.set()
                reply = self.respond(request)
                if not isinstance(reply, int | bytes):
                    reply = await reply
                writer.write(whole_answer(reply) if isinstance(reply, int) else reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")[:-2]
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    method, target, _ = first.split(" ")
    return Received(method, target, headers, body)
