"""Two nodes on a network that misbehaves: what their clients see is as good as on one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.engine import Cluster, FakeConnection, publish, receive, subscribe
from harness.running_hub import OPEN, open_hub
from harness.unreliable import STORMY, Faults
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.notices import (
    ChannelReset,
    HistoryPage,
    Joined,
    Left,
    MessageDelivery,
    Occupancy,
    Presence,
    Published,
    Unsubscribed,
)
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import History, Publish, PublishItem
from hubbub.domain.rules import Rules
from hubbub.ports.bus import MembersQuery, OccupancyQuery

SEEDS = [11, 12, 13]
LIVE_ONLY = msgspec.structs.replace(OPEN, live_history=False)
STORED = msgspec.structs.replace(OPEN, live_history=False, store=True)
SOCIAL = msgspec.structs.replace(OPEN, presence=True, occupancy=True)


def serials(connection: FakeConnection, channel: str) -> list[int]:
    return [message.serial for message in connection.deliveries(channel)]


async def publish_through(cluster: Cluster, channel: str, count: int, **flags: bool) -> None:
    """Half of the messages through each node, each waiting for its acknowledgement."""
    publishers = [each.connect() for each in cluster.nodes.values()]
    for number in range(count):
        publisher = publishers[number % len(publishers)]
        publish(publisher, channel, b"%d" % number, req_id=number + 1, **flags)
        await publisher.next(Published, number // len(publishers) + 1)
    for publisher in publishers:
        for acknowledged in publisher.all(Published):
            assert all(result.error is None for result in acknowledged.results)


@pytest.mark.spec("LIVE-10")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rules", "store"), [(OPEN, False), (STORED, True)])
async def test_subscribers_on_both_nodes_see_every_message_once_and_in_order(
    tmp_path: Path, seed: int, rules: Rules, store: bool
) -> None:
    count = 60
    hub = open_hub(rules=rules)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        near = await cluster.nodes["west"].subscribe(channel)
        far = await cluster.nodes["east"].subscribe(channel)
        await publish_through(cluster, channel, count, store=store)
        for subscriber in (near, far):
            await subscriber.delivered(channel, count)
            assert serials(subscriber, channel) == list(range(1, count + 1))
            assert subscriber.all(ChannelReset) == []
        order = [message.id for message in near.deliveries(channel)]
        assert [message.id for message in far.deliveries(channel)] == order


@pytest.mark.spec("LIVE-10")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_channel_without_history_announces_a_gap_and_never_hides_it(
    tmp_path: Path, seed: int
) -> None:
    count = 60
    hub = open_hub(rules=LIVE_ONLY)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        await publish_through(cluster, channel, count)

        def reached() -> int:
            ends = [*serials(far, channel), *(reset.serial for reset in far.all(ChannelReset))]
            return max(ends, default=0)

        await far.until(lambda: reached() >= count)
        assert far.all(ChannelReset), "with a fifth of all datagrams lost there was a gap"
        position = 0
        for step in _steps(far, channel):
            if isinstance(step, ChannelReset):
                assert step.serial > position
                position = step.serial
            else:
                assert step == position + 1, "a gap that nobody announced, or a repetition"
                position = step


def _steps(connection: FakeConnection, channel: str) -> list[int | ChannelReset]:
    """Serials and resets, as they came."""
    steps: list[int | ChannelReset] = []
    for notice in connection.heard:
        if isinstance(notice, ChannelReset):
            steps.append(notice)
        elif isinstance(notice, MessageDelivery) and notice.message.channel == channel:
            steps.append(notice.message.serial)
    return steps


@pytest.mark.spec("LIVE-10", "LIVE-12")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_message_without_a_serial_is_never_delivered_twice(
    tmp_path: Path, seed: int
) -> None:
    doubling = Faults(doubled=1.0, longest_delay_seconds=0.003)
    hub = open_hub(rules=STORED)
    async with Cluster(tmp_path, seed=seed, faults=doubling, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        await publish_through(cluster, channel, 20, transient=True)
        await publish_through(cluster, channel, 1, store=True)
        await far.until(lambda: 1 in serials(far, channel) and len(serials(far, channel)) >= 21)
        assert len({message.id for message in far.deliveries(channel)}) == 21
        assert len(far.deliveries(channel)) == 21


@pytest.mark.spec("LIVE-12")
@pytest.mark.parametrize("seed", SEEDS)
async def test_presence_converges_on_all_nodes(tmp_path: Path, seed: int) -> None:
    hub = open_hub(rules=SOCIAL)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        watcher = await cluster.nodes["east"].subscribe(channel)
        await watcher.next(Presence)
        guests = [
            await cluster.nodes[name].subscribe(channel, identity=Identity(user_id=f"{name}-{n}"))
            for n in range(4)
            for name in ("east", "west")
        ]
        for guest in guests[::2]:
            assert guest.session is not None
            cluster.nodes["east"].node.close(guest.session)
        expected = {guest.session.id for guest in guests[1::2] if guest.session is not None}
        assert watcher.session is not None
        expected.add(watcher.session.id)

        def seen() -> set[str]:
            there: set[str] = set()
            for notice in watcher.heard:
                if isinstance(notice, Presence):
                    there = {member.session_id for member in notice.members}
                elif isinstance(notice, Joined):
                    there |= {member.session_id for member in notice.members}
                elif isinstance(notice, Left):
                    there -= {member.session_id for member in notice.members}
            return there

        await watcher.until(lambda: seen() == expected)
        for node in cluster.nodes.values():
            members = await node.bus.ask(MembersQuery("acme", channel))
            assert {member.session_id for member in members} == expected
            assert await node.bus.ask(OccupancyQuery("acme", channel)) == 5
        await watcher.until(lambda: watcher.all(Occupancy)[-1].count == 5)


@pytest.mark.spec("LIVE-11")
async def test_a_rule_that_changes_on_one_node_revokes_access_on_the_other(
    tmp_path: Path,
) -> None:
    async with Cluster(tmp_path, seed=7, faults=STORMY) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        await cluster.nodes["west"].directory.put("acme", "rules", "default", Rules())
        revoked = await far.next(Unsubscribed)
        assert [failure.channel for failure in revoked.failures] == [channel]


@pytest.mark.spec("LIVE-13")
@pytest.mark.parametrize("seed", SEEDS)
async def test_history_is_the_same_from_every_node(tmp_path: Path, seed: int) -> None:
    hub = open_hub(rules=STORED)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        await publish_through(cluster, channel, 10, store=True)
        pages = []
        for node in cluster.nodes.values():
            asking = node.connect()
            receive(asking, History(channel, req_id=3, after=2, limit=4))
            pages.append(await asking.next(HistoryPage))
        assert [message.serial for message in pages[0].messages] == [3, 4, 5, 6]
        assert pages[0].recovered
        assert pages[0].more
        assert pages[0] == pages[1]


@pytest.mark.spec("LIVE-13")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_replay_across_nodes_while_others_publish_has_no_gap_and_no_repetition(
    tmp_path: Path, seed: int
) -> None:
    hub = open_hub(rules=STORED)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        await publish_through(cluster, channel, 10, store=True)
        busy = cluster.nodes["west"].connect()
        late = cluster.nodes["east"].connect()
        publish(busy, channel, *(b"%d" % n for n in range(300)), store=True)
        await subscribe(late, channel, serial=3)
        publish(busy, channel, *(b"%d" % n for n in range(100)), store=True)
        await late.delivered(channel, 407)
        assert serials(late, channel) == list(range(4, 411))


@pytest.mark.spec("LIVE-10")
async def test_a_node_that_was_cut_off_heals_by_itself(tmp_path: Path) -> None:
    async with Cluster(tmp_path, seed=3) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        near = cluster.nodes["west"].connect()
        cluster.network.cut.add(("west", "east"))
        publish(near, channel, *(b"%d" % n for n in range(20)))
        cluster.network.cut.clear()
        await far.delivered(channel, 20)
        assert serials(far, channel) == list(range(1, 21))


@pytest.mark.long
@pytest.mark.spec("LIVE-10")
@pytest.mark.parametrize("seed", range(100, 140))
async def test_long_campaign_of_storms(tmp_path: Path, seed: int) -> None:
    hub = open_hub(rules=STORED if seed % 2 else OPEN)
    faults = Faults(lost=0.4, doubled=0.4, longest_delay_seconds=0.01)
    async with Cluster(tmp_path, seed=seed, faults=faults, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        await publish_through(cluster, channel, 80, store=bool(seed % 2))
        await far.delivered(channel, 80)
        assert serials(far, channel) == list(range(1, 81))


@pytest.mark.spec("LIVE-20")
@pytest.mark.parametrize(("rules", "store"), [(OPEN, False), (STORED, True)])
async def test_the_whole_envelope_goes_between_nodes(
    tmp_path: Path, rules: Rules, store: bool
) -> None:
    said = Attributes(
        subtype="s",
        author="ann",
        receiver="bob",
        conversation_id="c",
        refers_to="m",
        priority=5,
        relevant_until=2**53 - 1,
        ttl=60_000,
        language="de",
        location={"lat": 1.5},
        headers={"k": [1, None, {"x": -(2**63)}, 2**64 - 1, 0.5, "é"]},
        delivery_policy="p",
    )
    async with Cluster(tmp_path, hubs=[open_hub(rules=rules)]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        item = PublishItem(channel, "e", b"1", JSON, store=store, attributes=said)
        receive(cluster.nodes["east"].connect(), Publish((item,)))
        await far.delivered(channel, 1)
        assert far.deliveries(channel)[0].attributes == said
        receive(far, History(channel, 1))
        (kept,) = (await far.next(HistoryPage)).messages
        assert kept.attributes == said
