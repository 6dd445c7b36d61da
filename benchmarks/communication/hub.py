"""A hub in this process whose peers are reached in memory, as in the report: there, too, what sends
is in the process of the middleware."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.communication import adapters
from benchmarks.hub import HUB
from benchmarks.servers import workplace
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import CollectiveInfo, PeerInfo
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.communication.service import Communication
from hubbub.server.garbage import GarbageCollection
from hubbub.server.settings import load
from hubbub.server.wiring import Server

SERVICE = Identity("bench", Level.SERVICE)
_AT_ONCE = 1000
assert adapters.INPUTS


class Hub:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.communication = server.node.feature(Communication)
        self._hub = server.node.hub(HUB)

    async def send(self, message: PeerMessage, transient: bool = False) -> str:
        return await self.communication.send(self._hub, SERVICE, message, transient)

    async def save_peers(self, peers: list[tuple[str, PeerInfo]]) -> None:
        for start in range(0, len(peers), _AT_ONCE):
            await self.communication.save_peers(self._hub, peers[start : start + _AT_ONCE])

    async def save_collective(self, name: str, members: tuple[str, ...]) -> None:
        await self.communication.save_collective(self._hub, name, CollectiveInfo(members))

    @property
    def waiting(self) -> int:
        """Deliveries."""
        return self.server.communication.waiting().get(HUB, 0)


@contextlib.asynccontextmanager
async def running_hub(used: Mapping[str, AdapterSettings]) -> AsyncIterator[Hub]:
    """Its store is under ./data, so that "synced to disk" means a disk."""
    home = Path("data")
    home.mkdir(exist_ok=True)
    with workplace(home) as directory:
        keys = {"listener.port": 0, "storage.path": str(directory), "debug.level": "warning"}
        hub = HubConfiguration(HUB, adapters=dict(used))
        settings = load(None, {}, {**keys, "auth.session.secret": secrets.token_hex(32)})
        server = Server(msgspec.structs.replace(settings, hubs={HUB: hub}))
        await server.start()
        garbage = GarbageCollection(server.announce_pause)  # as `hubbub serve` does
        garbage.start()
        try:
            yield Hub(server)
        finally:
            garbage.stop()
            await server.stop()


def in_process_of_its_own(module: str, *arguments: object) -> dict[str, Any]:
    """What `python -m benchmarks.communication.<module>` prints, given the arguments in JSON."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.communication.{module}", json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {arguments}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
