"""Quotas of a hub hold for all nodes together, wherever its sessions, channels and messages are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.moving import MovingCluster, MovingNode
from harness.running_hub import OPEN, open_hub
from hubbub.domain.errors import HubbubError, QuotaExceeded
from hubbub.domain.rules import HubConfiguration, Quotas
from hubbub.ports.bus import Attach

pytestmark = pytest.mark.spec("SEC-05", "CLU-01")

NODES = ("east", "north", "west")


def hub_with(**quotas: int) -> HubConfiguration:
    return open_hub("acme", OPEN, quotas=Quotas(**quotas))


def open_sessions(node: MovingNode, count: int) -> int:
    """Answers how many were let in."""
    opened = 0
    for _ in range(count):
        try:
            node.connect()
        except QuotaExceeded:
            break
        opened += 1
    return opened


def fill(node: MovingNode) -> int:
    """Answers how many sessions the node has then."""
    open_sessions(node, 50)
    return len(node.node.hub("acme").sessions)


def sessions(cluster: MovingCluster) -> int:
    return sum(len(node.node.hub("acme").sessions) for node in cluster.nodes.values())


async def eventually(cluster: MovingCluster, condition: Callable[[], bool]) -> None:
    """As time goes by: what is too little to be divided goes from node to node by the second. A
    turn lasts for a few reports, since one node must let go before another takes."""
    async with asyncio.timeout(20):
        while not condition():
            cluster.clock.advance(0.1)
            await asyncio.sleep(0.05)


async def test_sessions_of_a_hub_are_counted_on_all_nodes(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, NODES, hubs=[hub_with(sessions=20)]) as cluster:
        nodes = list(cluster.nodes.values())
        assert sum(open_sessions(node, 50) for node in nodes) == 20, "all at one moment"
        for _ in range(5):
            cluster.clock.advance(1)
            await asyncio.sleep(0.1)
            assert not any(open_sessions(node, 50) for node in nodes)


async def test_a_busy_node_gets_what_idle_ones_do_not_use(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, NODES, hubs=[hub_with(sessions=20)]) as cluster:
        east = cluster.nodes["east"]
        await eventually(cluster, lambda: fill(east) >= 20)
        assert sessions(cluster) == 20
        await asyncio.sleep(0.3)
        assert not open_sessions(cluster.nodes["west"], 5)
        await cluster.kill("east")
        west = cluster.nodes["west"]
        await eventually(cluster, lambda: fill(west) >= 20)
        assert sessions(cluster) == 20


async def test_channels_of_a_hub_are_counted_on_all_owners(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, NODES, hubs=[hub_with(channels=12)]) as cluster:
        east = cluster.nodes["east"]

        async def attach(number: int) -> str:
            try:
                await east.node.bus.ask(Attach("acme", f"c{number}"))
            except HubbubError as error:
                return error.code
            return "ok"

        answers = [await attach(number) for number in range(60)]
        assert set(answers) == {"ok", "quota_exceeded"}
        held = sum(node.owner.channels.count("acme") for node in cluster.nodes.values())
        assert 4 <= held <= 12


async def test_rates_of_a_hub_are_shared_by_demand(tmp_path: Path) -> None:
    async with MovingCluster(tmp_path, NODES, hubs=[hub_with(messages_per_second=90)]) as cluster:
        nodes = list(cluster.nodes.values())

        def accepted(node: MovingNode, count: int) -> int:
            hub, now = node.node.hub("acme"), cluster.clock.monotonic()
            return sum(hub.messages.take(1, now) for _ in range(count))

        assert [accepted(node, 200) for node in nodes] == [30, 30, 30]
        for _ in range(20):  # east alone goes on
            cluster.clock.advance(0.2)
            accepted(nodes[0], 200)
            await asyncio.sleep(0.11)
        cluster.clock.advance(1)
        shares = [accepted(node, 200) for node in nodes]
        assert sum(shares) <= 91
        assert shares[0] >= 70
