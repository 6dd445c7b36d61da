"""Patterns where channels come into being on other nodes, move, and lose their owners."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from harness.engine import Cluster, EngineNode, FakeConnection, publish, receive
from harness.moving import MovingCluster, MovingNode
from harness.running_hub import OPEN, open_hub
from harness.topics import until
from harness.unreliable import CALM, Faults
from hubbub.domain.names import partition_of
from hubbub.domain.notices import ChannelReset, Published, Subscribed, Unsubscribed
from hubbub.domain.permissions import Grant, Identity
from hubbub.domain.requests import Subscribe, SubscribeItem, Unsubscribe
from hubbub.domain.rules import ChannelSettings

pytestmark = pytest.mark.spec("LIVE-19")

STORED = msgspec.structs.replace(OPEN, store=True)
LOSSY = Faults(lost=0.1, doubled=0.1, longest_delay_seconds=0.003)
HUB = open_hub(namespaces={"kept": STORED})


async def follow(
    node: EngineNode, *patterns: str, identity: Identity | None = None
) -> FakeConnection:
    connection = node.connect(identity=identity) if identity is not None else node.connect()
    wanted = tuple(SubscribeItem(pattern) for pattern in patterns)
    receive(connection, Subscribe(wanted, req_id=1))
    await connection.until(lambda: any(n.req_id == 1 for n in connection.all(Subscribed)))
    (answer,) = [n for n in connection.all(Subscribed) if n.req_id == 1]
    assert not answer.failures
    return connection


async def say(connection: FakeConnection, channel: str, text: bytes, store: bool = False) -> bool:
    """Whether the message was acknowledged."""
    before = len(connection.all(Published))
    publish(connection, channel, text, req_id=1, store=store)
    answer = await connection.next(Published, before + 1)
    return answer.results[0].error is None


def heard(connection: FakeConnection, channel: str) -> list[bytes]:
    return [message.payload for message in connection.deliveries(channel)]


def knows(owner: MovingNode, node: str) -> bool:
    return node in owner.owner.watching._of_hub.get("acme", {})


@pytest.mark.parametrize(("seed", "faults"), [(0, CALM), (1, LOSSY), (2, LOSSY), (3, LOSSY)])
async def test_a_channel_born_on_any_node_is_delivered_from_its_first_message_on(
    tmp_path: Path, seed: int, faults: Faults
) -> None:
    names = ("east", "north", "west")
    async with Cluster(tmp_path, hubs=[HUB], seed=seed, faults=faults, names=names) as cluster:
        listener = await follow(cluster.nodes["east"], "room:*", "kept:*")
        speaker = cluster.nodes["north"].connect()
        channels = [
            cluster.channel_of(owner, kind)
            for owner in cluster.nodes
            for kind in ("room:", "kept:")
        ]
        for number in range(5):
            for channel in channels:
                assert await say(speaker, channel, b"%d" % number, store=channel.startswith("kept"))
        for channel in channels:
            await listener.delivered(channel, 5)
            assert heard(listener, channel) == [b"%d" % number for number in range(5)]
        assert not listener.all(ChannelReset)


@pytest.mark.parametrize("owner", ["east", "north", "west"])
async def test_messages_without_serials_of_a_channel_born_on_any_node_are_delivered(
    tmp_path: Path, owner: str
) -> None:
    """Nothing tells the first of them from others that come before the word of the channel."""
    hub = open_hub(namespaces={"bare": msgspec.structs.replace(OPEN, live_history=False)})
    async with Cluster(tmp_path, hubs=[hub], names=("east", "north", "west")) as cluster:
        listener = await follow(cluster.nodes["east"], "bare:*")
        channel = cluster.channel_of(owner, "bare:")
        speaker = cluster.nodes[owner].connect()
        publish(speaker, channel, b"1", b"2", req_id=1)
        await listener.delivered(channel, 2)
        publish(speaker, channel, b"3", req_id=2)
        await listener.delivered(channel, 3)
        assert heard(listener, channel) == [b"1", b"2", b"3"]
        patterns = cluster.nodes["east"].node.hub("acme").patterns
        assert patterns is not None
        assert not patterns.early


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_first_message_arrives_right_after_the_owner_was_killed(
    tmp_path: Path, seed: int
) -> None:
    async with MovingCluster(tmp_path, hubs=[HUB], seed=seed) as cluster:
        listener = await follow(cluster.nodes["east"], "room:*")
        speaker = cluster.nodes["north"].connect()
        known = cluster.channel_of("west", "room:known")
        assert await say(speaker, known, b"before")
        names = (f"room:{number}" for number in range(1000))
        unborn = [name for name in names if cluster.owner_of(name) == "west"][:20]
        killing = asyncio.create_task(cluster.kill("west"))
        said: dict[str, list[bytes]] = {}
        for channel in unborn:  # wherever the takeover stands by now
            texts = [b"%d" % number for number in range(3)]
            said[channel] = [text for text in texts if await say(speaker, channel, text)]
        await killing
        assert sum(map(len, said.values())) > 40
        for channel, texts in said.items():
            await listener.delivered(channel, len(texts))
            assert set(texts) <= set(heard(listener, channel))
            assert heard(listener, channel) == sorted(heard(listener, channel))
        assert await say(speaker, known, b"after")
        await listener.delivered(known, 2)
        assert heard(listener, known) == [b"before", b"after"]


async def test_a_stored_channel_loses_nothing_when_its_owner_is_killed(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, hubs=[HUB], faults=LOSSY, seed=4) as cluster:
        listener = await follow(cluster.nodes["east"], "kept:*")
        speaker = cluster.nodes["north"].connect()
        channel = cluster.channel_of("west", "kept:")
        said = [b"%d" % n for n in range(10) if await say(speaker, channel, b"%d" % n, store=True)]
        await cluster.kill("west")
        said += [
            b"%d" % n for n in range(10, 20) if await say(speaker, channel, b"%d" % n, store=True)
        ]
        await listener.until(lambda: heard(listener, channel)[-1:] == said[-1:])
        assert set(said) <= set(heard(listener, channel))
        serials = [message.serial for message in listener.deliveries(channel)]
        assert serials == list(range(1, len(serials) + 1))


async def test_a_node_that_joins_knows_the_patterns_before_it_owns_channels(
    tmp_path: Path,
) -> None:
    async with MovingCluster(tmp_path, ["east", "north"], hubs=[HUB]) as cluster:
        listener = await follow(cluster.nodes["east"], "room:*")
        west = await cluster.join("west")
        await cluster.settled()
        assert knows(west, "east")
        channel = cluster.channel_of("west", "room:")
        speaker = cluster.nodes["north"].connect()
        assert await say(speaker, channel, b"first")
        await listener.delivered(channel, 1)


async def test_what_a_node_missed_while_it_was_cut_off_is_fetched(tmp_path: Path) -> None:
    """The others gave the node up with its patterns, and went on to open channels."""
    async with MovingCluster(tmp_path, hubs=[HUB], silence_seconds=0.5) as cluster:
        listener = await follow(cluster.nodes["east"], "room:*")
        channel = cluster.channel_of("west", "room:")
        others = ("north", "west")
        cluster.network.cut |= {p for o in others for p in (("east", o), (o, "east"))}
        await cluster.lost("east")
        speaker = cluster.nodes["north"].connect()
        ring = cluster.nodes["north"].member.ownership
        await until(lambda: "east" not in ring.ring.owners)
        assert ring.owner_of(partition_of("acme", channel)) == "west"
        assert await say(speaker, channel, b"missed")
        cluster.network.cut.clear()
        await listener.delivered(channel, 1)
        assert await say(speaker, channel, b"live")
        await listener.delivered(channel, 2)
        assert heard(listener, channel) == [b"missed", b"live"]


async def test_a_pattern_that_ended_costs_the_other_nodes_nothing(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, hubs=[HUB]) as cluster:
        east, west = cluster.nodes["east"], cluster.nodes["west"]
        listener = await follow(east, "room:*", "kept:*")
        channel = cluster.channel_of("west", "room:")
        speaker = cluster.nodes["north"].connect()
        assert await say(speaker, channel, b"1")
        await listener.delivered(channel, 1)
        opened = west.owner.channels.open["acme", channel]
        assert opened.watchers == ("east",)
        receive(listener, Unsubscribe(("room:*",), req_id=2))
        await listener.next(Unsubscribed)
        await until(lambda: not opened.nodes)
        assert west.owner.watching._of_hub["acme"]["east"].patterns.patterns == ("kept:*",)
        listener.close()
        await until(lambda: not west.owner.watching._of_hub["acme"]["east"].patterns.patterns)


async def test_no_node_is_told_of_a_private_channel_by_a_pattern_that_may_not_read_it(
    tmp_path: Path,
) -> None:
    """Access is asked for at the node of the session, whoever owns the channel."""
    boss = Identity("boss", grants=(Grant("*", True, True),))
    hub = open_hub(namespaces={"room": OPEN})
    private = msgspec.structs.replace(
        hub,
        rules={**hub.rules, "closed": msgspec.structs.replace(OPEN, public=False)},
        channels={"room:staff": ChannelSettings("closed")},
    )
    async with MovingCluster(tmp_path, hubs=[private]) as cluster:
        outsider = await follow(cluster.nodes["east"], "room:*")
        insider = await follow(cluster.nodes["east"], "room:*", identity=boss)
        speaker = cluster.nodes["north"].connect(identity=boss)
        assert await say(speaker, "room:staff", b"secret")
        assert await say(speaker, "room:open", b"public")
        await insider.delivered("room:staff", 1)
        await outsider.delivered("room:open", 1)
        assert not heard(outsider, "room:staff")
