"""The scene of a campaign: three nodes in processes of their own, three NATS servers, PostgreSQL.
Each node has ways to them that can be cut, and a network of its own where that is possible."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from benchmarks.postgres import LocalPostgres, local_postgres
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import HUB
from benchmarks.soak.wire import LOST, Socket
from harness.cluster import Common, NodeProcess, channel_of
from harness.cutting_proxy import CuttingProxy, cutting_proxy
from harness.namespaces import Namespace, namespace
from harness.nats_trio import NatsTrio, nats_trio
from harness.postgres import TestDatabase, new_database

NAMES = ("east", "north", "west")
SETTLE_SECONDS = 90.0
_ANSWER_SECONDS = 10.0
_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
HUBS: dict[str, Any] = {
    HUB: {
        "settings": {"allowAnonymous": True, "defaultRules": "live"},
        "rules": {"live": {**_OPEN, "liveHistory": True}, "stored": {**_OPEN, "store": True}},
        "namespaces": {"log": "stored", "probe": "stored"},
    }
}
OWN = {name: channel_of(name, NAMES, "log:of", HUB) for name in NAMES}
"""A stored channel of each node."""
NOW = Path(__file__).parents[3] / "src"
"""The code that is tested."""


class CampaignNode(NodeProcess):
    """A node that runs the code of any checkout, in a network of its own if it has one."""

    network: Namespace | None = None

    def run_code(self, source: Path) -> None:
        """From the next start on."""
        self.environment["PYTHONPATH"] = str(source)

    def command(self, *arguments: str) -> list[str]:
        command = super().command(*arguments)
        return command if self.network is None else self.network.command(*command)


class NodeDoor:
    """Where a client connects that prefers one node; another while that one is away."""

    def __init__(self, scene: Scene, preferred: str) -> None:
        self._scene = scene
        self.preferred = preferred
        self.available = asyncio.Event()
        self.available.set()

    @property
    def _address(self) -> str:
        up = self._scene.up
        away = up and self.preferred not in up
        return self._scene.address(random.choice(sorted(up)) if away else self.preferred)

    @property
    def url(self) -> str:
        return f"http://{self._address}"

    @property
    def socket_url(self) -> str:
        return f"ws://{self._address}/socket"


class Scene:
    """What the faults of `faults.cluster.faults` are made with. Each ends with everything started
    and connected; `settle` then waits until it serves again."""

    def __init__(
        self,
        postgres: LocalPostgres,
        database: TestDatabase,
        nats: NatsTrio,
        nodes: dict[str, CampaignNode],
        to_nats: dict[str, list[CuttingProxy]],
        to_postgres: dict[str, CuttingProxy],
    ) -> None:
        self.postgres = postgres
        self.database = database
        self.nats = nats
        self.nodes = nodes
        self.up = set(nodes)
        self.to_nats = to_nats
        self.to_postgres = to_postgres
        self.ledger = Ledger()
        self.numbers = itertools.count(1)
        """For what the faults themselves publish."""

    def door(self, preferred: str) -> NodeDoor:
        return NodeDoor(self, preferred)

    def address(self, name: str) -> str:
        node = self.nodes[name]
        return f"{node.host}:{node.port}/v1/hubs/{HUB}"

    async def settle(self) -> float:
        """Wait until every node serves the channels of every node; answers how long that took."""
        begun = time.monotonic()
        async with asyncio.timeout(SETTLE_SECONDS):
            await asyncio.gather(*(self._serves(name) for name in NAMES))
        return time.monotonic() - begun

    async def _serves(self, name: str) -> None:
        waiting = [channel_of(owner, NAMES, "probe:p", HUB) for owner in NAMES]
        while waiting:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS), self.connected(name) as socket:
                    while waiting:
                        await first_message(socket, waiting[0])
                        waiting.pop(0)
            except LOST:
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def connected(self, name: str) -> AsyncIterator[Socket]:
        url = f"ws://{self.address(name)}/socket"
        async with connect(url, compression=None, proxy=None, close_timeout=1) as connection:
            yield Socket(connection)

    async def begin(self, channels: Iterable[str]) -> None:
        """A stored channel has an epoch that lasts from its first message on."""
        async with self.connected(NAMES[0]) as socket:
            for channel in channels:
                await first_message(socket, channel)


async def first_message(socket: Socket, channel: str) -> None:
    """Try until one is accepted."""
    while True:
        item = {"channel": channel, "payload": {"json": {"id": "first-1"}}, "reqID": 1}
        await socket.send("Publish", publishes=[{**item, "extra": {"store": True}}])
        (result,) = (await socket.find("Ack"))["published"]
        if result["success"]:
            return
        await asyncio.sleep(0.05)


@asynccontextmanager
async def scene(
    folder: Path, first: Path, networks: bool, silence_seconds: float
) -> AsyncIterator[Scene]:
    """The nodes run the code in `first` until they are told otherwise."""
    with local_postgres() as postgres:
        async with AsyncExitStack() as stack:
            database = await new_database(postgres)
            nats = await stack.enter_async_context(nats_trio(folder))
            on = Common(nats.url, nats.password, database)
            to_nats: dict[str, list[CuttingProxy]] = {}
            to_postgres: dict[str, CuttingProxy] = {}
            nodes = {}
            for number, name in enumerate(NAMES):
                network = stack.enter_context(namespace(number)) if networks else None
                here = "127.0.0.1" if network is None else network.address("back", inside=False)
                to_nats[name] = [
                    await stack.enter_async_context(cutting_proxy(port, here))
                    for port in nats.ports
                ]
                to_postgres[name] = await stack.enter_async_context(
                    cutting_proxy(postgres.port, here)
                )
                more: dict[str, object] = {
                    "broker__host": ",".join(f"nats://{here}:{p.port}" for p in to_nats[name]),
                    "storage__postgres__host": here,
                    "storage__postgres__port": to_postgres[name].port,
                    "storage__postgres__sslMode": "disable",
                    "cluster__silenceTimeout": silence_seconds,
                    "listener__port": 0,
                }
                if network is not None:
                    more["listener__host"] = network.address("front", inside=True)
                node = nodes[name] = CampaignNode(folder, on, name, HUBS, **more)
                node.host = str(more.get("listener__host", "127.0.0.1"))
                node.network = network
                node.run_code(first)
                await stack.enter_async_context(node)
            await asyncio.gather(*(node.start() for node in nodes.values()))
            yield Scene(postgres, database, nats, nodes, to_nats, to_postgres)
