"""A receiver of webhooks that shows what it was sent and answers what the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Self

import msgspec
from aiohttp import web

PATIENCE_SECONDS = 10.0


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.005)


class Received(msgspec.Struct, frozen=True):
    """A request of the hub; header names are in lower case."""

    method: str
    target: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Reply(msgspec.Struct, frozen=True):
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}


def obedient(request: Received) -> Reply:
    """Confirms every subscription and takes every message."""
    return Reply(body=request.query.get("hub.challenge", "").encode())


class Callbacks:
    """Use it with `async with`; it listens on any port of this machine. `answer` may be replaced
    at any time."""

    def __init__(self, answer: Callable[[Received], Reply] = obedient) -> None:
        self.answer = answer
        self.requests: list[Received] = []
        self.port = 0
        self._came = asyncio.Condition()
        self._read = 0

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=10_000_000)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def _handle(self, request: web.Request) -> web.Response:
        received = Received(
            request.method,
            request.path_qs,
            dict(request.query),
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
        )
        reply = self.answer(received)
        async with self._came:
            self.requests.append(received)
            self._came.notify_all()
        return web.Response(status=reply.status, body=reply.body, headers=dict(reply.headers))

    async def next(self) -> Received:
        """The next request that the test has not seen."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._came:
            await self._came.wait_for(lambda: len(self.requests) > self._read)
        self._read += 1
        return self.requests[self._read - 1]
