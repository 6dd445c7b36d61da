"""Topics on a disk that is full or tore the last write, and under a clock that jumps."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from harness.data_folder import running
from harness.hub_process import HubProcess
from hubbub.server.clock import SystemClock

pytestmark = pytest.mark.spec("ONCE-02", "ONCE-03", "ONCE-06")

TOPIC = "/v1/hubs/acme/topics/log:orders"
SUBSCRIPTION = f"{TOPIC}/subscriptions/s"
DAY = 86_400.0
KEPT = {"store": True, "public": True, "clientPublish": True, "allowAnonymous": True}
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {"kept": KEPT},
    }
}


async def ask(http: ClientSession, method: str, path: str, **options: Any) -> dict[str, Any]:
    async with http.request(method, path, **options) as answer:
        return {"status": answer.status, **await answer.json()}


async def put(http: ClientSession, sequence: int, text: str = "x") -> dict[str, Any]:
    query = {"producer": "p", "sequence": str(sequence)}
    return await ask(http, "POST", f"{TOPIC}/messages", params=query, data=text)


async def get(http: ClientSession, **query: str) -> list[int]:
    answer = await ask(http, "POST", f"{SUBSCRIPTION}/get", params={"limit": "1000", **query})
    assert answer["status"] == 200, answer
    return [int(message["channelSerial"]) for message in answer["messages"]]


async def test_a_full_disk_refuses_puts_without_using_up_their_sequence(small_disk: Path) -> None:
    async with running(small_disk) as hub:
        http = hub.http
        assert (await ask(http, "PUT", SUBSCRIPTION))["answer"] == "SUBSCRIBED"
        stored = 0
        while (answer := await put(http, stored + 1, "x" * 50_000))["status"] == 200:
            stored += 1
        assert answer["error"]["code"] == "store_unavailable"
        again = await put(http, stored, "x" * 50_000)
        assert (again["duplicate"], again["channelSerial"]) == (True, str(stored))
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        assert (await put(http, stored + 1))["channelSerial"] == str(stored + 1)
        seen: list[int] = []
        while found := await get(http, ackUpTo=str(seen[-1] if seen else 0)):
            seen += found
        assert seen == list(range(1, stored + 2))


async def test_a_torn_last_write_costs_nothing_that_was_confirmed(tmp_path: Path) -> None:
    """What the disk had not finished when the machine went down: a piece of a page at the end."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    async with HubProcess(before, hubs=HUBS) as hub:
        await hub.start()
        async with ClientSession(f"http://127.0.0.1:{hub.port}") as http:
            await ask(http, "PUT", SUBSCRIPTION)
            for sequence in range(1, 21):
                assert (await put(http, sequence, f"m{sequence}"))["status"] == 200
            assert await get(http) == list(range(1, 21))
            await ask(http, "POST", f"{SUBSCRIPTION}/ack", json={"upTo": "5"})
        # As it is on the disk now. After a kill, the store's own processes would still tidy up.
        shutil.copytree(hub.data, after / "data")
        await hub.kill()
    (log,) = (after / "data").rglob("hubbub.db-wal")
    with log.open("ab") as file:
        file.write(log.read_bytes()[-4120:-1500] + os.urandom(700))
    async with HubProcess(after, hubs=HUBS) as hub:
        await hub.start()
        async with ClientSession(f"http://127.0.0.1:{hub.port}") as http:
            again = await put(http, 20, "m20")
            assert (again["duplicate"], again["channelSerial"]) == (True, "20")
            assert (await put(http, 21, "m21"))["channelSerial"] == "21"
            assert await get(http) == list(range(6, 22))


class WallClock(SystemClock):
    off = 0.0

    def now(self) -> float:
        return super().now() + self.off


@pytest.mark.parametrize("jump", [-DAY, DAY])
async def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, jump: float) -> None:
    clock = WallClock()
    options = {"shared": True, "leaseSeconds": 30}
    async with running(tmp_path, clock) as hub:
        http = hub.http
        await ask(http, "PUT", SUBSCRIPTION)
        await ask(http, "PUT", f"{TOPIC}/subscriptions/crew", json=options)
        for sequence in (1, 2):
            await put(http, sequence)
        assert await get_shared(http) == [1, 2]
        clock.off += jump
        for sequence in (2, 3):
            await put(http, sequence)
        assert await get_shared(http) == [3], "leases do not run by the wall clock"
        assert await get(http, ackUpTo="1") == [2, 3]
    async with running(tmp_path, clock) as hub:
        http = hub.http
        assert (await put(http, 3))["duplicate"] is True
        assert await get(http) == [2, 3]


async def get_shared(http: ClientSession) -> list[int]:
    path = f"{TOPIC}/subscriptions/crew/get"
    answer = await ask(http, "POST", path, params={"limit": "9", "consumer": "a"})
    return [int(message["channelSerial"]) for message in answer["messages"]]
