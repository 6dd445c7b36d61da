"""Serves the admin API: limits the number and duration of its requests.

A change is never interrupted: it continues when its client disconnects. A question ends with its
client, so that nobody works or waits for an answer that is not read. What takes too long is
cancelled."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Protocol
from urllib.parse import unquote_to_bytes

import msgspec

from hubbub.domain.errors import Internal, Overloaded, Timeout
from hubbub.domain.shares import FairShare
from hubbub.gateways.exchange import HttpExchange
from hubbub.gateways.http import ReceivedRequest
from hubbub.tasks import TaskSet

MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_UNDER_WAY = 100
_QUESTIONS = (b"GET", b"HEAD")
_HUB = re.compile(rb"/v1/(?:admin/)?hubs/([^/?]+)")


class Response(msgspec.Struct, frozen=True):
    """`headers` are complete lines."""

    status: int
    body: bytes
    headers: str


class Application(Protocol):
    async def respond(self, request: ReceivedRequest) -> Response:
        """Raises `HubbubError`."""


class AdminDoor:
    """Runs one application for all connections of a listener."""

    def __init__(
        self,
        make: Callable[[], Application],
        timeout_seconds: float = 30.0,
        max_under_way: int = MAX_UNDER_WAY,
    ) -> None:
        """`make` is called at the first request, so that a hub without administration does not
        create the application."""
        self._make = make
        self._application: Application | None = None
        self._timeout_seconds = timeout_seconds
        self._share = FairShare(max_under_way)
        self._under_way = TaskSet()

    def handle(self, request: ReceivedRequest, exchange: HttpExchange) -> None:
        """Raises `Overloaded` if too many requests are in progress; one hub's requests leave room
        for others and for requests without a hub."""
        tenant = _tenant_of(request.url)
        if not self._share.may_take(tenant):
            raise Overloaded("too many requests of this kind are under way; try again in a second")
        if self._application is None:
            self._application = self._make()
        # One task, whether or not the client stays: each task more would take turns of the loop.
        work = self._respond(self._application, request, exchange)
        task = self._under_way.start(exchange.guard(work))
        if request.method in _QUESTIONS:
            exchange.connection.ends_with_client(task)
        self._share.take(tenant)

        def ended(_: asyncio.Task[None]) -> None:
            self._share.give_back(tenant)
            work.close()  # where the client left before it began

        task.add_done_callback(ended)

    async def settle(self) -> None:
        """Waits for requests in progress."""
        await self._under_way.settle_so_far(self._timeout_seconds)

    async def _respond(
        self, application: Application, request: ReceivedRequest, exchange: HttpExchange
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                response = await application.respond(request)
        except TimeoutError:
            raise Timeout(f"the request took more than {self._timeout_seconds:g} s") from None
        if len(response.body) > MAX_ANSWER_BYTES:
            raise Internal(f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        exchange.answer(response.status, response.body, headers=response.headers)


def _tenant_of(url: bytes) -> str:
    found = _HUB.match(url)
    return unquote_to_bytes(found.group(1)).decode("latin-1") if found else ""
