"""The hub's process: started, stopped, killed and started again on the same data."""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp

from benchmarks.load import processes
from benchmarks.servers import free_port
from benchmarks.soak.plan import HUB
from hubbub.domain.permissions import Identity, Level
from hubbub.server.access import make_tokens
from hubbub.server.clock import SystemClock
from hubbub.server.settings import load

_OPEN = {"public": True, "clientPublish": True, "allowAnonymous": True}
_START_SECONDS = 30
_STOP_SECONDS = 20
_DAY = 24 * 3600.0


class Hub:
    """`available` is set while clients may connect; they are expected to wait for it."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.available = asyncio.Event()
        self.lives = 0
        self.idle_descriptors = 0
        self.log = folder / "output.log"
        self.folder = folder
        self._config = folder / "hubbub.yaml"
        self._config.write_text(json.dumps(_settings(self.port, folder / "data")))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/hubs/{HUB}"

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/v1/hubs/{HUB}/socket"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it and, before anyone connects, count its descriptors."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hubbub.cli.main", "serve", "--config", str(self._config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
            )
        async with asyncio.timeout(_START_SECONDS):
            while await self.metrics() is None:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the hub did not start: {self.log.read_text()[-2000:]}")
                await asyncio.sleep(0.05)
        self.lives += 1
        self.idle_descriptors = await self.idle_count()
        self.available.set()

    async def stop(self, number: signal.Signals) -> None:
        """End this life. With SIGKILL its workers end by themselves."""
        self.available.clear()
        members = processes.family(self.pid)
        os.kill(self.pid, number)
        assert self._process is not None
        await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
        async with asyncio.timeout(_STOP_SECONDS):
            while any(Path(f"/proc/{pid}").exists() for pid in members):
                await asyncio.sleep(0.02)

    def kill(self) -> None:
        """Whatever happened, leave nothing behind."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def tokens(self, users: int) -> list[str]:
        """One for each user, who may do what everyone may."""
        return [self._issue(HUB, Identity(user_id=f"u{number}")) for number in range(users)]

    def admin_token(self) -> str:
        return self._issue("*", Identity(user_id="admin", level=Level.ADMIN))

    def _issue(self, hub: str, identity: Identity) -> str:
        return make_tokens(load(self._config, {}), SystemClock()).issue(hub, identity, _DAY)

    async def metrics(self) -> str | None:
        """The page for Prometheus, or None while nobody answers."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(
                    f"http://127.0.0.1:{self.port}/metrics",
                    headers={"Authorization": f"Bearer {self.admin_token()}"},
                ) as answer,
            ):
                return await answer.text()
        except aiohttp.ClientError:
            return None

    async def idle_count(self) -> int:
        """Descriptors of the hub and its workers once no client is connected."""
        async with asyncio.timeout(_STOP_SECONDS):
            while connections(await self.metrics() or "") != 0:
                await asyncio.sleep(0.05)
        counts = []
        for _ in range(10):  # the connection that asked may not be gone yet
            await asyncio.sleep(0.02)
            counts.append(descriptors(self.pid))
        return min(counts)


def connections(metrics: str) -> int:
    """Sessions and HTTP connections, but for the one that asks."""
    counts = re.findall(r"^hubbub_(?:sessions\{[^}]*\}|http_connections) (\S+)$", metrics, re.M)
    return int(sum(map(float, counts))) - 1


def descriptors(pid: int) -> int:
    return sum(len(os.listdir(f"/proc/{member}/fd")) for member in processes.family(pid))


def _settings(port: int, data: Path) -> dict[str, object]:
    rules = {
        "log": {**_OPEN, "store": True},
        "live": {**_OPEN, "liveHistory": True},
        "state": {**_OPEN, "retain": True},
        "gate": _OPEN,
        "crowd": _OPEN,
    }
    hub = {
        "settings": {"allowAnonymous": True, "defaultRules": "crowd", "sessionRestore": True},
        "rules": rules,
        "namespaces": {name: name for name in rules},
    }
    return {
        "listener": {"port": port, "connectionsPerSecond": 0, "shutdownTimeout": 5},
        "connection": {"ws": {"pingInterval": 5, "pongTimeout": 5}},
        "session": {"messagesPerSecond": 0, "restoreTtl": 5},
        "limits": {"anonymousPerSecond": 0, "clientPerSecond": 0, "connectionsPerSecond": 0},
        "channel": {"idleTimeout": 5},
        "engine": {"maxLiveHistorySize": 100},  # full long before memory is watched
        "storage": {"path": str(data)},
        "auth": {name: {"secret": secrets.token_hex(32)} for name in ("session", "admin")},
        "debug": {"level": "warning", "logFormat": "json"},
        "hubs": {HUB: hub},
    }
