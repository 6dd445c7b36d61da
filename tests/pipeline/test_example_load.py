"""The example load says exactly what it did."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from harness.documentation import ROOT
from harness.running_hub import RunningHub, hub_settings, open_hub
from hubbub.server.wiring import Server


@pytest.mark.spec("PIPE-04")
async def test_the_counts_that_the_example_load_prints_are_those_of_the_hub(tmp_path: Path) -> None:
    server = Server(hub_settings(tmp_path, open_hub("demo")))
    await server.start()
    hub = RunningHub(server)
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(ROOT / "examples" / "traffic.py"),
            *("--url", f"ws://{hub.address}", "--seconds", "2"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 50)
        told = json.loads(out)
        counters = server.node.counters["demo"]
        assert told["total messages"] == sum(told["messages"].values()) == 68
        assert counters.messages_in == told["total messages"]
        assert counters.messages_out == told["total deliveries"] == sum(told["deliveries"].values())
    finally:
        await hub.close()
