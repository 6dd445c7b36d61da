"""A hub that is killed, and receivers that are away: everything arrives, in order."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness.hub_process import HubProcess
from harness.receivers import ANSWER_SECONDS, Received, Receiver, Reply

HUBS: dict[str, Any] = {
    "acme": {
        "settings": {
            "allowAnonymous": True,
            "defaultRules": "topic",
            "openTopics": True,
            "callbackAddresses": "loopback",
        },
        "rules": {
            "topic": {
                "store": True,
                "storeByDefault": True,
                "public": True,
                "clientPublish": True,
                "allowAnonymous": True,
            }
        },
    }
}
SETTINGS = {"webhooks": {"firstRetry": 0.05, "longestRetry": 0.3, "timeout": 2}}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[HubProcess]:
    async with HubProcess(tmp_path, HUBS, **SETTINGS) as hub:
        await hub.start()
        yield hub


class Publisher:
    """Publishes numbers one after the other, and knows which of them were confirmed."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub
        self.sent = 0
        self.confirmed: list[bytes] = []

    async def send(self, method: str, path: str, **more: Any) -> None:
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{self._hub.port}") as client,
            client.request(method, path, **more) as answer,
        ):
            assert answer.status < 300, await answer.text()

    async def publish(self, count: int) -> None:
        for _ in range(count):
            self.sent += 1
            body = b"%d" % self.sent
            await self.send("POST", "/hub/publish/sports", data=body)
            self.confirmed.append(body)

    async def begin(self, *receivers: Receiver) -> None:
        await self.send("PUT", "/hub/register", data="sports")
        for receiver in receivers:
            wanted = {"address": "127.0.0.1", "port": receiver.port, "topic": "sports"}
            await self.send("PUT", "/hub/subscribe", json=wanted)


def first_arrivals(receiver: Receiver) -> list[bytes]:
    """By message, without repeats."""
    seen: dict[str, bytes] = {}
    for request in receiver.messages:
        seen.setdefault(request.headers["idempotency-key"], request.body)
    return list(seen.values())


async def arrived(receiver: Receiver, count: int) -> None:
    await receiver.until(lambda: len(first_arrivals(receiver)) >= count)


async def acknowledged(hub: HubProcess, serial: int) -> None:
    """Wait until every place on disk is there."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while True:
            with contextlib.closing(sqlite3.connect(hub.data / "hubbub.db")) as database:
                ((floor,),) = database.execute("SELECT min(floor) FROM cursors").fetchall()
            if floor is not None and floor >= serial:
                return
            await asyncio.sleep(0.01)


@pytest.mark.spec("WEB-02", "WEB-04")
async def test_a_hub_killed_between_publish_and_delivery_delivers_after_its_restart(
    hub: HubProcess,
) -> None:
    """The receiver answers nothing while the hub lives: all is confirmed, nothing is delivered."""
    hold = True

    async def respond(request: Received) -> Reply:
        if hold:
            await asyncio.Event().wait()
        return 200

    async with Receiver(respond) as receiver:
        publisher = Publisher(hub)
        await publisher.begin(receiver)
        await publisher.publish(50)
        await receiver.got(1)
        await hub.kill()
        hold = False
        receiver.received.clear()
        await hub.start()
        await arrived(receiver, 50)
        assert first_arrivals(receiver) == publisher.confirmed
        await publisher.publish(5)
        await arrived(receiver, 55)
        assert first_arrivals(receiver) == publisher.confirmed


@pytest.mark.spec("WEB-02", "WEB-04")
async def test_kills_and_pauses_lose_nothing_and_change_no_order(hub: HubProcess) -> None:
    """The hub is killed again and again while it delivers; one receiver is away now and then."""
    chance = random.Random(7)
    async with Receiver() as steady:
        shaky = Receiver()
        await shaky.start()
        publisher = Publisher(hub)
        await publisher.begin(steady, shaky)
        for _ in range(4):
            await publisher.publish(chance.randrange(10, 30))
            await shaky.stop()
            await publisher.publish(chance.randrange(5, 15))
            await hub.kill()
            await hub.start()
            await shaky.start()
            await publisher.publish(chance.randrange(1, 10))
        for receiver in (steady, shaky):
            await arrived(receiver, len(publisher.confirmed))
            assert first_arrivals(receiver) == publisher.confirmed
        await shaky.stop()


@pytest.mark.spec("WEB-04")
async def test_what_was_delivered_long_before_a_kill_does_not_come_again(hub: HubProcess) -> None:
    async with Receiver() as receiver:
        publisher = Publisher(hub)
        await publisher.begin(receiver)
        await publisher.publish(20)
        await receiver.got(20)
        await acknowledged(hub, 20)
        await hub.kill()
        receiver.received.clear()
        await hub.start()
        await publisher.publish(1)
        await receiver.got(1)
        assert receiver.bodies == [b"21"]
