"""A whole hub that keeps what must survive it on a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.postgres import PASSWORD
from harness.postgres import TestDatabase
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, hub_settings, open_hub
from hubbub.domain.errors import StoreUnavailable
from hubbub.server.wiring import Server

STORED = msgspec.structs.replace(OPEN, store=True, retain=True, live_history=False)

pytestmark = pytest.mark.spec("CLU-01")


def stored_in(database: TestDatabase) -> dict[str, Any]:
    return {
        "storage__postgres__host": "127.0.0.1",
        "storage__postgres__port": database.server.port,
        "storage__postgres__user": database.name,
        "storage__postgres__password": PASSWORD,
        "storage__postgres__dbName": database.options.database,
        "sql__maxConnections": 3,
        "sql__idleConnections": 2,
    }


async def history(hub: RunningHub) -> list[Any]:
    socket = await hub.socket()
    await socket.send("History", channel="news", reqID=1, after="0")
    page = await socket.find("History")
    return [(int(item["channelSerial"]), item["payload"]["json"]) for item in page["messages"]]


@pytest.mark.spec("LIVE-12", "LIVE-13")
async def test_what_was_stored_and_retained_survives_a_restart(
    tmp_path: Path, database: TestDatabase
) -> None:
    async with RestartingHub(tmp_path, open_hub(rules=STORED), **stored_in(database)) as life:
        hub = await life.restart()
        speaker = await hub.socket()
        for number in range(1, 6):
            result = await speaker.publish("news", {"json": number}, store=True, retain=True)
            assert result["success"], result
        hub = await life.restart()
        assert await history(hub) == [(n, n) for n in range(1, 6)]
        listener = await hub.socket()
        await listener.send("Subscribe", reqID=1, channels=[{"channel": "news"}])
        assert (await listener.find("Publish"))["payload"]["json"] == 5
        speaker = await hub.socket()
        result = await speaker.publish("news", {"json": 6}, store=True)
        assert result["channelSerial"] == "6"
    assert not (tmp_path / "data" / "hubbub.db").exists()


@pytest.mark.spec("ONCE-03")
async def test_a_hub_whose_place_another_took_cannot_store_any_more(
    tmp_path: Path, database: TestDatabase
) -> None:
    keys = stored_in(database)
    async with (
        RestartingHub(tmp_path / "a", open_hub(rules=STORED), **keys) as first,
        RestartingHub(tmp_path / "b", open_hub(rules=STORED), **keys) as second,
    ):
        old = await (await first.restart()).socket()
        assert (await old.publish("news", {"json": 1}, store=True))["success"]
        new = await (await second.restart()).socket()
        assert (await new.publish("news", {"json": 2}, store=True))["channelSerial"] == "2"
        refused = await old.publish("news", {"json": 3}, store=True)
        assert not refused["success"]
        assert refused["error"]["code"] == "stale_owner"
        assert (await new.publish("news", {"json": 3}, store=True))["channelSerial"] == "3"


@pytest.mark.spec("OPS-03")
async def test_a_hub_that_may_not_log_in_says_where_and_what_to_do(
    tmp_path: Path, database: TestDatabase
) -> None:
    keys = stored_in(database) | {"storage__postgres__password": "not this one"}
    server = Server(hub_settings(tmp_path, **keys))
    with pytest.raises(StoreUnavailable, match="refuses this user") as refused:
        await server.start()
    assert f"127.0.0.1:{database.server.port}" in str(refused.value)
    assert "not this one" not in str(refused.value)
    await server.stop()
