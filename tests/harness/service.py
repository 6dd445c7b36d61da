"""A real service on loopback, which answers the hub's calls as the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServiceServer:
    """`answer` is called for every request; `calls` remembers headers and bodies."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[dict[str, str], bytes]] = []
        self.answer: Answer = echo
        self.released = asyncio.Event()
        """Set by the test, or at its end: hanging calls continue."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append((dict(request.headers), await request.read()))
        return await self.answer(request)

    async def hang(self, request: web.Request) -> web.StreamResponse:
        await self.released.wait()
        return await echo(request)


async def echo(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Type": request.headers["Content-Type"]}
    return web.Response(body=await request.read(), headers=headers)


def saying(status: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers=headers)

    return answer


@asynccontextmanager
async def running_service() -> AsyncIterator[ServiceServer]:
    service = ServiceServer()
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", service._handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/calls"
    try:
        yield service
    finally:
        service.released.set()
        await runner.cleanup()
