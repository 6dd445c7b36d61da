"""Webhooks in a cluster: any node takes them, the owner of the channel drives them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.engine import Cluster, EngineNode
from harness.receivers import Receiver
from harness.unreliable import Faults
from harness.webhooks import FAST, acknowledged, describe, hub_of, numbers, put, subscribe, until
from hubbub.engine.webhooks.service import Webhooks


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, hubs=[hub_of()], webhooks=FAST) as cluster:
        yield cluster


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with Receiver() as receiver:
        yield receiver


def pair(cluster: Cluster) -> tuple[EngineNode, EngineNode]:
    return cluster.nodes["east"], cluster.nodes["west"]


@pytest.mark.spec("WEB-04", "CLU-01")
async def test_the_owner_drives_what_another_node_took(
    cluster: Cluster, receiver: Receiver
) -> None:
    east, west = pair(cluster)
    channel = cluster.channel_of("west")
    webhook = await subscribe(east, receiver.url, channel)
    assert (east.driver.count(), west.driver.count()) == (0, 1)
    await put(east, *numbers(1, 20), channel=channel)
    await receiver.got(20)
    assert receiver.bodies == numbers(1, 20)
    assert (await describe(east, webhook)).delivered == 20
    await east.node.feature(Webhooks).end(webhook)
    assert west.driver.count() == 0


@pytest.mark.spec("WEB-04", "CLU-01")
async def test_dead_letters_are_replayed_from_any_node(
    cluster: Cluster, receiver: Receiver
) -> None:
    east, west = pair(cluster)
    channel = cluster.channel_of("west")
    receiver.respond = lambda request: 500
    webhook = await subscribe(east, receiver.url, channel)
    await put(east, b"1", b"2", channel=channel)
    await until(lambda: west.driver.counters["acme"].dead_letters == 2)
    receiver.respond = lambda request: 200
    receiver.received.clear()
    assert await east.node.feature(Webhooks).replay(east.node.hub("acme"), webhook.id) == (2, 0)
    assert receiver.bodies == [b"1", b"2"]


@pytest.mark.spec("WEB-04", "CLU-01")
async def test_webhooks_follow_their_channel_to_another_node(
    cluster: Cluster, receiver: Receiver
) -> None:
    """West loses its partitions while the receiver is down; east delivers the rest."""
    east, west = pair(cluster)
    channel = cluster.channel_of("west")
    webhook = await subscribe(east, receiver.url, channel)
    await put(east, *numbers(1, 5), channel=channel)
    await receiver.got(5)
    await acknowledged(west, webhook, 5)
    receiver.respond = lambda request: 503
    await put(east, *numbers(6, 9), channel=channel)
    await receiver.got(6)
    partitions = list(west.owner.terms)
    await west.owner.release(partitions)
    assert west.driver.count() == 0
    receiver.received.clear()
    receiver.respond = lambda request: 200
    cluster.names[1] = "east"  # the owner of all
    east.owner.start(await cluster.store.acquire_partitions(partitions, "east"))
    await receiver.until(lambda: b"9" in receiver.bodies)
    assert list(dict.fromkeys(receiver.bodies)) == numbers(6, 9)
    assert east.driver.count() == 1


@pytest.mark.spec("WEB-04", "CLU-01")
async def test_a_bad_network_between_the_nodes_loses_nothing(
    tmp_path: Path, receiver: Receiver
) -> None:
    faults = Faults(lost=0.1, doubled=0.1)
    async with Cluster(tmp_path, seed=3, faults=faults, hubs=[hub_of()], webhooks=FAST) as cluster:
        east, _ = pair(cluster)
        channel = cluster.channel_of("west")
        await subscribe(east, receiver.url, channel)
        await put(east, *numbers(1, 30), channel=channel)
        await receiver.got(30)
        assert list(dict.fromkeys(receiver.bodies)) == numbers(1, 30)
