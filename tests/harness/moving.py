"""Nodes in one process that find each other, share a store, and come and go."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.clock import FakeClock
from harness.engine import PATIENT, EngineNode, FaultyStore
from harness.running_hub import open_hub
from harness.unreliable import CALM, Faults, UnreliableNetwork
from hubbub.cluster.member import ClusterMember
from hubbub.cluster.membership import Membership, Role
from hubbub.cluster.ownership import Ownership
from hubbub.cluster.remote import RemoteBus
from hubbub.domain.names import partition_of
from hubbub.domain.rules import HubConfiguration


class MovingNode(EngineNode):
    """A node whose partitions are those that the ring gives it."""

    member: ClusterMember
    remote: RemoteBus


class MovingCluster:
    """Starts with these nodes; more can join, and any can leave, die or be cut off."""

    def __init__(
        self,
        path: Path,
        names: Iterable[str] = ("east", "north", "west"),
        *,
        hubs: Iterable[HubConfiguration] = (),
        seed: int = 0,
        faults: Faults = CALM,
        silence_seconds: float = 3.0,
        **limits: Any,
    ) -> None:
        self.store = FaultyStore(path / "hubbub.db")
        self.clock = FakeClock()
        self.network = UnreliableNetwork(seed, faults)
        self.nodes: dict[str, MovingNode] = {}
        self._gone: list[MovingNode] = []
        self._silence_seconds = silence_seconds
        self._names = list(names)
        self._hubs = list(hubs) or [open_hub()]
        self._limits = limits

    async def __aenter__(self) -> MovingCluster:
        await self.store.open()
        await asyncio.gather(*(self.join(name) for name in self._names))
        await self.settled()
        await self.nodes[self._names[0]].directory.declare(self._hubs)
        for node in self.nodes.values():
            await node.directory.load()
        return self

    async def join(self, name: str, role: Role = "core") -> MovingNode:
        async def may_take() -> bool:
            return True

        incarnation = secrets.token_hex(4)
        transport = self.network.transport(name)
        ownership = Ownership(name, self.store, may_take)
        membership = Membership(name, incarnation, role, silence_seconds=self._silence_seconds)
        bus = RemoteBus(
            name,
            transport,
            owners=ownership,
            nodes=lambda: membership.nodes,
            patience=PATIENT,
            incarnation=incarnation,
        )
        node = self.nodes[name] = MovingNode(name, bus, self.store, self.clock, **self._limits)
        node.remote = bus
        quotas = node.node.quotas
        node.member = ClusterMember(
            membership, ownership, bus, node.owner, node.node, transport, quotas=quotas
        )
        quotas.share(name, node.owner.channels.counts)
        await node.directory.load()
        await node.member.join()
        return node

    async def settled(self) -> None:
        """Wait until all agree on the ring and serve it."""
        async with asyncio.timeout(40):
            while True:
                versions = {node.member.membership.ring_version for node in self.nodes.values()}
                rings = {node.member.membership.ring().version for node in self.nodes.values()}
                due = sum(node.node.renewal.due for node in self.nodes.values())
                if len(versions | rings) == 1 and not due:
                    return
                await asyncio.sleep(0.005)

    async def lost(self, name: str) -> None:
        """Wait until all others have given a node up."""
        others = [node.member.membership for node in self.nodes.values() if node.name != name]
        async with asyncio.timeout(40):
            while any(name in membership.nodes for membership in others):
                await asyncio.sleep(0.005)

    async def kill(self, name: str) -> None:
        """Imitates SIGKILL: the node says nothing, and NATS closes its connection."""
        self.vanish(name)
        for other in self.nodes.values():
            membership = other.member.membership
            beat = next((beat for beat in membership.beats if beat.node == name), None)
            if beat is not None:
                membership.disconnected(name, beat.incarnation)
        await self.settled()

    def vanish(self, name: str) -> MovingNode:
        """The node is not heard any more, and its process ends."""
        node = self.nodes.pop(name)
        self.network.everyone.pop(name, None)
        self.network.listen(name, lambda data: None)
        if node.member._beating is not None:
            node.member._beating.cancel()
        node.member._closed = True
        self._gone.append(node)
        return node

    async def leave(self, name: str) -> None:
        node = self.nodes[name]
        await node.member.leave()
        await node.stop()
        await node.member.close()
        await node.remote.close()
        self.network.everyone.pop(name, None)
        del self.nodes[name]
        await self.settled()

    def owner_of(self, channel: str, hub: str = "acme") -> str:
        ring = next(iter(self.nodes.values())).member.ownership.ring
        return ring.owners[partition_of(hub, channel)]

    def channel_of(self, owner: str, prefix: str = "news") -> str:
        names = (f"{prefix}-{number}" for number in range(10_000))
        return next(name for name in names if self.owner_of(name) == owner)

    def other_than(self, *names: str) -> MovingNode:
        return next(node for name, node in self.nodes.items() if name not in names)

    async def __aexit__(self, *_: object) -> None:
        self.network.faults = CALM
        self.network.cut.clear()
        everyone = [*self.nodes.values(), *self._gone]
        for node in everyone:
            await node.member.ownership.close()
            if node.member._beating is not None:
                node.member._beating.cancel()
        for node in everyone:
            await node.remote.close()
            await node.stop()
        await self.store.close()
