"""Nodes in processes of their own, with a NATS server and PostgreSQL, and what they note in their
logs: moments of the machine's monotonic clock, so that those of several processes compare."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.hub import HUB, Hubbub, configuration
from benchmarks.postgres import PASSWORD, USER, LocalPostgres, local_postgres
from benchmarks.servers import Running, free_port, workplace
from hubbub.server import nats_server
from hubbub.server.nats_server import NatsServer
from hubbub.server.supervisor import end_with_parent

NAMES = ("east", "north", "west")
FOURTH = "south"
_START_SECONDS = 60.0
_PATIENCE_SECONDS = 30.0
_MANY = 1_000_000

Note = dict[str, Any]


def database_of(postgres: LocalPostgres) -> dict[str, object]:
    return {
        "host": "127.0.0.1",
        "port": postgres.port,
        "user": USER,
        "password": PASSWORD,
        "dbName": "postgres",
        "sslMode": "disable",
    }


class BenchNode:
    """One node. `notes` reads what it has noted so far."""

    def __init__(self, name: str, folder: Path, settings: dict[str, Any], port: int) -> None:
        self.name = name
        self.port = port
        self._log = folder / f"{name}.log"
        self._config = folder / f"{name}.yaml"
        self._config.write_text(json.dumps(settings))
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        serve = [sys.executable, "-m", "hubbub.cli.main", "serve", "--config", str(self._config)]
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *serve,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                preexec_fn=end_with_parent,
            )
        await self.until(lambda: self.note("the ring is in effect here") is not None)
        async with asyncio.timeout(_START_SECONDS):
            while not await self._listens():
                await asyncio.sleep(0.02)

    async def _listens(self) -> bool:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            return True
        return False

    @property
    def server(self) -> Hubbub:
        """For the load of other benchmarks."""
        return Hubbub(Running(self.pid), self.port, self._config)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> None:
        assert self._process is not None
        await self._process.wait()

    async def close(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def notes(self, after: float = 0.0) -> list[Note]:
        """Those with a moment later than `after`."""
        lines = self._log.read_bytes().split(b"\n") if self._log.exists() else []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                note = json.loads(line)
                if isinstance(note, dict) and note.get("monotonic", 0.0) > after:
                    found.append(note)
        return found

    def note(self, message: str, after: float = 0.0, **fields: object) -> Note | None:
        """The first with this message and these fields."""
        for note in self.notes(after):
            if note["message"] == message and fields.items() <= note.items():
                return note
        return None

    async def until(self, condition: Callable[[], bool]) -> None:
        """The moment itself is in the log; how often one looks does not matter."""
        assert self._process is not None
        async with asyncio.timeout(_START_SECONDS):
            while not condition():
                if self._process.returncode is not None:
                    log = self._log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.name} ended: {log}")
                await asyncio.sleep(0.05)


class BenchCluster:
    """Three nodes, and a fourth that comes and goes."""

    def __init__(
        self, folder: Path, postgres: LocalPostgres, nats: NatsServer, settings: dict[str, object]
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._postgres = postgres
        self.nats = nats
        self._secret = secrets.token_hex(32)
        self.nodes = {name: self.node(name) for name in NAMES}

    def node(self, name: str) -> BenchNode:
        port = free_port()
        settings: dict[str, Any] = configuration(port)
        settings["session"] |= {"maxChannels": _MANY, "messageBurst": _MANY}
        settings["storage"] = {
            "path": str(self._folder / name),
            "postgres": database_of(self._postgres),
        }
        settings["sql"] = {"maxConnections": 4}
        settings["auth"] = {
            "session": {"secret": f"s{self._secret}"},
            "admin": {"secret": f"a{self._secret}"},
        }
        settings["broker"] = {
            "host": self.nats.url,
            "user": nats_server.USER,
            "password": self.nats.password,
        }
        settings["cluster"] = {"secretKey": self._secret, "node": name}
        settings["journal"] = {"enabled": False}
        settings["debug"] = {"level": "info"}
        return BenchNode(name, self._folder, settings | self._settings, port)

    async def first(self, message: str, after: float, **fields: object) -> dict[str, float]:
        """When each of the three noted it first; waits for the last."""
        for node in self.nodes.values():
            await node.until(lambda n=node: n.note(message, after, **fields) is not None)  # type: ignore[misc]
        notes = {name: node.note(message, after, **fields) for name, node in self.nodes.items()}
        return {name: note["monotonic"] for name, note in notes.items() if note is not None}

    def last(self, message: str, after: float) -> list[float]:
        """When each of the three noted it last, where it did."""
        moments = []
        for node in self.nodes.values():
            found = [n["monotonic"] for n in node.notes(after) if n["message"] == message]
            moments += found[-1:]
        return moments


@asynccontextmanager
async def bench_cluster(**settings: object) -> AsyncIterator[BenchCluster]:
    """`settings` take the place of categories of the nodes' configuration files."""
    with local_postgres() as postgres, workplace() as folder:
        nats = NatsServer(folder)
        await nats.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(nats.stop)
            cluster = BenchCluster(folder, postgres, nats, settings)
            for node in cluster.nodes.values():
                stack.push_async_callback(node.close)
            await asyncio.gather(*(node.start() for node in cluster.nodes.values()))
            yield cluster


__all__ = ["FOURTH", "HUB", "NAMES", "BenchCluster", "BenchNode", "bench_cluster", "database_of"]
