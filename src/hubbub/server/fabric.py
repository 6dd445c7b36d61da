"""What connects a node with the owners of channels: nothing but calls where it is alone, a cluster
where it is not."""

from __future__ import annotations

from typing import Protocol

from hubbub import __version__
from hubbub.cluster.local import NODE, LocalBus
from hubbub.cluster.remote import RemoteBus
from hubbub.cluster.service import RereadHub
from hubbub.domain.names import PARTITIONS
from hubbub.engine.administration import NodeFacts
from hubbub.engine.channels.owner import ChannelOwner
from hubbub.engine.node import Node
from hubbub.ports.clock import Clock
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.server.settings import Settings
from hubbub.server.telemetry.cluster import ClusterFigures


class Fabric(Protocol):
    """Of one process: `connect`, `open`, `join`; and in the end `leave`, `close`."""

    @property
    def node_name(self) -> str: ...

    @property
    def bus(self) -> LocalBus | RemoteBus: ...

    def connect(self, owner: ChannelOwner, node: Node) -> None:
        """Close the circle after everything exists."""

    def facts(self) -> NodeFacts:
        """About this node's place among others."""

    def figures(self) -> ClusterFigures: ...

    async def open(self) -> None:
        """Reach the others. Raises `Unavailable`."""

    async def join(self, address: str) -> None:
        """Begin to own channels. Raises `HubbubError`."""

    @property
    def takes_part(self) -> bool:
        """Whether channels can be reached from here, or could at some time."""

    def announce_pause(self, begins: bool) -> None:
        """Tell the others that nothing may be heard of this process for a moment, or that it is
        over."""

    async def leave(self) -> None:
        """Hand the channels over, while sessions go on."""

    async def close(self) -> None: ...


class Alone:
    """The only node there is: it owns everything."""

    node_name = NODE

    def __init__(self, store: Store) -> None:
        self._store = store
        self.bus = LocalBus()
        self._owner: ChannelOwner

    def connect(self, owner: ChannelOwner, node: Node) -> None:
        self._owner = owner
        self.bus.connect(owner, node)

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
    reread_hub: RereadHub,
    spans: Spans | None = None,
) -> Fabric:
    """A cluster where its secret is configured. NATS is loaded only then."""
    if settings.cluster.secret_key is None:
        return Alone(store)
    from hubbub.server.clustering import Clustered

    return Clustered(settings, clock, store, reread_hub, spans)
