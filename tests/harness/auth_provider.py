"""A real auth provider on loopback, which answers as the test wants."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AuthProviderServer:
    """`answer` is called for every request; `requests` remembers them."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.answer: Answer = saying({"success": False})
        self.released = asyncio.Event()
        """Set when the test ends, for answers that hang."""

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((dict(request.headers), await request.read()))
        return await self.answer(request)


def saying(verdict: Any, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(verdict, status=status)

    return answer


def sending(body: bytes, status: int = 200, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers=headers)

    return answer


@asynccontextmanager
async def auth_provider() -> AsyncIterator[AuthProviderServer]:
    provider = AuthProviderServer()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", provider._handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}/verify"
    try:
        yield provider
    finally:
        provider.released.set()
        await runner.cleanup()
