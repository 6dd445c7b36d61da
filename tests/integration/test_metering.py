"""Counters that survive: what hubs did, by five minutes and in total, without the pipeline."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.hub_process import HubProcess
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.permissions import Level
from hubbub.engine.metering.recorder import Metering

pytestmark = pytest.mark.spec("ADMIN-06")


async def kept(hub: RunningHub, of: str | None = "acme", **query: int) -> dict[str, Any]:
    where = "" if of is None else f"/hubs/{of}"
    headers = {"Authorization": f"Bearer {hub.token('root', '*', Level.ADMIN)}"}
    params = {name: str(value) for name, value in query.items()}
    path = f"/v1/admin{where}/kept-counters"
    async with hub.http.get(path, params=params, headers=headers) as answer:
        found: dict[str, Any] = await answer.json()
        assert answer.status == 200, found
        return found


async def save(hub: RunningHub) -> None:
    """What a minute does."""
    await hub.server.node.feature(Metering).save()


async def traffic(server: RunningHub, messages: int = 3, seconds: float = 0, **more: Any) -> None:
    """A session that publishes to a channel with one listener."""
    clock = server.server.node.clock
    async with asyncio.timeout(20):
        socket = await server.socket(**more)
        await socket.subscribe("news")
        for _ in range(messages):
            assert (await socket.publish("news", {"text": "12345"}))["success"]
        assert isinstance(clock, FakeClock)
        clock.advance(seconds)
        await socket.connection.close()
        while server.server.node.session_count:
            await asyncio.sleep(0)


async def test_totals_and_five_minutes_are_there_after_a_restart(start_server: StartHub) -> None:
    clock = FakeClock()
    clock.advance(300 - clock.now() % 300)
    hub = await start_server(clock=clock)
    began = int(clock.now())
    await traffic(hub, 3, seconds=40)
    await save(hub)
    clock.advance(300)
    await save(hub)
    await traffic(hub, 2, seconds=20)
    await hub.close()
    again = await start_server(clock=clock)
    found = await kept(again)
    assert [step["at"] for step in found["steps"]] == [began // 300 * 300, began // 300 * 300 + 300]
    assert [step["messagesIn"] for step in found["steps"]] == [3, 2]
    assert [step["activeSessions"] for step in found["steps"]] == [1, 1]
    total = found["total"]
    assert (total["messagesIn"], total["messagesOut"], total["bytesIn"]) == (5, 5, 25)
    assert (total["sessionsOpened"], total["sessionsEnded"]) == (2, 2)
    assert total["sessionUs"] == pytest.approx(60e6, abs=2)
    await traffic(again, 1)
    await save(again)
    assert (await kept(again))["total"]["messagesIn"] == 6, "a new process goes on"
    everywhere = await kept(again, None)
    assert everywhere["total"]["messagesIn"] == 6
    assert everywhere["steps"][0]["activeHubs"] == 1


async def test_a_session_counts_where_it_was_opened_and_is_active_until_it_ends(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    clock.advance(3600 - clock.now() % 3600)
    hub = await start_server(clock=clock, session__restoreTtl=0)
    socket = await hub.socket()
    await socket.subscribe("news")
    for _ in range(3):
        clock.advance(300)
        await save(hub)
    await socket.connection.close()
    while hub.server.node.session_count:
        await asyncio.sleep(0)
    clock.advance(60)
    await save(hub)
    found = await kept(hub)
    assert [step["sessionsOpened"] for step in found["steps"]] == [1, 0, 0, 0]
    assert [step["sessionUs"] for step in found["steps"]][1:] == [0, 0, 0]
    assert found["steps"][0]["sessionUs"] == pytest.approx(900e6, abs=2)
    assert [step["activeSessions"] for step in found["steps"]] == [1, 1, 1, 1]
    assert [step["activeChannels"] for step in found["steps"]] == [1, 1, 1, 0]
    (hour,) = found["hours"]
    assert (hour["hour"], hour["sessions"], hour["ended"]) == (
        int(clock.now()) % 86400 // 3600, 1, 1,
    )  # fmt: skip
    (joined,) = (await kept(hub, step=3600))["steps"]
    assert (joined["sessionsOpened"], joined["activeSessions"]) == (1, 1)


async def test_the_sweep_saves_once_a_minute(start_server: StartHub) -> None:
    clock = FakeClock()
    clock.advance(60 - clock.now() % 60)
    hub = await start_server(clock=clock)
    room = hub.server.node.feature(Metering)
    await traffic(hub, 3)
    room.sweep()
    await room.settle()
    assert (await kept(hub))["total"]["messagesIn"] == 0
    clock.advance(60)
    room.sweep()
    await room.settle()
    assert (await kept(hub))["total"]["messagesIn"] == 3


async def test_what_the_store_does_not_take_waits_for_it(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_server(clock=FakeClock())
    room = hub.server.node.feature(Metering)
    await traffic(hub, 3)

    async def refuse(_: object) -> None:
        raise StoreUnavailable("the store is away")

    with monkeypatch.context() as away:
        away.setattr(room._store, "add_metered", refuse)
        await room.save()
    await traffic(hub, 2)
    await room.save()
    assert (await kept(hub))["total"]["messagesIn"] == 5


async def test_a_killed_server_loses_the_current_interval_at_most(tmp_path: Path) -> None:
    rules = {"public": True, "clientPublish": True, "allowAnonymous": True}
    settings = {"allowAnonymous": True, "defaultRules": "open"}
    hubs = {"acme": {"settings": settings, "rules": {"open": rules}}}
    async with HubProcess(tmp_path, hubs, metering={"interval": 1}) as process:
        await process.start()
        socket = await process.socket("acme", await process.token("acme", "ann"))
        for _ in range(5):
            assert (await socket.publish("news", {"text": "x"}))["success"]
        token = await process.token("acme", "svc", "service")
        async with asyncio.timeout(30):
            while (await process_total(process, token))["messagesIn"] != 5:
                await asyncio.sleep(0.1)
        await process.kill()
        await process.start()
        assert (await process_total(process, token))["messagesIn"] == 5


async def process_total(process: HubProcess, token: str) -> dict[str, Any]:
    import aiohttp

    url = f"http://127.0.0.1:{process.port}/v1/admin/hubs/acme/kept-counters"
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
        found: dict[str, Any] = (await answer.json())["total"]
        return found


@pytest.mark.spec("SEC-02")
async def test_a_service_reads_the_counters_of_its_own_hub_alone(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("other"))
    headers = {"Authorization": f"Bearer {hub.token('s', 'acme', Level.SERVICE)}"}
    for path, status in (
        ("/v1/admin/hubs/acme/kept-counters", 200),
        ("/v1/admin/hubs/other/kept-counters", 401),
        ("/v1/admin/kept-counters", 401),
    ):
        async with hub.http.get(path, headers=headers) as answer:
            assert answer.status == status, path


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("step=301", "multiple of 300"),
        ("step=0", "step"),
        ("since=x", "since"),
        ("steps=300", "steps"),
    ],
)
async def test_wrong_questions_are_told_what_to_ask(
    start_hub: StartHub, query: str, told: str
) -> None:
    hub = await start_hub()
    headers = {"Authorization": f"Bearer {hub.token('s', 'acme', Level.SERVICE)}"}
    path = f"/v1/admin/hubs/acme/kept-counters?{query}"
    async with hub.http.get(path, headers=headers) as answer:
        assert answer.status == 400
        assert told in (await answer.json())["error"]["message"]


@pytest.mark.spec("SEC-01")
async def test_hubs_of_strangers_count_only_in_the_sum(start_server: StartHub) -> None:
    template = {
        "settings": {"allowAnonymous": True, "defaultRules": "open"},
        "rules": {"open": {"public": True, "clientPublish": True, "allowAnonymous": True}},
    }
    hub = await start_server(clock=FakeClock(), engine__allowDynamicHubs=True, dynamicHubs=template)
    await traffic(hub, 2, hub="nobodys")
    await traffic(hub, 3, hub="annas", token=hub.token("ann", "annas"))
    await save(hub)
    assert (await kept(hub, "nobodys"))["total"]["messagesIn"] == 0
    assert (await kept(hub, "annas"))["total"]["messagesIn"] == 3
    assert (await kept(hub, None))["total"]["messagesIn"] == 5


async def test_a_deleted_hub_takes_its_counters_along(start_server: StartHub) -> None:
    hub = await start_server(open_hub("acme", msgspec.structs.replace(OPEN)), clock=FakeClock())
    await traffic(hub, 3)
    await save(hub)
    headers = {"Authorization": f"Bearer {hub.token('root', '*', Level.ADMIN)}"}
    async with hub.http.delete("/v1/admin/hubs/acme", headers=headers) as answer:
        assert answer.status == 204
    await save(hub)
    async with hub.http.post("/v1/admin/hubs", json={"hub": "acme"}, headers=headers) as answer:
        assert answer.status == 201
    assert (await kept(hub))["total"]["messagesIn"] == 0
    assert (await kept(hub, None))["total"]["messagesIn"] == 3
