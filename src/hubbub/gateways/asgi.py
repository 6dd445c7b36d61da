"""Lets an ordinary ASGI application answer requests that came in through the hub's listener.

Requests are whole and bounded before the application sees them; answers are collected, bounded,
and sent as one. A client that goes away is reported to the application, which may finish what it
began: an administrative change is never cut in half. One that takes too long is cancelled.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any
from urllib.parse import unquote_to_bytes

from hubbub.domain.errors import Internal, Overloaded, Timeout
from hubbub.domain.shares import FairShare
from hubbub.gateways.http import Request
from hubbub.gateways.http_connection import Exchange

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_UNDER_WAY = 100
_HUB = re.compile(rb"/v1/(?:admin/)?hubs/([^/?]+)")


class AsgiBridge:
    """Runs one application for all connections of a listener."""

    def __init__(
        self,
        make: Callable[[], Application],
        timeout_seconds: float = 30.0,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        """`make` is called at the first request: a hub that is never administered does not pay for
        the application."""
        self._make = make
        self._application: Application | None = None
        self._timeout_seconds = timeout_seconds
        self._share = FairShare(max_under_way)
        self._under_way: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, exchange: Exchange, client: tuple[str, str]) -> None:
        """`client`: its address and scheme. Raises `Overloaded` rather than let requests pile up:
        those of one hub leave room for others, and for those of no hub."""
        tenant = _tenant_of(request.url)
        if not self._share.may_take(tenant):
            raise Overloaded("too many requests of this kind are under way; try again in a second")
        if self._application is None:
            self._application = self._make()
        call = _Call(request, exchange, client)
        task = asyncio.get_running_loop().create_task(self._run(self._application, call))
        self._under_way.add(task)
        self._share.take(tenant)
        task.add_done_callback(partial(self._ended, tenant))
        exchange.run(_watch(task, call))

    def _ended(self, tenant: str, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._share.give_back(tenant)

    async def settle(self) -> None:
        """Let what is under way come to its end."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self._timeout_seconds)

    async def _run(self, application: Application, call: _Call) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await application(call.scope, call.receive, call.send)
        except TimeoutError:
            raise Timeout(f"the request took more than {self._timeout_seconds:g} s") from None
        if not call.complete:
            raise Internal("the request was not answered")


def _tenant_of(url: bytes) -> str:
    found = _HUB.match(url)
    return unquote_to_bytes(found.group(1)).decode("latin-1") if found else ""


async def _watch(task: asyncio.Task[None], call: _Call) -> None:
    """Waits for the answer; cancelled when the client goes away, which leaves the task alone."""
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        call.gone.set()
        raise


class _Call:
    """One request and its answer, as ASGI has it."""

    def __init__(self, request: Request, exchange: Exchange, client: tuple[str, str]) -> None:
        self.complete = False
        self.gone = asyncio.Event()
        self._exchange = exchange
        self._body: bytes | None = request.body
        self._status = 0
        self._headers = ""
        self._content_type = "application/octet-stream"
        self._chunks: list[bytes] = []
        self._size = 0
        path, _, query = request.url.partition(b"?")
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": request.method.decode("latin-1"),
            "scheme": client[1],
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers.items()),
            "client": (client[0], 0),
        }

    async def receive(self) -> Message:
        if self._body is None:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start(message)
            return
        self._chunks.append(bytes(message.get("body", b"")))
        self._size += len(self._chunks[-1])
        if self._size > MAX_ANSWER_BYTES:
            raise Internal(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if not message.get("more_body", False):
            self.complete = True
            body = b"".join(self._chunks)
            self._exchange.answer(self._status, body, self._content_type, self._headers)

    def _start(self, message: Message) -> None:
        self._status = int(message["status"])
        lines = []
        for name, value in message.get("headers", ()):
            if name.lower() == b"content-type":
                self._content_type = value.decode("latin-1")
            elif name.lower() not in (b"content-length", b"connection", b"transfer-encoding"):
                lines.append(f"{name.decode('latin-1')}: {value.decode('latin-1')}\r\n")
        self._headers = "".join(lines)
