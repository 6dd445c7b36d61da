"""Clients that follow many channels, read everything, and note when something new comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from benchmarks.hub import HUB

_AT_ONCE = 50
_SUBSCRIBING = 3
_PATIENCE_SECONDS = 120.0


class FollowingClient:
    """`resets` counts new epochs that were announced; `closed`, whether the connection ended."""

    def __init__(self, connection: ClientConnection, channels: Sequence[str]) -> None:
        self._connection = connection
        self.channels = channels
        self.subscribed = 0
        self.failure: dict[str, Any] | None = None
        self.resets = 0
        self.last_reset = 0.0
        self.closed = False
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            async for text in self._connection:
                for line in str(text).split("\n"):
                    self._take(json.loads(line))
        except ConnectionClosed:
            pass
        self.closed = True

    def _take(self, envelope: dict[str, Any]) -> None:
        event, payload = envelope["event"], envelope["payload"]
        if event == "Subscribe":
            self.subscribed += len(payload["channels"])
            self.failure = next(iter(payload["failures"]), self.failure)
            self._answers.put_nowait(payload)
        elif event == "Ack":
            self._answers.put_nowait(payload)
        elif event == "ChannelReset":
            self.resets += 1
            self.last_reset = time.monotonic()

    async def _send(self, event: str, **payload: Any) -> dict[str, Any]:
        await self._connection.send(json.dumps({"event": event, "payload": payload}))
        return await asyncio.wait_for(self._answers.get(), _PATIENCE_SECONDS)

    async def subscribe(self) -> None:
        for start in range(0, len(self.channels), _AT_ONCE):
            part = self.channels[start : start + _AT_ONCE]
            await self._send("Subscribe", reqID=1, channels=[{"channel": name} for name in part])

    async def publish(self, channel: str) -> bool:
        """Whether it was accepted."""
        item = {"channel": channel, "payload": {"json": 1}, "reqID": 7}
        answer = await self._send("Publish", publishes=[item])
        return bool(answer["published"][0]["success"])

    async def leave(self) -> None:
        await self._connection.close()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading


@asynccontextmanager
async def clients(
    ports: Sequence[int], count: int, channels: Sequence[str]
) -> AsyncIterator[list[FollowingClient]]:
    """Spread over the nodes; each follows its share of the channels."""
    opened: list[FollowingClient] = []
    try:
        for number in range(count):
            port = ports[number % len(ports)]
            connection = await connect(
                f"ws://127.0.0.1:{port}/v1/hubs/{HUB}/socket",
                compression=None,
                proxy=None,
                ping_interval=None,
                max_size=None,
                close_timeout=1,
            )
            opened.append(FollowingClient(connection, channels[number::count]))
        # Few at a time: what comes later is measured, and not a storm of subscriptions.
        room = asyncio.Semaphore(_SUBSCRIBING)

        async def subscribe(client: FollowingClient) -> None:
            async with room:
                await client.subscribe()

        await asyncio.gather(*(subscribe(client) for client in opened))
        yield opened
    finally:
        await asyncio.gather(*(client.leave() for client in opened))
