"""Exactly once over ZeroMQ: the hub is killed again and again while answers get lost on the way.
Every put is stored once and in order, and a reader gets each of them."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest
import zmq
import zmq.asyncio

from harness.hub_process import HubProcess
from hubbub.client.zeromq import ZeroMqTopics

pytestmark = pytest.mark.spec("ONCE-02", "ONCE-03", "ONCE-06")
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "topicRules": "topics", "defaultRules": "topics"},
        "rules": {
            "topics": {
                "public": True, "clientPublish": True, "allowAnonymous": True, "store": True,
            }
        },
    }
}  # fmt: skip
LOST = 0.2
"""The share of answers that never arrive."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


async def lossy(front: zmq.asyncio.Socket, back: zmq.asyncio.Socket, chance: random.Random) -> None:
    async def there() -> None:
        while True:
            await back.send_multipart(await front.recv_multipart())

    async def back_again() -> None:
        while True:
            answer = await back.recv_multipart()
            if chance.random() >= LOST:
                await front.send_multipart(answer)

    await asyncio.gather(there(), back_again())


async def campaign(folder: Path, kills: int, seed: int) -> tuple[int, dict[int, int]]:
    """Returns how many puts were answered, and the numbers that the reader got, by serial."""
    chance = random.Random(seed)
    at = f"tcp://127.0.0.1:{free_port()}"
    got: dict[int, int] = {}
    ended = asyncio.Event()
    with zmq.asyncio.Context() as context:
        front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        back.connect(at)
        relay = f"tcp://127.0.0.1:{front.bind_to_random_port('tcp://127.0.0.1')}"
        carrying = asyncio.create_task(lossy(front, back, chance))

        async def write() -> int:
            async with ZeroMqTopics(relay, hub="acme", timeout_seconds=0.5) as client:
                count = 0
                while not ended.is_set():
                    await client.put("orders", {"n": count})
                    count += 1
                return count

        async def read(writing: asyncio.Task[int]) -> None:
            async with ZeroMqTopics(relay, hub="acme", timeout_seconds=1.0) as client:
                while True:
                    last = writing.done()
                    found = await client.get("orders", limit=100, wait_seconds=0.1)
                    for each in found:
                        assert got.setdefault(each.serial, each.data["n"]) == each.data["n"]
                    if found:
                        await client.ack("orders", up_to=found[-1].serial)
                    elif last:
                        return

        async with HubProcess(folder, HUBS, zeromq={"endpoint": at}) as hub:
            await hub.start()
            async with ZeroMqTopics(relay, hub="acme", timeout_seconds=0.5) as client:
                await client.subscribe("orders")
            writing = asyncio.create_task(write())
            reading = asyncio.create_task(read(writing))
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.1, 1.0))
                await hub.kill()
                await hub.start()
            ended.set()
            await asyncio.wait_for(reading, 60)
            count = writing.result()
        carrying.cancel()
        await asyncio.gather(carrying, return_exceptions=True)
        front.close(0)
        back.close(0)
    return count, got


async def prove(folder: Path, kills: int, seed: int) -> None:
    count, got = await campaign(folder, kills, seed)
    assert count > 0
    assert got == {n + 1: n for n in range(count)}


@pytest.mark.timeout(240)
async def test_puts_over_zeromq_are_stored_once_and_in_order_whatever_is_killed_or_lost(
    tmp_path: Path,
) -> None:
    await prove(tmp_path, kills=3, seed=7)


@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_five_hundred_kills_over_zeromq(tmp_path: Path) -> None:
    await prove(tmp_path, kills=500, seed=2026)
