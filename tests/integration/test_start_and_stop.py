"""Start and stop of a whole server: nothing is left open, wherever a start fails."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from benchmarks.servers import free_port
from harness import worker_forks
from harness.running_hub import RunningHub, hub_settings
from hubbub.server.settings import Settings
from hubbub.server.steps import Step
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("OPS-03")

STEPS = [
    "store",
    "settings",
    "journal",
    "outgoing connections",
    "services",
    "fabric",
    "connections",
    "channels",
    "plugins",
    "sessions",
    "dashboard",
    "administration",
    "membership",
    "restores",
    "ZeroMQ",
    "listener",
    "address",
    "services' requests",
    "telemetry",
    "upkeep",
]


@pytest.fixture(autouse=True)
def warm() -> None:
    """The process that forks the workers of all tests outlives them."""
    worker_forks.fork_server()


@dataclass(frozen=True)
class Open:
    """What a process has open."""

    tasks: frozenset[asyncio.Task[object]]
    children: frozenset[int]
    sockets: frozenset[str]
    threads: frozenset[str]

    @staticmethod
    def now() -> Open:
        return Open(
            frozenset(asyncio.all_tasks()),
            frozenset(child.pid for child in psutil.Process().children(recursive=True)),
            frozenset(filter(_lasting, map(_link, os.listdir("/proc/self/fd")))),
            frozenset(each.name for each in threading.enumerate() if not _pooled(each)),
        )


def _link(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:
        return ""  # the folder that was listed


def _lasting(link: str) -> bool:
    return link.startswith("socket:") or link.endswith((".address", ".db"))


def _pooled(thread: threading.Thread) -> bool:
    """A thread of the event loop's pool, which outlives its work."""
    return thread.name.startswith(("asyncio_", "uvloop_"))


def settings(folder: Path, **more: object) -> Settings:
    """A server that has every part that one node can have."""
    plugins = folder / "plugins"
    plugins.mkdir(exist_ok=True)
    (plugins / "greet.py").write_text("async def run(command, context):\n    return 'hello'\n")
    given = {
        "hcommands__path": str(plugins),
        "hcommands__workers": 1,
        "zeromq__endpoint": "tcp://127.0.0.1:*",
        **more,
    }
    return hub_settings(folder, **given)


def recorded(server: Server, failing: str | None) -> list[str]:
    """Has the server note what it stops, and fail in one step, after that step has started what
    it starts."""
    stopped: list[str] = []
    steps = []
    for step in server.steps:

        async def start(step: Step = step) -> None:
            under_way = step.start()
            if under_way is not None:
                await under_way
            if step.name == failing:
                raise OSError(f"no {step.name}")

        async def stop(step: Step = step) -> None:
            stopped.append(step.name)
            under_way = step.stop()
            if under_way is not None:
                await under_way

        steps.append(Step(step.name, start, stop))
    server.steps[:] = steps
    return stopped


@pytest.mark.parametrize("failing", STEPS)
async def test_a_failed_start_stops_what_was_started_in_reverse_order_and_leaves_nothing_open(
    tmp_path: Path, failing: str
) -> None:
    before = Open.now()
    server = Server(settings(tmp_path))
    stopped = recorded(server, failing)
    with pytest.raises(OSError, match=f"no {failing}"):
        await server.start()
    assert stopped == STEPS[: STEPS.index(failing) + 1][::-1]
    assert Open.now() == before


async def test_a_server_that_ran_leaves_nothing_open(tmp_path: Path) -> None:
    before = Open.now()
    server = Server(settings(tmp_path))
    assert [step.name for step in server.steps] == STEPS
    stopped = recorded(server, None)
    await server.start()
    hub = RunningHub(server)
    socket = await hub.socket()
    await socket.subscribe("room:1")
    await hub.close()
    assert stopped == STEPS[::-1]
    assert Open.now() == before


async def test_a_door_that_opens_half_is_closed_again(tmp_path: Path) -> None:
    """The dashboard has a port of its own, which is free; the listener's is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = {"listener__port": taken.getsockname()[1], "listener__dashboard__port": free_port()}
        before = Open.now()
        with pytest.raises(OSError, match="in use"):
            await Server(settings(tmp_path, **ports)).start()
        assert Open.now() == before


async def test_after_a_failed_start_another_server_can_use_the_folder(tmp_path: Path) -> None:
    first = Server(settings(tmp_path))
    recorded(first, "listener")
    with pytest.raises(OSError, match="no listener"):
        await first.start()
    second = Server(settings(tmp_path))
    await second.start()
    await second.stop()
