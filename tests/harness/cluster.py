"""Whole nodes with a NATS server and a database between them: in this process, or in their own."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.postgres import PASSWORD
from harness.hub_process import HubProcess
from harness.postgres import TestDatabase
from harness.running_hub import RunningHub, Socket, hub_settings
from hubbub.domain.names import partition_of
from hubbub.domain.ring import make_ring
from hubbub.domain.rules import HubConfiguration
from hubbub.server.nats_server import USER, NatsServer
from hubbub.server.wiring import Server


class Common:
    """Shared by the nodes of a cluster: a broker, a database, secrets."""

    def __init__(self, broker: str, password: str, database: TestDatabase) -> None:
        self.database = database
        self.secret = secrets.token_hex(32)
        self._broker = broker
        self._password = password

    def keys(self, node: str, **more: object) -> dict[str, object]:
        """The settings of a node, by their keys with `__` for the dots."""
        options = self.database.options
        return {
            "storage__postgres__host": "127.0.0.1",
            "storage__postgres__port": options.port,
            "storage__postgres__user": options.user,
            "storage__postgres__password": PASSWORD,
            "storage__postgres__dbName": options.database,
            "sql__maxConnections": 3,
            "sql__idleConnections": 2,
            "auth__session__secret": f"s{self.secret}",
            "auth__admin__secret": f"a{self.secret}",
            "broker__host": self._broker,
            "broker__user": USER,
            "broker__password": self._password,
            "cluster__secretKey": self.secret,
            "cluster__node": node,
            "cluster__silenceTimeout": 4,  # the machine may be busy with other tests
            "journal__enabled": False,
            **more,
        }


class Ground(Common):
    """The same with one NATS server, which can be killed."""

    def __init__(self, nats: NatsServer, database: TestDatabase) -> None:
        super().__init__(nats.url, nats.password, database)
        self.nats = nats


@asynccontextmanager
async def ground(folder: Path, database: TestDatabase) -> AsyncIterator[Ground]:
    nats = NatsServer(folder)
    await nats.start()
    try:
        yield Ground(nats, database)
    finally:
        await nats.stop()


async def start_node(
    folder: Path, on: Ground, name: str, hubs: Sequence[HubConfiguration], **more: object
) -> RunningHub:
    """A node in this process."""
    server = Server(hub_settings(folder / name, *hubs, **on.keys(name, **more)))
    await server.start()
    return RunningHub(server)


class NodeProcess(HubProcess):
    """A node in a process of its own."""

    def __init__(
        self, folder: Path, on: Common, name: str, hubs: dict[str, Any], **more: object
    ) -> None:
        folder = folder / name
        folder.mkdir()
        settings: dict[str, Any] = {"storage": {"path": str(folder / "data")}}
        for key, value in on.keys(name, **more).items():
            *path, last = key.split("__")
            place = settings
            for part in path:
                place = place.setdefault(part, {})
            place[last] = value
        super().__init__(folder, hubs, **settings)


@asynccontextmanager
async def node_processes(
    folder: Path, on: Ground, hubs: dict[str, Any], *names: str, **more: object
) -> AsyncIterator[dict[str, NodeProcess]]:
    async with AsyncExitStack() as stack:
        nodes = {name: NodeProcess(folder, on, name, hubs, **more) for name in names}
        for node in nodes.values():
            await stack.enter_async_context(node)
        await asyncio.gather(*(node.start() for node in nodes.values()))
        yield nodes


def channel_of(owner: str, nodes: Sequence[str], prefix: str = "news", hub: str = "acme") -> str:
    """A channel that the ring of these nodes gives to this one."""
    owners = make_ring((node, "") for node in nodes).owners
    names = (f"{prefix}-{number}" for number in range(10_000))
    return next(name for name in names if owners[partition_of(hub, name)] == owner)


class Crowd:
    """The members of a channel and their number, as one subscriber was told."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self.present: dict[str, str | None] = {}
        self.count = 0

    async def until(self, condition: Callable[[Crowd], bool]) -> None:
        try:
            await self._until(condition)
        except TimeoutError:
            raise AssertionError(f"{self.present}, {self.count} in the end") from None

    async def _until(self, condition: Callable[[Crowd], bool]) -> None:
        while not condition(self):
            envelope = await self._socket.next()
            payload = envelope["payload"]
            named = {m["sessionID"]: m.get("userID") for m in payload.get("presence", ())}
            if envelope["event"] == "Presence":
                self.present = named
            elif envelope["event"] == "Join":
                self.present |= named
            elif envelope["event"] == "Leave":
                self.present = {k: v for k, v in self.present.items() if k not in named}
            elif envelope["event"] == "Occupancy":
                self.count = int(payload["count"])


async def eventually(
    attempt: Callable[[], Awaitable[object]], within_seconds: float = 40.0
) -> float:
    """Try until it answers something true; answers how long that took."""
    begun = time.monotonic()
    async with asyncio.timeout(within_seconds):
        while not await attempt():
            await asyncio.sleep(0.005)
    return time.monotonic() - begun
