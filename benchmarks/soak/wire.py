"""A WebSocket client and an SSE reader, as plain as they can be."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from typing import Any, Protocol

import aiohttp
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

LOST = (OSError, WebSocketException, aiohttp.ClientError, TimeoutError, EOFError)
"""What a client sees of a hub that goes away."""
ANSWER_SECONDS = 20.0


class Door(Protocol):
    """Where clients connect. `available` is set while they may."""

    @property
    def available(self) -> asyncio.Event: ...

    @property
    def url(self) -> str: ...

    @property
    def socket_url(self) -> str: ...


class Socket:
    """Envelopes in JSON over one connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._backlog: list[dict[str, Any]] = []

    async def send(self, event: str, **payload: Any) -> None:
        await self._connection.send(json.dumps({"event": event, "payload": payload}))

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The next envelope; heartbeats are answered."""
        while True:
            while not self._backlog:
                text = await self._connection.recv()
                self._backlog = [json.loads(line) for line in str(text).split("\n")][::-1]
            envelope = self._backlog.pop()
            if envelope["event"] != "Ping":
                return envelope["event"], envelope["payload"]
            await self.send("Pong")

    async def find(self, event: str) -> dict[str, Any]:
        """The next envelope of this kind."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                name, payload = await self.next()
                if name == event:
                    return payload

    async def subscribe(self, *wanted: dict[str, Any]) -> dict[str, Any]:
        await self.send("Subscribe", reqID=1, channels=list(wanted))
        return await self.find("Subscribe")

    async def leave(self) -> None:
        """Politely, or as if the network had gone."""
        if random.random() < 0.5:
            await self._connection.close()
        else:
            self._connection.transport.abort()


async def open_socket(hub: Door, token: str | None = None) -> Socket:
    await hub.available.wait()
    headers = {"Authorization": f"Bearer {token}"} if token else None
    connection = await connect(
        hub.socket_url,
        compression=None,
        proxy=None,
        additional_headers=headers,
        ping_interval=None,
        close_timeout=1,
    )
    return Socket(connection)


async def read_events(
    session: aiohttp.ClientSession, hub: Door, channel: str, last_id: str
) -> AsyncIterator[tuple[str, str, dict[str, Any]]]:
    """Id, name and data of each event of an SSE stream. Ends when the hub ends it."""
    await hub.available.wait()
    headers = {"Last-Event-ID": last_id} if last_id else {}
    async with session.get(
        f"{hub.url}/events", params={"channel": channel}, headers=headers
    ) as answer:
        answer.raise_for_status()
        identifier, name, data = "", "", ""
        async for raw in answer.content:
            line = raw.decode().rstrip("\n")
            field, _, value = line.partition(": ")
            if not line:
                if data:
                    yield identifier, name, json.loads(data)
                name, data = "", ""
            elif field == "id":
                identifier = value
            elif field == "event":
                name = value
            elif field == "data":
                data = value
