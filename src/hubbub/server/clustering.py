"""A node of a cluster, built from the settings: NATS, membership, ring, and the bus."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets

import msgspec

from hubbub import __version__
from hubbub.cluster.leases import Leases
from hubbub.cluster.member import ClusterMember
from hubbub.cluster.membership import Membership
from hubbub.cluster.nats_connection import NatsConnection
from hubbub.cluster.nats_transport import NatsTransport
from hubbub.cluster.ownership import Ownership
from hubbub.cluster.remote import Patience, RemoteBus
from hubbub.cluster.sealing import Seals
from hubbub.domain.errors import HubbubError
from hubbub.engine.administration import NodeFacts
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.node import Node
from hubbub.engine.rooms import NodeRequests
from hubbub.ports.clock import Clock
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.server.settings import Settings
from hubbub.server.settings.cluster_checks import node_name
from hubbub.server.telemetry.cluster import ClusterFigures

logger = logging.getLogger(__name__)

PATIENCE = Patience(first_retry_seconds=0.2)
"""NATS rarely loses messages, and a busy node must not be asked again too soon."""
DISCONNECTS = "$SYS.ACCOUNT.*.DISCONNECT"
"""The NATS subject for closed connections, available if its system account is shared with ours."""


class _BrokerClient(msgspec.Struct, frozen=True):
    name: str = ""


class _Disconnect(msgspec.Struct, frozen=True):
    client: _BrokerClient = _BrokerClient()


_disconnect = msgspec.json.Decoder(_Disconnect).decode


class Clustered:
    """`server.fabric.Fabric` over NATS."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: Store,
        spans: Spans | None = None,
    ) -> None:
        cluster, broker = settings.cluster, settings.broker
        self.node_name = node_name(settings)
        incarnation = secrets.token_hex(8)
        self._store = store
        self._heartbeat_seconds = cluster.heartbeat_interval
        self._prefix = f"hubbub/{broker.subject}/"
        name = f"{self._prefix}{self.node_name}/{incarnation}"
        self._connection = NatsConnection(broker, name)
        assert cluster.secret_key is not None
        secret = cluster.secret_key.reveal()
        self._seals = Seals(self.node_name, incarnation, broker.subject, secret, clock.now)
        self._transport = NatsTransport(
            self.node_name, broker.subject, self._connection, self._seals
        )
        self.membership = Membership(
            self.node_name,
            incarnation,
            cluster.role,
            version=__version__,
            silence_seconds=cluster.silence_timeout,
        )
        self._leases = Leases(
            self.node_name, store, self.membership, lambda: self.is_deaf, clock.monotonic
        )
        self.ownership = Ownership(self.node_name, store, self._leases.may_take)
        self.bus = RemoteBus(
            self.node_name,
            self._transport,
            owners=self.ownership,
            nodes=lambda: self.membership.nodes,
            patience=PATIENCE,
            incarnation=incarnation,
            spans=spans,
        )
        self._beating: asyncio.Task[None] | None = None
        self.member: ClusterMember
        self._owner: ChannelOwner

    @property
    def is_deaf(self) -> bool:
        """Whether the other nodes are unreachable."""
        return self.member.is_deaf or not self._connection.connected

    def connect(self, owner: ChannelOwner, node: Node, requests: NodeRequests) -> None:
        self._owner = owner
        self.bus.connect(owner, node, requests, node.feed_events)
        self.member = ClusterMember(
            self.membership,
            self.ownership,
            self.bus,
            owner,
            node,
            self._transport,
            self._heartbeat_seconds,
            node.quotas,
        )
        node.quotas.share(self.node_name, owner.channels.counts)

    def facts(self) -> NodeFacts:
        partitions, channels = len(self.ownership.served), self._owner.channels.count()
        links = [name for name in self.membership.nodes if name != self.node_name]
        return NodeFacts(self.membership.role, __version__, partitions, channels, links)

    def figures(self) -> ClusterFigures:
        return ClusterFigures(
            nodes=len(self.membership.nodes),
            partitions=len(self.ownership.served),
            in_reach=not self.is_deaf,
            refused=self._seals.refused,
            unsent=self._transport.lost,
        )

    async def open(self) -> None:
        await self._connection.open()
        await self._transport.start()
        await self._connection.hear(DISCONNECTS, self._disconnected)

    async def join(self, address: str) -> None:
        self.membership.address = address
        if self.membership.role == "core":
            await self._leases.beat()
            self._beating = asyncio.get_running_loop().create_task(self._leases.run())
        await self.member.join()
        others = ", ".join(self.membership.nodes[1:]) or "nobody else yet"
        logger.info("node %s is in the cluster, with %s", self.node_name, others)

    @property
    def takes_part(self) -> bool:
        return self.member.takes_part

    def announce_pause(self, begins: bool) -> None:
        self.member.announce_pause(begins)

    async def leave(self) -> None:
        await self.member.leave()

    async def close(self) -> None:
        await self.member.close()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
            with contextlib.suppress(HubbubError):
                await self._store.forget_node(self.node_name)
        await self.bus.close()
        await self._transport.flush()
        await self._connection.close()

    def _disconnected(self, data: bytes) -> None:
        try:
            name = _disconnect(data).client.name
        except msgspec.MsgspecError as error:
            logger.warning("ignored a report of NATS: %s", error)
            return
        if name.startswith(self._prefix):
            node, _, incarnation = name.removeprefix(self._prefix).rpartition("/")
            self._leases.gone(node)
            self.membership.disconnected(node, incarnation)
