"""`make cluster`, as a reader of the README tries it."""

from __future__ import annotations

import asyncio
import os
import re
import runpy
import shlex
import signal
import sys
from pathlib import Path

import psutil
import pytest

from benchmarks.servers import free_port
from harness.command import PATIENCE_SECONDS, hubbub, running_hubbub

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spec("CLU-01", "UI-04")


def first_port() -> int:
    """Such that the ports are free which the nodes take: each has two, 10 above the one before."""
    taken = runpy.run_path(str(ROOT / "scripts" / "cluster.py"))["taken"]
    while True:
        port = free_port()
        if taken(port + 10 * node + door for node in range(3) for door in range(2)) is None:
            return port


@pytest.mark.timeout(180)
async def test_three_nodes_are_one_hub_that_outlives_the_owner_of_a_channel() -> None:
    """The commands are those that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "scripts/cluster.py", "--port", str(first_port()),
        cwd=ROOT, env={**os.environ, "PYTHONPATH": "."}, start_new_session=True,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    try:
        async with asyncio.timeout(120):
            while "Ctrl-C stops everything" not in said:
                line = await process.stdout.readline()
                assert line, said
                said += line.decode()
        children = psutil.Process(process.pid).children(recursive=True)
        steps = dict(re.findall(r"^  (\w[\w ]+?) {2,}(\S.+)$", said, re.MULTILINE))
        subscribe, publish, go_on = (
            shlex.split(steps[name])[1:]
            for name in ("Subscribe on one", "Publish on another", "Go on")
        )
        async with running_hubbub(*subscribe) as subscriber:
            await subscriber.remark("subscribed")
            assert (await hubbub(*publish)).code == 0
            assert "Hello" in await subscriber.line()
            owner = re.search(r"kill -9 (\d+)", steps["Kill the owner"])
            assert owner is not None
            os.kill(int(owner[1]), signal.SIGKILL)
            async with asyncio.timeout(60):
                while (await hubbub(*go_on)).code:
                    pass  # until another node owns the channel
            await subscriber.line("Still here")
    finally:
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    _, alive = psutil.wait_procs(children, PATIENCE_SECONDS)
    assert not alive
