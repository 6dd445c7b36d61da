"""The dashboard's socket: what is watched comes once a second, and only to who may see it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from harness.admin import HUB, admin_of, service_of
from harness.clock import FakeClock
from harness.dashboard import COOKIE, Browser
from harness.running_hub import RunningHub, Socket, StartHub, open_hub
from hubbub.domain.permissions import Level


async def watching(
    hub: RunningHub, level: Level = Level.ADMIN, of: str = "*", **headers: str
) -> Socket:
    browser = Browser(hub)
    await browser.log_in(token=hub.token("root", hub=of, level=level))
    return await opened(hub, browser.cookie, **headers)


async def opened(hub: RunningHub, cookie: str, origin: str = "", **headers: str) -> Socket:
    connection = await connect(
        f"ws://{hub.address}/dashboard/socket",
        additional_headers={"Cookie": f"{COOKIE}={cookie}", **headers},
        origin=origin or f"http://{hub.address}",  # type: ignore[arg-type]
        compression=None,
    )
    hub._sockets.append(connection)
    return Socket(connection)


async def told(socket: Socket, channel: str) -> Any:
    while True:
        said = await socket.find("Publish")
        if said["channel"] == channel:
            return said["payload"]["json"]


@pytest.mark.spec("UI-01", "ADMIN-05")
async def test_counters_topology_alarms_and_audit_are_told_while_watched(hub: RunningHub) -> None:
    client = await hub.socket()
    await client.subscribe("news")
    for _ in range(5):
        await client.publish("news", {"json": 1})
    board = await watching(hub)
    info = await board.expect("SessionInfo")
    assert (info["hubID"], info["userID"], info["authenticated"]) == ("*", "root", True)
    wanted = ("counters", "counters:acme", "topology", "alarms", "audit", "lag:acme")
    reply = await board.subscribe(*wanted, "secrets", "lag")
    assert [each["channel"] for each in reply["channels"]] == list(wanted)
    assert [each["channel"] for each in reply["failures"]] == ["secrets", "lag"]
    topology = await told(board, "topology")
    assert topology["nodes"][0]["hubs"][0]["channels"][0] == {"channel": "news", "sessions": 1}
    while True:
        counters = await told(board, "counters:acme")
        if counters["sessions"] == 1:
            break
    assert (counters["nodes"], counters["silent"], "hubs" in counters) == (1, [], False)
    whole = await told(board, "counters")
    assert whole["hubs"]["acme"]["subscriptions"] == 1
    await admin_of(hub)("PUT", "/v1/admin/hubs/acme/rules/loud", {"public": True})
    entry = await told(board, "audit")
    assert (entry["action"], entry["name"], entry["actor"]) == ("rules.put", "loud", "root")
    await board.send("Publish", publishes=[{"channel": "counters", "payload": {"json": 1}}])
    assert (await board.find("Error"))["error"]["code"] == "bad_request"
    ticker = hub.server.administration.ticker
    await board.connection.close()
    async with asyncio.timeout(10):
        while ticker._task is not None and not ticker._task.done():
            await asyncio.sleep(0.05)
    assert hub.server.administration.board.channels == []


@pytest.mark.spec("UI-01", "ADMIN-03")
@pytest.mark.parametrize("level", [Level.SERVICE, Level.VIEWER])
async def test_who_belongs_to_a_hub_watches_that_hub_only(
    start_server: StartHub, level: Level
) -> None:
    hub = await start_server(open_hub(), open_hub("other"))
    board = await watching(hub, level, "acme")
    reply = await board.subscribe("counters", "counters:other", "counters:acme", "audit", "alarms")
    assert [each["channel"] for each in reply["channels"]] == ["counters:acme"]
    assert {each["error"]["code"] for each in reply["failures"]} == {"not_permitted"}


@pytest.mark.spec("UI-01", "SEC-01")
async def test_those_who_watch_one_hub_leave_room_for_others(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.administration.watching.MOST_WATCHERS", 4)
    hub = await start_server(open_hub(), open_hub("other"))
    crowd = [await watching(hub, Level.VIEWER, "acme") for _ in range(3)]
    for board, last in zip(crowd, ("SessionInfo", "SessionInfo", "Disconnect"), strict=True):
        await board.expect(last)
    for level, of in ((Level.VIEWER, "other"), (Level.ADMIN, "*")):
        await (await watching(hub, level, of)).expect("SessionInfo")
    for board in crowd:
        await board.connection.close()
    async with asyncio.timeout(10):
        while (await (await watching(hub, Level.VIEWER, "acme")).next())["event"] == "Disconnect":
            pass


@pytest.mark.spec("UI-01", "SEC-01")
async def test_who_floods_the_dashboards_socket_is_cut_off(hub: RunningHub) -> None:
    board = await watching(hub)
    for number in range(150):
        await board.send("Ping", reqID=number)
    await board.closed()
    assert board.backlog[-1]["payload"]["code"] == "rate_limited"


@pytest.mark.spec("UI-01", "SEC-01")
async def test_nothing_is_watched_behind_a_close(hub: RunningHub) -> None:
    """Else what watches would stay for ever, beyond every bound."""
    board = await watching(hub)
    wanted = {"channels": [{"channel": "counters"}]}
    requests = [{"event": "Close", "payload": {}}, {"event": "Subscribe", "payload": wanted}]
    await board.connection.send("\n".join(map(json.dumps, requests)))
    await board.closed()
    administration = hub.server.administration
    assert not administration.board.occupied
    assert administration.board.channels == []


@pytest.mark.spec("UI-01", "OPS-02")
async def test_no_other_page_and_nobody_without_the_cookie_watches(hub: RunningHub) -> None:
    browser = Browser(hub)
    await browser.log_in(token=hub.token("root", hub="*", level=Level.ADMIN))
    for cookie, origin, more in (
        (browser.cookie, "https://evil.example", {}),
        (browser.cookie, f"http://evil.{hub.address}", {}),
        (browser.cookie, "", {"Sec-Fetch-Site": "cross-site"}),
        ("", "", {}),
        ("a.b.c", "", {}),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await opened(hub, cookie, origin, **more)
        assert refused.value.response.status_code in (401, 403)
    token = hub.token("root", hub="*", level=Level.ADMIN)
    for path in ("/v1/hubs/*/socket", f"/v1/hubs/%2A/socket?token={token}"):
        socket = Socket(await connect(f"ws://{hub.address}{path}"))
        await socket.closed()
        assert [each["event"] for each in socket.backlog] == ["Disconnect"]


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_logging_out_ends_what_is_watched(hub: RunningHub) -> None:
    browser = Browser(hub)
    await browser.log_in(token=hub.token("svc", hub="acme", level=Level.SERVICE))
    board = await opened(hub, browser.cookie)
    await board.subscribe("counters:acme")
    await browser.ask("POST", "/dashboard/logout")
    await board.closed()
    assert board.backlog[-1]["payload"]["code"] == "invalid_token"


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_who_begins_to_watch_with_a_token_that_has_ended_is_told_nothing(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    board = await watching(await start_server(clock=clock))
    clock.advance(16 * 60)
    await board.subscribe("counters")
    await board.closed()
    assert [each["event"] for each in board.backlog] == ["Disconnect"]


@pytest.mark.spec("UI-01", "ADMIN-03")
async def test_a_session_that_watches_no_channel_ends_with_its_login_too(hub: RunningHub) -> None:
    browser = Browser(hub)
    await browser.log_in(token=hub.token("root", hub="*", level=Level.ADMIN))
    board = await opened(hub, browser.cookie)
    await browser.ask("POST", "/dashboard/logout")
    await board.closed()
    assert board.backlog[-1]["payload"]["code"] == "invalid_token"


@pytest.mark.spec("UI-01", "ADMIN-05")
async def test_series_are_there_when_a_chart_opens(hub: RunningHub) -> None:
    client = await hub.socket()
    await client.subscribe("news")
    recorder = hub.server._survey.series
    recorder.record()
    async with asyncio.timeout(20):
        while not recorder.rows("acme", "15m"):
            await asyncio.sleep(0.05)
    reply = await service_of(hub)("GET", "/v1/admin/hubs/acme/series")
    (series,) = reply.json["series"]
    assert (series["hub"], series["columns"][:2]) == ("acme", ["at", "sessions"])
    assert series["rows"][-1][1] == 1
    every = await admin_of(hub)("GET", "/v1/admin/series?span=24h")
    assert every.json["series"][0]["hub"] == "*"
    assert (await admin_of(hub)("GET", "/v1/admin/series?span=1y")).code == "bad_request"


@pytest.mark.spec("UI-01", "ADMIN-05")
async def test_a_viewer_watches_without_names_of_documents_and_peers_and_queries_of_addresses(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(callback_addresses="loopback"))
    client = await hub.socket()
    await client.subscribe("doc:merger")
    boards = [await watching(hub, level, "acme") for level in (Level.SERVICE, Level.VIEWER)]
    for board in boards:
        await board.subscribe("topology:acme", "audit:acme")
    stories = []
    for board in boards:
        stories.append(str(await told(board, "topology:acme")))
    service = service_of(hub)
    await service("PUT", f"{HUB}/peers/mallory", {"addresses": []})
    callback = {"url": "http://127.0.0.1:9/in?key=sesame"}
    await service("PUT", f"{HUB}/callbacks/c", callback)
    for number, board in enumerate(boards):
        for _ in range(2):
            stories[number] += str(await told(board, "audit:acme"))
    for secret in ("merger", "mallory", "sesame"):
        assert [secret in story for story in stories] == [True, False], secret
