"""Visitors: clients that come, look around, say something and go, politely or not."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp

from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import GATED, LIVE, STORED
from benchmarks.soak.wire import LOST, Socket, open_socket, read_events

_MOST_AT_ONCE = 60


class Visitors:
    def __init__(self, hub: Hub, ledger: Ledger, tokens: list[str], per_second: float) -> None:
        self._hub = hub
        self._ledger = ledger
        self._tokens = tokens
        self._interval_seconds = 1 / per_second
        self._present: set[asyncio.Task[None]] = set()

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await asyncio.sleep(random.uniform(0, 2) * self._interval_seconds)
            if len(self._present) < _MOST_AT_ONCE:
                visit = random.choice((self._look_around, self._come_back, self._listen))
                task = asyncio.create_task(self._received(visit()))
                self._present.add(task)
                task.add_done_callback(self._present.discard)
        if self._present:
            await asyncio.wait(self._present)

    async def _received(self, visit: Any) -> None:
        try:
            async with asyncio.timeout(30):
                await visit
        except TimeoutError:
            if self._hub.available.is_set():
                self._ledger.problem("a visitor waited for 30 seconds")
        except LOST:
            self._ledger.counts["visitors cut off"] += 1
        else:
            self._ledger.counts["visits"] += 1

    async def _look_around(self) -> None:
        """Subscribe here and there, check the retained state, publish where nobody else is."""
        promised = dict(self._ledger.states)
        socket = await open_socket(self._hub)
        try:
            await socket.find("SessionInfo")
            if promised:
                await self._check_state(socket, *random.choice(list(promised.items())))
            place = f"crowd:{random.randrange(100_000)}"
            wanted = (random.choice(STORED), random.choice(LIVE), random.choice(GATED), place)
            await socket.subscribe(*({"channel": channel} for channel in wanted))
            said = {"channel": place, "payload": {"text": "hello"}, "reqID": 2}
            await socket.send("Publish", publishes=[said])
            await socket.find("Ack")
            await asyncio.sleep(random.uniform(0, 3))
        finally:
            await socket.leave()

    async def _check_state(self, socket: Socket, channel: str, at_least: int) -> None:
        await socket.subscribe({"channel": channel})
        message = await socket.find("Publish")
        value = message["payload"]["json"]["value"]
        self._ledger.counts["retained states checked"] += 1
        if value < at_least:
            self._ledger.problem(f"{channel} holds {value}, but {at_least} was acknowledged")

    async def _come_back(self) -> None:
        """Authenticate, lose the connection, and restore the session."""
        socket = await open_socket(self._hub, random.choice(self._tokens))
        try:
            key = (await socket.find("SessionRestore"))["restoreKey"]
            await socket.subscribe({"channel": random.choice(STORED)})
            life = self._hub.lives
        finally:
            await socket.leave()
        socket = await open_socket(self._hub)
        try:
            await socket.send("SessionRestore", reqID=1, restoreKey=key)
            while (answer := await socket.next())[0] not in ("SessionRestored", "Error"):
                pass
            if answer[0] == "SessionRestored":
                self._ledger.counts["sessions restored"] += 1
                await socket.find("SessionRestore")
                await socket.send("Ping")  # spends the old key
                await socket.find("Pong")
            elif life == self._hub.lives and self._hub.available.is_set():
                self._ledger.problem(f"a session was not restored: {answer[1]}")
        finally:
            await socket.leave()

    async def _listen(self) -> None:
        """A stream of a place that changes its rules."""
        async with aiohttp.ClientSession() as session:
            events = read_events(session, self._hub, random.choice(GATED), "")
            try:
                async with asyncio.timeout(random.uniform(0.1, 3)):
                    async for _ in events:
                        pass
            except TimeoutError:
                pass
            except aiohttp.ClientResponseError as error:
                if error.status != 403:
                    raise
