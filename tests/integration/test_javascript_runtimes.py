"""The JavaScript SDK in Deno, Bun, Node 20 and workers of Cloudflare, as the hub serves it, against
a real hub. Each script ends by itself: nothing of a closed client keeps a process alive."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.node import RUNTIMES, SDK, run_node
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules

SCRIPTS = Path(__file__).parent / "javascript"
GRANTS = tuple(
    Grant(pattern, True, True)
    for pattern in (
        "room:*", "hall:*", "lobby:*", "offers", "board:*", "doc:*", "orders:*",
        "notification:u:ann",
    )
)  # fmt: skip


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    namespaces = {
        "lobby": Rules(presence=True, live_history=True),
        "orders": Rules(store=True, public=True, client_publish=True),
        "board": Rules(live_history=True, retain=True),
    }
    return await start_hub(
        open_hub(rules=Rules(live_history=True), namespaces=namespaces),
        connection__ws__pingInterval=300,  # no heartbeat ends what was left open
    )


@pytest.mark.spec("UI-02")
@pytest.mark.parametrize("script", ["channels", "topics", "documents"])
@pytest.mark.parametrize("codec", ["json", "sse"])
@pytest.mark.parametrize("runtime", ["deno", "bun", "node20"])
async def test_the_sdk_works_there_and_the_process_ends(
    hub: RunningHub, runtime: str, codec: str, script: str
) -> None:
    said = await run_node(
        SCRIPTS / f"{script}.mjs",
        with_runtime=runtime,
        URL=f"http://{hub.address}",
        HUB="acme",
        CODEC=codec,
        TOKEN=hub.token("ann", grants=GRANTS),
        SERVICE=hub.token(None, level=Level.SERVICE),
        WS=RUNTIMES / "ws" / "wrapper.mjs" if runtime == "node20" else "",
    )
    assert said == "done\n"


@pytest.mark.spec("UI-02")
async def test_the_sdk_works_in_a_worker_of_cloudflare(hub: RunningHub, tmp_path: Path) -> None:
    for file in (*SDK.glob("*.js"), *SCRIPTS.glob("worker.*")):
        shutil.copy(file, tmp_path)
    await run_node(
        tmp_path / "worker.capnp",
        with_runtime="workerd",
        URL=f"http://{hub.address}",
        HUB="acme",
        TOKEN=hub.token("ann", grants=GRANTS),
    )
