"""Clients of other makes, written from docs/zeromq.md alone, run the whole protocol against a hub
in a process of its own."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.asyncio

from benchmarks.servers import free_port
from harness.hub_process import HubProcess
from hubbub.domain.permissions import Identity, Level
from hubbub.server.access import make_tokens
from hubbub.server.clock import SystemClock
from hubbub.server.settings import load

HERE = Path(__file__).parent
JAR = Path("/usr/share/java/jeromq.jar")
PYZMQ = (sys.executable, "-I", str(HERE / "pyzmq" / "topics_client.py"))
JEROMQ = ("java", "-cp", str(JAR), str(HERE / "jeromq" / "TopicsClient.java"))
without_jeromq = pytest.mark.skipif(
    not JAR.exists() or shutil.which("javac") is None,
    reason="JeroMQ or a JDK is missing; run: apt-get install libjeromq-java default-jdk-headless",
)
CLIENTS = [
    pytest.param(PYZMQ, id="pyzmq"),
    pytest.param(JEROMQ, id="jeromq", marks=without_jeromq),
]
OPEN = {"public": True, "clientPublish": True}
HUBS: dict[str, Any] = {
    "shop": {
        "settings": {"defaultRules": "open", "topicRules": "kept"},
        "rules": {"open": OPEN, "kept": {**OPEN, "store": True}},
    }
}


class Program:
    """A client, with its lines as they come."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    @classmethod
    async def start(cls, *command: str) -> Program:
        return cls(
            await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
        )

    async def line(self, wanted: str) -> None:
        assert self.process.stdout is not None
        while wanted not in self.lines:
            line = await asyncio.wait_for(self.process.stdout.readline(), 20)
            if not line:
                await self.ended()
                raise AssertionError(f"{wanted!r} did not come, only {self.lines}")
            self.lines.append(line.decode().rstrip())

    async def ended(self) -> None:
        out, err = await asyncio.wait_for(self.process.communicate(), 20)
        self.lines += out.decode().splitlines()
        assert self.process.returncode == 0, err.decode()


def tokens(hub: HubProcess) -> list[str]:
    """Of ann, of bob, and of an administrator."""
    made = make_tokens(load(hub.config, {}), SystemClock())
    admin = Identity(level=Level.ADMIN)
    return [
        *(made.issue("shop", Identity(user_id=user), 600) for user in ("ann", "bob")),
        made.issue("*", admin, 600),
    ]


@pytest.mark.spec("ONCE-01", "ONCE-04")
@pytest.mark.parametrize("command", CLIENTS)
async def test_a_client_speaks_the_protocol_from_its_documentation_and_resends_what_got_lost(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """Whoever takes the first request never answers it. After its time-out the client asks again,
    and finds a hub; in the end it shuts that down."""
    port = free_port()
    endpoint = f"tcp://127.0.0.1:{port}"
    hub = HubProcess(tmp_path, HUBS, zeromq={"endpoint": endpoint})
    arguments = (endpoint, "1500", *tokens(hub))
    async with hub:
        with zmq.asyncio.Context() as context, context.socket(zmq.ROUTER) as silent:
            silent.bind(endpoint)
            client = await Program.start(*command, *arguments)
            _, _, first, *_ = await asyncio.wait_for(silent.recv_multipart(), 20)
            assert first == b"ping"
            silent.close(linger=0)
        await hub.start()
        await client.line("ok shutdown")
        await client.ended()
        assert client.lines[-1] == "done"
        assert "resend" in client.lines
        assert sum(line.startswith("ok ") for line in client.lines) >= 29
        assert await hub.ended() == 0
