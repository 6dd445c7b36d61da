"""Publishers: stored and live messages over WebSocket and HTTP, and retained states."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import aiohttp

from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import LIVE, STORED
from benchmarks.soak.wire import ANSWER_SECONDS, LOST, Socket, open_socket


class Refused(Exception):
    """The hub answered, and not with success."""


class Publisher:
    """One at a time: the next message goes out when the one before was answered."""

    def __init__(
        self, name: str, hub: Hub, ledger: Ledger, by_socket: bool, per_second: float
    ) -> None:
        self._name = name
        self._hub = hub
        self._ledger = ledger
        self._by_socket = by_socket
        self._interval_seconds = 1 / per_second
        self._numbers = itertools.count(1)
        self._states = itertools.count(1)
        self._in_flight: str | None = None

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                await (self._over_socket(stopping) if self._by_socket else self._post(stopping))
            except Refused as error:
                if self._hub.available.is_set():
                    self._ledger.problem(f"{self._name}: {error}")
            except TimeoutError:
                self._ledger.problem(f"{self._name}: no answer within {ANSWER_SECONDS:g} seconds")
            except LOST:
                self._ledger.counts["publishers cut off"] += 1
            if self._in_flight is not None:
                self._ledger.uncertain.add(self._in_flight)
                self._in_flight = None
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _over_socket(self, stopping: asyncio.Event) -> None:
        socket = await open_socket(self._hub)
        try:
            while not stopping.is_set():
                channel, value, extra = self._next()
                await self._publish(socket, channel, value, extra)
                await self._pause()
        finally:
            await socket.leave()

    async def _publish(
        self, socket: Socket, channel: str, value: dict[str, Any], extra: dict[str, bool]
    ) -> None:
        item = {"channel": channel, "payload": {"json": value}, "extra": extra, "reqID": 1}
        await socket.send("Publish", publishes=[item])
        (result,) = (await socket.find("Ack"))["published"]
        if not result["success"]:
            raise Refused(str(result["error"]))
        self._acknowledged(channel, value, result)

    async def _post(self, stopping: asyncio.Event) -> None:
        await self._hub.available.wait()
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while not stopping.is_set():
                channel, value, extra = self._next()
                query = dict.fromkeys(extra, "true")
                url = f"{self._hub.url}/channels/{channel}/messages"
                async with session.post(url, params=query, json=value) as answer:
                    if answer.status != 200:
                        raise Refused(f"{answer.status} {await answer.text()}")
                    self._acknowledged(channel, value, await answer.json())
                await self._pause()

    def _next(self) -> tuple[str, dict[str, Any], dict[str, bool]]:
        identifier = f"{self._name}-{next(self._numbers)}"
        kind = random.random()
        self._in_flight = identifier
        if kind < 0.45:
            return random.choice(STORED), {"id": identifier, "pad": "x" * 100}, {"store": True}
        if kind < 0.9:
            return random.choice(LIVE), {"id": identifier, "pad": "x" * 100}, {}
        number = next(self._states)
        return self._own_state, {"id": identifier, "value": number}, {"retain": True}

    @property
    def _own_state(self) -> str:
        """One writer for each state, so that its values rise."""
        return f"state:{self._name}"

    def _acknowledged(self, channel: str, value: dict[str, Any], result: dict[str, Any]) -> None:
        self._in_flight = None
        self._ledger.counts["publishes answered"] += 1
        if channel in STORED:
            self._ledger.acknowledge(channel, value["id"], int(result["channelSerial"]))
        elif channel == self._own_state:
            self._ledger.states[channel] = value["value"]

    async def _pause(self) -> None:
        await asyncio.sleep(random.uniform(0, 2) * self._interval_seconds)
