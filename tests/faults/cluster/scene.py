"""The scene of a campaign: three nodes in processes of their own, each with a way to NATS and to
PostgreSQL that can be cut, and what can happen to them."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect

from benchmarks.postgres import LocalPostgres, local_postgres
from benchmarks.soak.plan import HUB
from benchmarks.soak.wire import LOST, Socket
from harness.cluster import Ground, NodeProcess, channel_of, ground
from harness.cutting_proxy import CuttingProxy, cutting_proxy
from harness.postgres import new_database, restart

NAMES = ("east", "north", "west")
SETTLE_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_SILENCE_SECONDS = 1.0
"""Longer than usual, so that a busy machine is not taken for a fault."""
_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
HUBS: dict[str, Any] = {
    HUB: {
        "settings": {"allowAnonymous": True, "defaultRules": "live"},
        "rules": {"live": {**_OPEN, "liveHistory": True}, "stored": {**_OPEN, "store": True}},
        "namespaces": {"log": "stored", "probe": "stored"},
    }
}
_END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1"


class NodeDoor:
    """Where a client connects that prefers one node; another while that one is away."""

    def __init__(self, scene: Scene, preferred: str) -> None:
        self._scene = scene
        self._preferred = preferred
        self.available = asyncio.Event()
        self.available.set()

    @property
    def _address(self) -> str:
        up = self._scene.up
        name = self._preferred if self._preferred in up or not up else random.choice(sorted(up))
        return f"127.0.0.1:{self._scene.nodes[name].port}/v1/hubs/{HUB}"

    @property
    def url(self) -> str:
        return f"http://{self._address}"

    @property
    def socket_url(self) -> str:
        return f"ws://{self._address}/socket"


class Scene:
    """What can be done to the cluster. Each fault ends with everything started and connected;
    `settle` then waits until it serves again."""

    def __init__(
        self,
        postgres: LocalPostgres,
        on: Ground,
        nodes: dict[str, NodeProcess],
        to_nats: dict[str, CuttingProxy],
        to_postgres: dict[str, CuttingProxy],
    ) -> None:
        self.nodes = nodes
        self.up = set(nodes)
        self._postgres = postgres
        self._on = on
        self._to_nats = to_nats
        self._to_postgres = to_postgres

    def door(self, preferred: str) -> NodeDoor:
        return NodeDoor(self, preferred)

    # -- nodes ----------------------------------------------------------------------------------

    async def kill_node(self, name: str, seconds: float) -> None:
        self.up.discard(name)
        await self.nodes[name].kill()
        await self._come_back(name, seconds)

    async def stop_node(self, name: str, seconds: float) -> None:
        """Clients go on using it until it sends them away."""
        self.nodes[name].signal(signal.SIGTERM)
        code = await self.nodes[name].ended(30)
        self.up.discard(name)
        assert code == 0, f"{name} ended with code {code}"
        await self._come_back(name, seconds)

    async def _come_back(self, name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.nodes[name].start()
        self.up.add(name)

    async def freeze_node(self, name: str, seconds: float) -> None:
        self.nodes[name].signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.nodes[name].signal(signal.SIGCONT)

    async def roll(self, _: str, seconds: float) -> None:
        """Every node in turn, as in an upgrade."""
        for name in NAMES:
            await self.stop_node(name, seconds / 10)
            await self.settle()

    # -- the network ----------------------------------------------------------------------------

    async def cut_node_from_nats(self, name: str, seconds: float) -> None:
        """Its connections break, and new ones are refused."""
        await _cut((self._to_nats[name],), seconds)

    async def cut_node_from_postgres(self, name: str, seconds: float) -> None:
        await _cut((self._to_postgres[name],), seconds)

    async def cut_node_from_all(self, name: str, seconds: float) -> None:
        await _cut((self._to_nats[name], self._to_postgres[name]), seconds)

    async def silence_node(self, name: str, seconds: float) -> None:
        """Nothing comes through to NATS, and nobody is told: the node still believes that it owns
        its channels, and so do those who take them over."""
        await _hold((self._to_nats[name],), seconds)

    async def pull_cable(self, name: str, seconds: float) -> None:
        """The same to NATS and PostgreSQL."""
        await _hold((self._to_nats[name], self._to_postgres[name]), seconds)

    # -- NATS and PostgreSQL ----------------------------------------------------------------------

    async def nats_away(self, _: str, seconds: float) -> None:
        await self._on.nats.kill()
        await asyncio.sleep(seconds)
        await self._on.nats.start()

    async def nats_restarted(self, _: str, seconds: float) -> None:
        await self.nats_away(_, 0)
        await asyncio.sleep(seconds)

    async def postgres_away(self, _: str, seconds: float) -> None:
        self._postgres.kill()
        await asyncio.sleep(seconds)
        await restart(self._postgres)

    async def postgres_restarted(self, _: str, seconds: float) -> None:
        self._postgres.stop()
        await restart(self._postgres)
        await asyncio.sleep(seconds)

    async def no_connections_left(self, _: str, seconds: float) -> None:
        role = self._on.database.name
        await self._operate(f"ALTER ROLE {role} CONNECTION LIMIT 0", end=True)
        await asyncio.sleep(seconds)
        await self._operate(f"ALTER ROLE {role} CONNECTION LIMIT -1")

    async def read_only(self, _: str, seconds: float) -> None:
        """As after a failover to a server that is not the first one yet; connections that were
        made meanwhile stay read-only."""
        role = self._on.database.name
        await self._operate(f"ALTER ROLE {role} SET default_transaction_read_only = on", end=True)
        await asyncio.sleep(seconds)
        await self._operate(f"ALTER ROLE {role} RESET default_transaction_read_only")

    async def _operate(self, statement: str, end: bool = False) -> None:
        async with self._on.database.operator() as connection:
            await connection.execute(statement)
            if end:
                await connection.fetch(_END_CONNECTIONS, self._on.database.name)

    # -- afterwards -----------------------------------------------------------------------------

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
                async with asyncio.timeout(_ANSWER_SECONDS), self._connected(name) as socket:
                    while waiting:
                        await first_message(socket, waiting[0])
                        waiting.pop(0)
            except LOST:
                await asyncio.sleep(0.1)

    @asynccontextmanager
    async def _connected(self, name: str) -> AsyncIterator[Socket]:
        url = f"ws://127.0.0.1:{self.nodes[name].port}/v1/hubs/{HUB}/socket"
        async with connect(url, compression=None, proxy=None, close_timeout=1) as connection:
            yield Socket(connection)

    async def begin(self, channels: Iterable[str]) -> None:
        """A stored channel has an epoch that lasts from its first message on."""
        async with self._connected(NAMES[0]) as socket:
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


async def _cut(ways: Iterable[CuttingProxy], seconds: float) -> None:
    for way in ways:
        way.refusing = True
        way.cut_all()
    await asyncio.sleep(seconds)
    for way in ways:
        way.refusing = False


async def _hold(ways: Iterable[CuttingProxy], seconds: float) -> None:
    for way in ways:
        way.hold()
    await asyncio.sleep(seconds)
    for way in ways:
        way.let_go()


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    with local_postgres() as postgres:
        async with AsyncExitStack() as stack:
            on = await stack.enter_async_context(ground(folder, await new_database(postgres)))
            to_nats, to_postgres, nodes = {}, {}, {}
            for name in NAMES:
                to_nats[name] = await stack.enter_async_context(cutting_proxy(on.nats.port))
                to_postgres[name] = await stack.enter_async_context(cutting_proxy(postgres.port))
                more: dict[str, object] = {
                    "broker__host": f"nats://127.0.0.1:{to_nats[name].port}",
                    "storage__postgres__port": to_postgres[name].port,
                    "cluster__silenceTimeout": _SILENCE_SECONDS,
                }
                nodes[name] = NodeProcess(folder, on, name, HUBS, **more)
                await stack.enter_async_context(nodes[name])
            await asyncio.gather(*(node.start() for node in nodes.values()))
            yield Scene(postgres, on, nodes, to_nats, to_postgres)
