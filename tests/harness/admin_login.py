"""The login of an organisation, to which the hub delegates that of its administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class AdminUrl:
    """Stands for the organisation's own login."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.answer = b'{"success": true, "userID": "olga"}'
        self.status = 200

    async def handle(self, request: web.Request) -> web.Response:
        self.received.append(await request.read())
        return web.Response(status=self.status, body=self.answer, content_type="application/json")


@asynccontextmanager
async def serving_logins() -> AsyncIterator[tuple[AdminUrl, str]]:
    login = AdminUrl()
    app = web.Application()
    app.router.add_post("/login", login.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield login, f"http://127.0.0.1:{port}/login"
    await runner.cleanup()
