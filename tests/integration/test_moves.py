"""Channels that move between nodes: what their clients see when owners come, leave and die."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from harness.engine import FakeConnection, publish
from harness.moving import MovingCluster
from harness.running_hub import OPEN, open_hub
from harness.topics import until
from harness.unreliable import Faults
from hubbub.domain.errors import StaleOwner, Unavailable
from hubbub.domain.messages import JSON, Message
from hubbub.domain.names import partition_of
from hubbub.domain.notices import (
    ChannelReset,
    Joined,
    Left,
    Occupancy,
    Presence,
    Published,
    Subscribed,
)
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import Subscribe, SubscribeItem
from hubbub.domain.ring import make_ring
from hubbub.ports.bus import Attach, MembersQuery, OccupancyQuery, PublishOutcome
from hubbub.ports.storage.messages import Append

STORED = msgspec.structs.replace(OPEN, live_history=False, store=True)
SOCIAL = msgspec.structs.replace(OPEN, presence=True, occupancy=True)


def serials(connection: FakeConnection, channel: str) -> list[int]:
    return [message.serial for message in connection.deliveries(channel)]


async def put(connection: FakeConnection, channel: str, number: int) -> bool:
    """Publish a stored message; whether it was acknowledged."""
    before = len(connection.all(Published))
    publish(connection, channel, b"%d" % number, req_id=number, store=True)
    answer = await connection.next(Published, before + 1)
    return answer.results[0].error is None


def present(connection: FakeConnection) -> set[str]:
    there: set[str] = set()
    for notice in connection.heard:
        if isinstance(notice, Presence):
            there = {member.session_id for member in notice.members}
        elif isinstance(notice, Joined):
            there |= {member.session_id for member in notice.members}
        elif isinstance(notice, Left):
            there -= {member.session_id for member in notice.members}
    return there


async def seen(connection: FakeConnection, expected: set[str]) -> None:
    """Wait until these sessions and no others are present, as far as the connection was told."""
    await connection.until(lambda: present(connection) == expected)


@pytest.mark.spec("CLU-02", "CLU-04")
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_acknowledged_is_lost_when_the_owner_is_killed(
    tmp_path: Path, seed: int
) -> None:
    faults = Faults(lost=0.02, doubled=0.1, longest_delay_seconds=0.002)
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, hubs=[hub], seed=seed, faults=faults) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        publisher = cluster.nodes["north"].connect()
        acknowledged = [n for n in range(1, 21) if await put(publisher, channel, n)]
        await cluster.kill("west")
        numbers = itertools.count(21)
        while len(acknowledged) < 40:  # some fail where the machine stood still for a while
            number = next(numbers)
            if await put(publisher, channel, number):
                acknowledged.append(number)
        last = b"%d" % acknowledged[-1]
        await far.until(lambda: [m.payload for m in far.deliveries(channel)[-1:]] == [last])
        heard = [int(message.payload) for message in far.deliveries(channel)]
        assert set(acknowledged) <= set(heard)
        assert len(heard) == len(set(heard)), "nothing twice"
        assert serials(far, channel) == list(range(1, len(heard) + 1)), "and no gap"
        assert far.all(ChannelReset) == []


@pytest.mark.spec("CLU-02")
async def test_a_joining_node_takes_its_share_and_subscribers_notice_nothing(
    tmp_path: Path,
) -> None:
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, ("east", "west"), hubs=[hub]) as cluster:
        channels = [f"room-{n}" for n in range(30)]
        subscriber = await cluster.nodes["east"].subscribe(*channels)
        publisher = cluster.nodes["west"].connect()
        for channel in channels:
            assert await put(publisher, channel, 1)
        await cluster.join("north")
        await cluster.settled()
        moved = [channel for channel in channels if cluster.owner_of(channel) == "north"]
        assert 3 <= len(moved) <= 20, "about a third"
        for channel in channels:
            assert await put(publisher, channel, 2)
        for channel in channels:
            await subscriber.delivered(channel, 2)
            assert serials(subscriber, channel) == [1, 2]
        assert subscriber.all(ChannelReset) == []


@pytest.mark.spec("CLU-02", "LIVE-10")
async def test_an_empty_channel_that_moves_gets_its_epoch_later_and_nothing_counts_as_missing(
    tmp_path: Path,
) -> None:
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        north = cluster.nodes["north"]
        far = await cluster.nodes["east"].subscribe(channel)
        left = await north.subscribe(channel)
        position = far.all(Subscribed)[-1].channels[0]
        await cluster.kill("west")
        publisher = north.connect()
        while not await put(publisher, channel, 1):
            pass
        await far.delivered(channel, 1)
        (reset,) = far.all(ChannelReset)
        assert reset.recovered
        assert (reset.serial, reset.epoch != position.epoch) == (0, True)
        # One that was away meanwhile comes back with its position in the former epoch.
        assert left.session is not None
        north.node.close(left.session)
        again = north.connect()
        again.say(Subscribe((SubscribeItem(channel, serial=0, epoch=position.epoch),)))
        confirmed = (await again.next(Subscribed)).channels[0]
        assert (confirmed.recovered, confirmed.epoch) == (True, reset.epoch)
        await again.delivered(channel, 1)
        assert serials(again, channel) == serials(far, channel) == [1]


@pytest.mark.spec("CLU-02", "LIVE-10")
async def test_a_live_channel_that_moves_announces_a_new_epoch_and_goes_on(tmp_path: Path) -> None:
    hub = open_hub(rules=msgspec.structs.replace(OPEN, live_history=False))
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        publisher = cluster.nodes["north"].connect()
        publish(publisher, channel, b"1")
        await far.delivered(channel, 1)
        await cluster.kill("west")
        reset = await far.next(ChannelReset)
        assert reset.channel == channel
        publish(publisher, channel, b"2")
        await far.delivered(channel, 2)
        assert serials(far, channel) == [1, 1]


@pytest.mark.spec("CLU-03", "CLU-04", "LIVE-12")
async def test_presence_and_occupancy_heal_when_a_node_dies(tmp_path: Path) -> None:
    hub = open_hub(rules=SOCIAL)
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        for owner in ("east", "west"):  # the owner stays; the owner dies with its guest
            channel = cluster.channel_of(owner, f"room-{owner}")
            watcher = await cluster.nodes["north"].subscribe(channel)
            guests = {
                name: await cluster.nodes[name].subscribe(channel, identity=Identity(user_id=name))
                for name in ("east", "west")
            }
            everyone = {c.session.id for c in (watcher, *guests.values()) if c.session is not None}
            await seen(watcher, everyone)
            if owner == "east":
                stayed, first, channel_one = guests["east"], watcher, channel
        doomed = guests["west"].session
        assert doomed is not None
        await cluster.kill("west")
        await seen(watcher, everyone - {doomed.id})
        await watcher.until(lambda: watcher.all(Occupancy)[-1].count == 2)
        await seen(first, {c.session.id for c in (first, stayed) if c.session is not None})
        for node in cluster.nodes.values():
            members = await node.bus.ask(MembersQuery("acme", channel_one))
            assert len(members) == 2
            assert await node.bus.ask(OccupancyQuery("acme", channel)) == 2


@pytest.mark.spec("CLU-05")
async def test_a_graceful_leave_hands_over_first_and_fails_nobody(tmp_path: Path) -> None:
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        far = await cluster.nodes["east"].subscribe(channel)
        publisher = cluster.nodes["north"].connect()
        done = asyncio.Event()

        async def publish_on() -> int:
            number = 0
            while not done.is_set():
                number += 1
                assert await put(publisher, channel, number)
                await asyncio.sleep(0)
            return number

        publishing = asyncio.ensure_future(publish_on())
        await far.delivered(channel, 5)
        await cluster.leave("west")
        reached = len(far.deliveries(channel))
        await far.delivered(channel, reached + 5)
        done.set()
        count = await publishing
        await far.delivered(channel, count)
        assert serials(far, channel) == list(range(1, count + 1))


@pytest.mark.spec("CLU-02")
async def test_two_nodes_that_both_believe_to_own_a_channel_cannot_both_append(
    tmp_path: Path,
) -> None:
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        publisher = cluster.nodes["west"].connect()
        assert await put(publisher, channel, 1)
        old = cluster.vanish("west")  # cut off, but alive
        await cluster.lost("west")
        await cluster.settled()
        assert await put(cluster.nodes["east"].connect(), channel, 2)
        term = old.owner.terms[next(iter(old.owner.terms))]
        stale = Message("x", "acme", channel, "e", b"3", JSON, 1, store=True)
        stale.serial = 2
        partition = next(c.partition for c in old.owner.channels.open.values() if c.name == channel)
        epoch = old.owner.channels.open["acme", channel].epoch
        (refused,) = await cluster.store.append([Append(stale, epoch, partition, term)])
        assert isinstance(refused, StaleOwner)


@pytest.mark.spec("CLU-04")
async def test_a_publish_in_the_very_moment_when_the_owner_is_lost_goes_to_the_next_one(
    tmp_path: Path,
) -> None:
    async with MovingCluster(tmp_path, hubs=[open_hub(rules=STORED)]) as cluster:
        channel = cluster.channel_of("west")
        publisher = cluster.nodes["north"].connect()
        assert await put(publisher, channel, 1)
        cluster.vanish("west")
        for node in cluster.nodes.values():
            membership = node.member.membership
            beat = next(beat for beat in membership.beats if beat.node == "west")
            membership.disconnected("west", beat.incarnation)
        async with asyncio.timeout(5):
            assert await put(publisher, channel, 2)


@pytest.mark.spec("CLU-04")
async def test_a_node_that_was_cut_off_for_a_while_comes_back_and_everyone_agrees(
    tmp_path: Path,
) -> None:
    hub = open_hub(rules=STORED)
    async with MovingCluster(tmp_path, hubs=[hub], silence_seconds=1.0) as cluster:
        channel = cluster.channel_of("west")
        near = await cluster.nodes["west"].subscribe(channel)
        far = await cluster.nodes["east"].subscribe(channel)
        publisher = cluster.nodes["north"].connect()
        assert await put(publisher, channel, 1)
        names = set(cluster.nodes)
        for name in names - {"west"}:
            cluster.network.cut |= {("west", name), (name, "west")}
        await cluster.lost("west")
        assert await put(publisher, channel, 2)
        cluster.network.cut.clear()
        await cluster.settled()
        assert await put(publisher, channel, 3)
        for subscriber in (near, far):
            await subscriber.delivered(channel, 3)
            assert serials(subscriber, channel) == [1, 2, 3]


@pytest.mark.spec("CLU-04")
async def test_a_node_that_is_given_up_by_mistake_still_hears_of_the_channels_of_others(
    tmp_path: Path,
) -> None:
    """NATS reports its connection as closed when it already has a new one. It never stopped to
    hear the others; they have forgotten what it follows."""
    hub = open_hub(rules=msgspec.structs.replace(SOCIAL, live_history=False, store=True))
    async with MovingCluster(tmp_path, hubs=[hub]) as cluster:
        channel = cluster.channel_of("north")
        watcher = await cluster.nodes["north"].subscribe(channel)
        guest = await cluster.nodes["west"].subscribe(channel)
        everyone = {c.session.id for c in (watcher, guest) if c.session is not None}
        await seen(watcher, everyone)
        assert await put(watcher, channel, 1)
        west = cluster.nodes["west"].member.membership
        life = west.life
        for name in ("east", "north"):
            cluster.nodes[name].member.membership.disconnected("west", west.incarnation)
        async with asyncio.timeout(20):
            while west.life == life:
                await asyncio.sleep(0.005)
        await cluster.settled()
        assert await put(watcher, channel, 2)
        await guest.delivered(channel, 2)
        assert serials(guest, channel) == [1, 2]
        await seen(watcher, everyone)
        await watcher.until(lambda: watcher.all(Occupancy)[-1].count == 2)


@pytest.mark.spec("CLU-04")
async def test_a_publish_that_was_under_way_to_a_dead_node_fails_clearly_and_soon(
    tmp_path: Path,
) -> None:
    async with MovingCluster(tmp_path) as cluster:
        channel = cluster.channel_of("west")
        bus = cluster.nodes["east"].bus
        await bus.ask(Attach("acme", channel))
        cluster.network.cut |= {("east", "west")}
        outcomes: list[PublishOutcome] = []
        bus.publish(Message("m1", "acme", channel, "e", b"1", JSON, 1), outcomes.append)
        asking = asyncio.ensure_future(bus.ask(MembersQuery("acme", channel)))
        await asyncio.sleep(0)
        await cluster.kill("west")
        assert isinstance(outcomes[0].error, Unavailable)
        assert not isinstance(outcomes[0].error, StaleOwner)
        assert await asking == (), "a question was asked again"


@pytest.mark.spec("CLU-05")
async def test_an_edge_serves_sessions_and_owns_nothing(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, ("east", "west")) as cluster:
        edge = await cluster.join("rim", role="edge")
        await cluster.settled()
        assert edge.member.ownership.served == []
        channel = cluster.channel_of("west")
        subscriber = await edge.subscribe(channel)
        publish(edge.connect(), channel, b"1")
        await subscriber.delivered(channel, 1)


@pytest.mark.spec("CLU-04")
async def test_a_node_that_will_stand_still_for_a_moment_tells_all_others(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path) as cluster:
        west = cluster.nodes["west"].member
        west.announce_pause(True)
        assert west._beating is not None
        west._beating.cancel()
        west._beat()  # it was due before the process stood still, and must not take it back
        west._beating.cancel()
        assert west.membership.beat().pauses
        others = [cluster.nodes[name].member.membership for name in ("east", "north")]

        def excused() -> list[bool]:
            return [beat.pauses for other in others for beat in other.beats if beat.node == "west"]

        await until(lambda: excused() == [True, True])
        west.announce_pause(False)
        await until(lambda: excused() == [False, False])


@pytest.mark.spec("CLU-02", "CLU-04")
async def test_followers_come_back_to_what_was_taken_over_while_its_owner_took_over_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with MovingCluster(tmp_path, hubs=[open_hub(rules=STORED)]) as cluster:
        west = cluster.nodes["west"]
        ownership = west.member.ownership
        channel = cluster.channel_of("west")
        partition = partition_of("acme", channel)
        other = next(each for each in ownership.served if each != partition)
        subscriber = await cluster.nodes["north"].subscribe(channel)
        publisher = west.connect()
        assert await put(publisher, channel, 1)
        acquire, asked, go_on = cluster.store.acquire_partitions, asyncio.Event(), asyncio.Event()

        async def slowly(
            partitions: Sequence[int], owner: str, seen: Mapping[int, int]
        ) -> dict[int, int]:
            asked.set()
            await go_on.wait()
            return await acquire(partitions, owner, seen)

        monkeypatch.setattr(cluster.store, "acquire_partitions", slowly)
        ownership.fenced(other)
        await asked.wait()
        ownership.fenced(partition)
        go_on.set()
        await until(lambda: ownership.serves(partition) and ownership.serves(other))
        assert await put(publisher, channel, 2)
        await subscriber.delivered(channel, 2)
        assert serials(subscriber, channel) == [1, 2]


@pytest.mark.spec("CLU-02", "CLU-04")
async def test_a_takeover_that_is_not_wanted_any_more_raises_no_term(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, ("east", "west")) as cluster:
        east, west = (cluster.nodes[name].member.ownership for name in ("east", "west"))
        both = west.ring
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def may_take_later() -> bool:
            asked.set()
            await go_on.wait()
            return True

        west._may_take = may_take_later
        terms = await cluster.store.read_terms(east.served)
        lives = cluster.nodes["west"].member.membership.lives()
        west.follow(make_ring([("west", lives["west"])]), lives)
        await asyncio.wait_for(asked.wait(), 20)
        west.follow(both, lives)
        go_on.set()
        assert west._taking is not None
        await asyncio.wait_for(west._taking, 20)
        assert await cluster.store.read_terms(east.served) == terms


@pytest.mark.spec("CLU-02", "CLU-04")
async def test_a_takeover_under_way_that_is_not_wanted_any_more_takes_nothing_from_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that start together see each other one by one: the first one is about to take all
    over while the others take their shares."""
    async with MovingCluster(tmp_path, ("east", "west")) as cluster:
        east, west = (cluster.nodes[name].member.ownership for name in ("east", "west"))
        both, lives = west.ring, cluster.nodes["west"].member.membership.lives()
        acquire, asked, go_on = cluster.store.acquire_partitions, asyncio.Event(), asyncio.Event()

        async def slowly(
            partitions: Sequence[int], owner: str, seen: Mapping[int, int]
        ) -> dict[int, int]:
            if owner == "west":
                asked.set()
                await go_on.wait()
            return await acquire(partitions, owner, seen)

        monkeypatch.setattr(cluster.store, "acquire_partitions", slowly)
        west.follow(make_ring([("west", lives["west"])]), lives)
        await asyncio.wait_for(asked.wait(), 20)
        theirs = east.served
        for partition in theirs:
            east.fenced(partition)  # east takes its share over right now
        await until(lambda: east.served == theirs)
        terms = await cluster.store.read_terms(theirs)
        west.follow(both, lives)
        go_on.set()
        assert west._taking is not None
        await asyncio.wait_for(west._taking, 20)
        assert await cluster.store.read_terms(theirs) == terms
        assert await east.is_untouched()
