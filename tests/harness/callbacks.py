"""A receiver of webhooks that hands out what it was sent, one request after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Self

from harness.receivers import Received, Receiver, Respond

PATIENCE_SECONDS = 10.0


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(0.005)


class Callbacks(Receiver):
    """Use it with `async with`. It confirms every subscription and takes every message, unless
    `respond` says something else; that may be replaced at any time."""

    def __init__(self, respond: Respond | None = None, port: int = 0) -> None:
        super().__init__(respond, port)
        self._read = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    def at(self, path: str = "/") -> str:
        return f"{self.url}{path}"

    async def next(self) -> Received:
        """The next request that the test has not seen."""
        await self.until(lambda: len(self.received) > self._read)
        self._read += 1
        return self.received[self._read - 1]
