"""Nodes that join, leave, die and are cut off at random, under load, on a network that misbehaves.

A checker knows what was acknowledged and what each subscriber heard: nothing acknowledged is lost
or doubled, every publisher's messages keep their order, and a gap is always announced.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import msgspec
import pytest

from harness.engine import FakeConnection, publish
from harness.moving import MovingCluster
from harness.running_hub import OPEN, open_hub
from harness.unreliable import Faults
from hubbub.domain.notices import ChannelReset, MessageDelivery, Published

pytestmark = pytest.mark.spec("CLU-02", "CLU-04")

STORED = msgspec.structs.replace(OPEN, live_history=False, store=True)
LIVE = msgspec.structs.replace(OPEN, live_history=False)
ANCHOR = "anchor"
"""The node of the subscribers and publishers: it stays, everything around it changes."""
CHANNELS = 6


class Publisher:
    """Publishes numbers to one channel, one after the other, and knows which were acknowledged."""

    def __init__(self, connection: FakeConnection, channel: str, name: int) -> None:
        self._connection = connection
        self.channel = channel
        self.name = name
        self.acknowledged: list[int] = []
        self.failed = 0

    async def run(self, ending: asyncio.Event) -> None:
        number = 0
        while not ending.is_set():
            number += 1
            payload = b"%d" % (self.name * 1_000_000 + number)
            publish(self._connection, self.channel, payload, req_id=number, store=True)
            answer = await self._connection.next(Published, number)
            if answer.results[0].error is None:
                self.acknowledged.append(int(payload))
            else:
                self.failed += 1
            await asyncio.sleep(0.002)


async def shake(cluster: MovingCluster, chance: random.Random, rounds: int) -> None:
    """Have nodes come and go."""
    number = 0
    for _ in range(rounds):
        others = [name for name in cluster.nodes if name != ANCHOR]
        what = chance.choice(["join", "leave", "kill", "cut"]) if len(others) > 1 else "join"
        if what == "join":
            number += 1
            node = await cluster.join(f"node-{number}")
            await node.directory.load()
        elif what == "leave":
            await cluster.leave(chance.choice(others))
        elif what == "kill":
            await cluster.kill(chance.choice(others))
        else:
            await cut_off_for_a_while(cluster, chance.choice(others))
        await asyncio.sleep(chance.random() * 0.1)
    await cluster.settled()


async def cut_off_for_a_while(cluster: MovingCluster, name: str) -> None:
    for other in cluster.nodes.keys() - {name}:
        cluster.network.cut |= {(name, other), (other, name)}
    await asyncio.sleep(0.5)
    cluster.network.cut.clear()
    await cluster.settled()


def check(subscriber: FakeConnection, publishers: list[Publisher], stored: bool) -> None:
    for publisher in publishers:
        channel = publisher.channel
        heard = [int(message.payload) for message in subscriber.deliveries(channel)]
        own = [number for number in heard if number // 1_000_000 == publisher.name]
        assert len(heard) == len(set(heard)), f"something of {channel} came twice"
        assert own == sorted(own), f"the order of {channel} is broken"
        if stored:
            lost = set(publisher.acknowledged) - set(own)
            assert not lost, f"of {channel}, {sorted(lost)} were acknowledged and are lost"
        check_gaps(subscriber, channel)


def check_gaps(subscriber: FakeConnection, channel: str) -> None:
    position = 0
    for notice in subscriber.heard:
        if isinstance(notice, ChannelReset) and notice.channel == channel:
            position = notice.serial
        elif isinstance(notice, MessageDelivery) and notice.message.channel == channel:
            assert notice.message.serial == position + 1, f"a gap in {channel} was hidden"
            position += 1


async def campaign(path: Path, seed: int, rounds: int, stored: bool) -> None:
    chance = random.Random(seed)
    faults = Faults(lost=0.02, doubled=0.05, longest_delay_seconds=0.003)
    hub = open_hub(rules=STORED if stored else LIVE)
    names = (ANCHOR, "node-a", "node-b")
    async with MovingCluster(
        path, names, hubs=[hub], seed=seed, faults=faults, silence_seconds=0.4
    ) as cluster:
        channels = [f"channel-{number}" for number in range(CHANNELS)]
        anchor = cluster.nodes[ANCHOR]
        subscriber = await anchor.subscribe(*channels)
        publishers = [
            Publisher(anchor.connect(), channel, place)
            for place, channel in enumerate([*channels, *channels], 1)
        ]
        ending = asyncio.Event()
        publishing = [asyncio.ensure_future(each.run(ending)) for each in publishers]
        await shake(cluster, chance, rounds)
        ending.set()
        await asyncio.gather(*publishing)
        if stored:
            await subscriber.until(lambda: arrived(subscriber, publishers))
        check(subscriber, publishers, stored)
        total = sum(len(each.acknowledged) for each in publishers)
        failed = sum(each.failed for each in publishers)
        print(f"seed {seed}: {total} acknowledged, {failed} failed")
        assert total > rounds


def arrived(subscriber: FakeConnection, publishers: list[Publisher]) -> bool:
    heard: dict[str, set[int]] = {}
    for each in publishers:
        if each.channel not in heard:
            heard[each.channel] = {int(m.payload) for m in subscriber.deliveries(each.channel)}
        if not set(each.acknowledged) <= heard[each.channel]:
            return False
    return True


@pytest.mark.parametrize("stored", [True, False])
async def test_a_short_campaign_of_moves_loses_and_doubles_nothing(
    tmp_path: Path, stored: bool
) -> None:
    await campaign(tmp_path, 1, 4, stored)


@pytest.mark.long
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("seed", range(2, 22))
async def test_long_campaigns_of_moves(tmp_path: Path, seed: int, stored: bool) -> None:
    await campaign(tmp_path, seed, 15, stored)
