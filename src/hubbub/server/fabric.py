"""Connects a node with the owners of channels: by direct calls on a single node, through a cluster
otherwise."""

from __future__ import annotations

from typing import Protocol

from hubbub import __version__
from hubbub.cluster.local import NODE, LocalBus
from hubbub.cluster.remote import RemoteBus
from hubbub.domain.names import PARTITIONS
from hubbub.engine.administration import NodeFacts
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.node import Node
from hubbub.engine.rooms import NodeRequests
from hubbub.ports.clock import Clock
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.server.settings import Settings
from hubbub.server.telemetry.cluster import ClusterFigures


class Fabric(Protocol):
    """The fabric of one process: call `connect`, `open`, `join`; finally `leave`, `close`."""

    @property
    def node_name(self) -> str: ...

    @property
    def bus(self) -> LocalBus | RemoteBus: ...

    def connect(self, owner: ChannelOwner, node: Node, requests: NodeRequests) -> None:
        """Connects owner and node, after both were created; `requests` handles requests between
        nodes."""

    def facts(self) -> NodeFacts:
        """Facts about this node's role in the cluster."""

    def figures(self) -> ClusterFigures: ...

    async def open(self) -> None:
        """Connects to the other nodes. Raises `Unavailable`."""

    async def join(self, address: str) -> None:
        """Starts to own channels. Raises `HubbubError`."""

    @property
    def takes_part(self) -> bool:
        """Whether this node reaches, or may reach, the owners of channels."""

    def announce_pause(self, begins: bool) -> None:
        """Announces that this process will pause for a moment, or that the pause is over."""

    async def leave(self) -> None:
        """Hands over the channels, while sessions continue."""

    async def close(self) -> None: ...


class Alone:
    """The only node, which owns everything."""

    node_name = NODE

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bus = LocalBus()
        self._owner: ChannelOwner

    def connect(self, owner: ChannelOwner, node: Node, requests: NodeRequests) -> None:
        self._owner = owner
        self.bus.connect(owner, node, requests, node.feed_events)

    def facts(self) -> NodeFacts:
        return NodeFacts("core", __version__, len(self._owner.terms), self._owner.channels.count())

    def figures(self) -> ClusterFigures:
        return ClusterFigures(partitions=len(self._owner.terms))

    async def open(self) -> None:
        pass

    async def join(self, address: str) -> None:
        self._owner.start(await self._store.acquire_partitions(range(PARTITIONS), NODE))

    @property
    def takes_part(self) -> bool:
        return True

    def announce_pause(self, begins: bool) -> None:
        pass

    async def leave(self) -> None:
        pass

    async def close(self) -> None:
        pass


def make_fabric(
    settings: Settings,
    clock: Clock,
    store: Store,
    spans: Spans | None = None,
) -> Fabric:
    """A cluster if its secret is configured. NATS is imported only then."""
    if settings.cluster.secret_key is None:
        return Alone(store)
    from hubbub.server.clustering import Clustered

    return Clustered(settings, clock, store, spans)
