"""Nodes in processes of their own that are killed, frozen, stopped, and cut off from NATS."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from harness.cluster import (
    Crowd,
    Ground,
    NodeProcess,
    channel_of,
    eventually,
    node_processes,
)
from harness.running_hub import Socket

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("CLU-04")]

NAMES = ("east", "north", "west")
HUBS: dict[str, Any] = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {
            "kept": {"public": True, "clientPublish": True, "allowAnonymous": True, "store": True},
            "room": {
                "public": True,
                "clientPublish": True,
                "allowAnonymous": True,
                "presence": True,
                "occupancy": True,
            },
        },
        "namespaces": {"room": "room"},
    }
}
Nodes = dict[str, NodeProcess]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(on: Ground, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Nodes]:
    async with node_processes(tmp_path_factory.mktemp("nodes"), on, HUBS, *NAMES) as nodes:
        yield nodes


class Log:
    """What one subscriber hears of a channel, in order."""

    def __init__(self, socket: Socket, channel: str) -> None:
        self.socket = socket
        self.channel = channel
        self.numbers: list[int] = []
        self.serials: list[int] = []
        self.resets = 0

    async def until(self, number: int) -> None:
        while number not in self.numbers:
            envelope = await self.socket.next()
            payload = envelope["payload"]
            if envelope["event"] == "Publish" and payload["channel"] == self.channel:
                self.numbers.append(payload["payload"]["json"])
                self.serials.append(int(payload["channelSerial"]))
            elif envelope["event"] == "ChannelReset":
                self.resets += 1


async def put(socket: Socket, channel: str, number: int) -> bool:
    """Whether it was acknowledged."""
    result = await socket.publish(channel, {"json": number}, store=True)
    return bool(result["success"])


async def settled(nodes: Nodes, *names: str) -> None:
    """Wait until these nodes serve all channels."""
    for name in names:
        socket = await nodes[name].socket()
        for owner in NAMES:
            probe = channel_of(owner, NAMES, "probe")

            async def served(probe: str = probe, socket: Socket = socket) -> bool:
                return await put(socket, probe, 0)

            await eventually(served)


async def test_a_killed_owner_is_replaced_and_nothing_acknowledged_is_lost(
    nodes: Nodes,
) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("west", NAMES, "kill")
    far = Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    speaker = await nodes["north"].socket()
    acknowledged = [number for number in range(20) if await put(speaker, channel, number)]
    assert acknowledged == list(range(20))
    nodes["west"].signal(signal.SIGKILL)
    attempts = iter(range(20, 10_000))

    async def accepted() -> bool:
        number = next(attempts)
        done = await put(speaker, channel, number)
        if done:
            acknowledged.append(number)
        return done

    away = await eventually(accepted)
    print(f"served again after {away * 1000:.0f} ms")
    await nodes["west"].ended()
    await far.until(acknowledged[-1])
    assert set(acknowledged) <= set(far.numbers)
    assert len(far.numbers) == len(set(far.numbers)), "nothing twice"
    assert far.serials == list(range(1, len(far.serials) + 1)), "and no gap"
    await nodes["west"].start()


async def test_presence_forgets_who_was_connected_to_a_killed_node(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    for owner in ("north", "west"):
        room = channel_of(owner, NAMES, f"room:{owner}")
        watcher, doomed = await nodes["east"].socket(), await nodes["west"].socket()
        await watcher.subscribe(room)
        await doomed.subscribe(room)
        crowd = Crowd(watcher)
        await crowd.until(lambda c: len(c.present) == 2 and c.count == 2)
        nodes["west"].signal(signal.SIGKILL)
        await nodes["west"].ended()
        await crowd.until(lambda c: len(c.present) == 1 and c.count == 1)
        await nodes["west"].start()
        await settled(nodes, *NAMES)


async def test_a_frozen_owner_is_replaced_and_cannot_write_when_it_wakes(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("west", NAMES, "freeze")
    stale, far = await nodes["west"].socket(), Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    speaker = await nodes["north"].socket()
    assert await put(speaker, channel, 1)
    nodes["west"].signal(signal.SIGSTOP)
    number = 1

    async def accepted() -> bool:
        nonlocal number
        number += 1
        return await put(speaker, channel, number)

    away = await eventually(accepted)
    print(f"served again after {away * 1000:.0f} ms")
    nodes["west"].signal(signal.SIGCONT)
    last = 1000

    async def accepted_by_the_woken() -> bool:
        nonlocal last
        last += 1
        return await put(stale, channel, last)

    await eventually(accepted_by_the_woken)
    await far.until(last)
    assert far.serials == list(range(1, len(far.serials) + 1))
    assert len(far.numbers) == len(set(far.numbers))


@pytest.mark.spec("CLU-05")
async def test_a_stopped_node_hands_over_first_and_no_publish_fails(nodes: Nodes) -> None:
    await settled(nodes, *NAMES)
    channel = channel_of("north", NAMES, "stop")
    speaker, guest = await nodes["west"].socket(), await nodes["north"].socket()
    assert await put(speaker, channel, 0)  # an empty channel has no epoch that could be kept
    far = Log(await nodes["east"].socket(), channel)
    await far.socket.subscribe(channel)
    ending = asyncio.Event()

    async def publish_on() -> int:
        number = 0
        while not ending.is_set():
            number += 1
            assert await put(speaker, channel, number)
        return number

    publishing = asyncio.ensure_future(publish_on())
    await far.until(5)
    nodes["north"].signal(signal.SIGTERM)
    assert await nodes["north"].ended() == 0
    ending.set()
    last = await publishing
    await far.until(last)
    assert far.numbers == list(range(1, last + 1))
    assert far.resets == 0
    code, _ = await guest.closed()
    assert code == 1001, "going away: connect again"
    await nodes["north"].start()


@pytest.mark.spec("CLU-01")
async def test_without_nats_a_node_serves_its_own_channels_and_afterwards_all_goes_on(
    nodes: Nodes, on: Ground
) -> None:
    near, far = channel_of("east", NAMES, "alone"), channel_of("west", NAMES, "alone")

    async def cut_off_with_its_own() -> bool:
        """On a busy machine a channel may just be under way to another node."""
        await settled(nodes, *NAMES)
        await on.nats.kill()
        if await put(socket, near, 1):
            return True
        await on.nats.start()
        return False

    socket = await nodes["east"].socket()
    await eventually(cut_off_with_its_own)
    result = await socket.publish(far, {"json": 1}, store=True)
    assert not result["success"]
    assert result["error"]["code"] == "unavailable"
    assert result["error"]["retry"]
    await on.nats.start()

    async def accepted() -> bool:
        try:
            return await put(await nodes["east"].socket(), far, 2)
        except TimeoutError:
            return False

    await eventually(accepted, 30)
    assert await put(socket, near, 2), "the connection was kept all the time"
