"""The clients of a campaign: publishers who note what they were told, and consumers of durable
subscriptions. Followers are those of the soak."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from typing import Any

import aiohttp
from websockets.asyncio.client import connect

from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import LIVE, STORED
from benchmarks.soak.wire import LOST, Door, Socket
from faults.cluster.checker import Hearing, Pickup
from faults.cluster.report import Service
from faults.cluster.scene import NodeDoor

ANSWER_SECONDS = 12.0
_TIMEOUT = aiohttp.ClientTimeout(total=ANSWER_SECONDS)


class Publisher:
    """One message at a time: the next goes out when the one before was answered. What was refused,
    or not answered, may have taken effect."""

    def __init__(
        self,
        name: str,
        door: NodeDoor,
        ledger: Ledger,
        service: Service,
        hearing: Hearing,
        per_second: float,
    ) -> None:
        self._name = name
        self._service = service
        self._hearing = hearing
        self._node = door.preferred
        self._leaving = False
        self._door = door
        self._ledger = ledger
        self._pause_seconds = 1 / per_second
        self._numbers = itertools.count(1)
        self._in_flight: str | None = None
        self._channel = ""
        self._begun = 0.0
        self.refusals: list[str] = []

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            try:
                await self._connected(stopping)
            except LOST:
                self._ledger.counts["publishers cut off"] += 1
                self._unsure()
            await asyncio.sleep(random.uniform(0, 0.1))

    def return_home(self) -> None:
        """Connect again: its own node, which was away, may be back."""
        self._leaving = True

    async def _connected(self, stopping: asyncio.Event) -> None:
        self._leaving = False
        async with connect(
            self._door.socket_url,
            compression=None,
            proxy=None,
            ping_interval=None,
            close_timeout=1,
            open_timeout=ANSWER_SECONDS,
        ) as connection:
            socket = Socket(connection)
            while not (stopping.is_set() or self._leaving):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._publish(socket)
                await asyncio.sleep(random.uniform(0, 2) * self._pause_seconds)

    async def _publish(self, socket: Socket) -> None:
        self._in_flight = identifier = f"{self._name}-{next(self._numbers)}"
        stored = random.random() < 0.6
        self._channel = channel = random.choice(STORED if stored else LIVE)
        self._begun = time.monotonic()
        item: dict[str, Any] = {"channel": channel, "payload": {"json": {"id": identifier}}}
        extra = {"store": True} if stored else {}
        await socket.send("Publish", publishes=[{**item, "extra": extra, "reqID": 1}])
        (result,) = (await socket.find("Ack"))["published"]
        if not result["success"]:
            code, message = result["error"]["code"], result["error"]["message"]
            self.refusals.append(f"{self._name} in {channel}: {message}")
            self._ledger.counts[f"refused: {code}"] += 1
            self._unsure()
            await asyncio.sleep(0.02)
            return
        self._in_flight = None
        self._service.worked(self._node, channel, self._begun)
        if stored:
            serial = int(result["channelSerial"])
            self._ledger.acknowledge(channel, identifier, serial)
            self._hearing.told(channel, serial)
        else:
            self._ledger.counts["live publishes acknowledged"] += 1

    def _unsure(self) -> None:
        if self._in_flight is not None:
            self._ledger.uncertain.add(self._in_flight)
            self._service.failed(self._node, self._channel, self._begun)
            self._in_flight = None


class Consumer:
    """Gets and acknowledges what is stored in a channel, through whichever node there is."""

    def __init__(self, pickup: Pickup, door: Door) -> None:
        self.pickup = pickup
        self._door = door
        self._made = False

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            while True:
                try:
                    await self._work(session)
                except LOST:
                    self.pickup.ledger.counts["requests of consumers that failed"] += 1
                    await asyncio.sleep(0.1)

    async def _work(self, session: aiohttp.ClientSession) -> None:
        if not self._made:
            await self._ask(session, "PUT", "?start=first")
            self._made = True
        page = await self._ask(session, "POST", "/get?limit=100&wait=1")
        for message in page["messages"]:
            self.pickup.take(int(message["channelSerial"]), message["payload"]["json"]["id"])
        if page["messages"]:
            serial = self.pickup.serial
            await self._ask(session, "POST", "/ack", {"upTo": str(serial)})
            self.pickup.acknowledged = serial

    async def _ask(
        self, session: aiohttp.ClientSession, method: str, path: str, body: object = None
    ) -> dict[str, Any]:
        topic, name = self.pickup.channel.replace(":", "%3A"), self.pickup.who
        url = f"{self._door.url}/topics/{topic}/subscriptions/{name}{path}"
        async with session.request(method, url, json=body) as answer:
            answer.raise_for_status()
            result: dict[str, Any] = await answer.json()
            return result
