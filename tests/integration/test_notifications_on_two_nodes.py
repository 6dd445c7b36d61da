"""Notifications between nodes, on a network that misbehaves and while a channel's owner changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.engine import Cluster, FakeConnection, receive, subscribe
from harness.running_hub import open_hub
from harness.unreliable import STORMY
from hubbub.domain.messages import JSON
from hubbub.domain.notices import (
    NotificationInfo,
    NotificationNew,
    NotificationRead,
    NotificationsMarked,
)
from hubbub.domain.notifications import NotificationItem, NotificationResult
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.requests import MarkNotifications
from hubbub.engine.notifications.service import NotificationService

pytestmark = pytest.mark.spec("NOTE-01")

SERVICE = Identity(user_id="shop", level=Level.SERVICE)


async def create(
    cluster: Cluster, node: str, channel: str, *payloads: bytes
) -> list[NotificationResult]:
    there = cluster.nodes[node].node
    items = [NotificationItem("e", payload, JSON) for payload in payloads]
    return await there.feature(NotificationService).create(
        there.hub("acme"), SERVICE, channel, items
    )


def revisions(connection: FakeConnection) -> list[int]:
    """Of everything that changed, in the order in which it was told."""
    kinds = NotificationNew | NotificationRead
    return [said.revision for said in connection.heard if isinstance(said, kinds)]


async def told(connection: FakeConnection, revision: int) -> None:
    """Wait for the numbers of this revision."""
    await connection.until(lambda: connection.all(NotificationInfo)[-1].state.revision == revision)


@pytest.mark.parametrize("seed", [21, 22, 23])
async def test_both_nodes_tell_every_change_once_and_in_order(tmp_path: Path, seed: int) -> None:
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[open_hub()]) as cluster:
        channel = cluster.channel_of("west", "notification:n")
        watching = [each.connect() for each in cluster.nodes.values()]
        for connection in watching:
            await subscribe(connection, channel)
        names = list(cluster.nodes)
        results: list[NotificationResult] = []
        for number in range(20):
            results += await create(cluster, names[number % 2], channel, b"%d" % number)
        assert all(result.error is None and not result.duplicate for result in results)
        marking = cluster.nodes["east"].connect()
        receive(marking, MarkNotifications(channel, all=True, req_id=1))
        assert (await marking.next(NotificationsMarked)).marked == 20
        for connection in watching:
            await told(connection, 21)
            assert revisions(connection) == list(range(1, 22))
            assert connection.all(NotificationInfo)[-1].state.unread == 0


async def test_who_subscribes_while_notifications_arrive_misses_no_number(tmp_path: Path) -> None:
    """The first Info and what follows it fit together, on a node that does not own the channel."""
    async with Cluster(tmp_path, seed=5, faults=STORMY, hubs=[open_hub()]) as cluster:
        channel = cluster.channel_of("west", "notification:n")

        async def arrive() -> None:
            for number in range(30):
                await create(cluster, "west", channel, b"%d" % number)

        arriving = asyncio.ensure_future(arrive())
        connections = []
        for _ in range(5):
            connection = cluster.nodes["east"].connect()
            await subscribe(connection, channel)
            connections.append(connection)
            await asyncio.sleep(0)
        await arriving
        for connection in connections:
            first = (await connection.next(NotificationInfo)).state.revision
            await told(connection, 30)
            assert revisions(connection) == list(range(first + 1, 31))
            assert connection.all(NotificationInfo)[-1].state.unread == 30
