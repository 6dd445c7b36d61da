"""The JavaScript SDK in Node, cut off from its hub for chosen times."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.cutting_proxy import cutting_proxy
from harness.node import SDK, needs_node, node
from harness.outages import Outage, lengths
from harness.running_hub import StartHub, open_hub
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules

SCRIPT = Path(__file__).parent / "javascript" / "outages.mjs"
KEPT = Rules(public=True, client_publish=True, live_history=True)
pytestmark = needs_node


@pytest.mark.spec("LIVE-15")
@pytest.mark.parametrize(
    "outages", [[0.1, 0.5, 1.01, 2.5], pytest.param(lengths(60), marks=pytest.mark.long)]
)
async def test_a_client_is_back_with_its_session_at_the_next_step_after_an_outage(
    start_server: StartHub, outages: list[float]
) -> None:
    hub = await start_server(open_hub(rules=KEPT))
    token = hub.token("ann", grants=(Grant("room", True, True),))
    port = int(hub.address.rpartition(":")[2])
    async with AsyncExitStack() as stack:
        proxies = [await stack.enter_async_context(cutting_proxy(port)) for _ in outages]
        all_of_them = [Outage(*each) for each in zip(outages, proxies, strict=True)]
        urls = " ".join(f"http://127.0.0.1:{each.port}" for each in proxies)
        process = await asyncio.create_subprocess_exec(
            node(),
            str(SCRIPT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "SDK": str(SDK), "URLS": urls, "HUB": "acme", "TOKEN": token},
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def follow(count: int) -> None:
            """Until so many clients have said that they are connected."""
            while count:
                said = json.loads(await process.stdout.readline())  # type: ignore[union-attr]
                all_of_them[said["index"]].changes.append(said)
                count -= said["state"] == "connected"

        try:
            async with asyncio.timeout(120):
                publisher = await hub.socket(token=token)
                await follow(len(outages))
                for each in all_of_them:
                    del each.changes[:-1]
                following = asyncio.create_task(follow(len(outages)))
                cuts = asyncio.gather(*(each.happen(time.time) for each in all_of_them))
                await asyncio.sleep(0)  # the connections are cut
                await asyncio.sleep(0)
                await publisher.publish("room", {"json": "missed"})
                await cuts
                await following
            for each in all_of_them:
                each.check()
            process.stdin.write(b"\n")
            for _ in all_of_them:
                said = json.loads(await process.stdout.readline())
                assert (said["got"], said["gaps"]) == (["missed"], 0), all_of_them[said["index"]]
        finally:
            process.stdin.close()
            await process.wait()
