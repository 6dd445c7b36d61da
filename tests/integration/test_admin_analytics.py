"""Analytics over the admin API: tables, rows, and who may see whose."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.admin import Caller, admin_of
from harness.running_hub import ANSWER_SECONDS, RunningHub, StartHub, open_hub
from harness.warehouse import COMMITTED_AT, write_warehouse
from hubbub.connectors.analytics_process import AnalyticsProcess
from hubbub.domain.analytics import LISTED, Rows, RowsQuery
from hubbub.domain.permissions import Level

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)


def slot(hub: str, minutes: int, messages: int) -> dict[str, Any]:
    time = NOON + timedelta(minutes=minutes)
    return {"hub": hub, "at": time, "times": messages, "segment": "one"}


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    running = await start_server(open_hub(), open_hub("other"))
    folder = Path(running.server.settings.storage.path) / "warehouse"
    write_warehouse(
        folder,
        {"messages": [slot("acme", 0, 10), slot("acme", 5, 11), slot("other", 0, 99)]},
    )
    return running


@pytest.mark.spec("PIPE-04")
async def test_the_tables_are_listed_with_the_questions_that_they_answer(hub: RunningHub) -> None:
    reply = await admin_of(hub)("GET", "/v1/admin/analytics")
    assert reply.json["tables"] == [
        {"table": table.name, "question": table.question} for table in LISTED
    ]


@pytest.mark.spec("PIPE-04")
async def test_rows_by_hub_and_time(hub: RunningHub) -> None:
    admin = admin_of(hub)

    async def found(query: str = "") -> list[int]:
        reply = await admin("GET", f"/v1/admin/analytics/traffic{query}")
        assert reply.status == 200, reply.text
        return [row["messages_in"] for row in reply.json["rows"]]

    assert await found() == [11, 10, 99]
    assert await found("?hub=acme&limit=1") == [11]
    assert await found("?hub=acme&until=2026-11-02T12:05:00Z") == [10]
    assert await found("?since=2026-11-02T13:05:00%2B01:00") == [11]
    reply = await admin("GET", "/v1/admin/analytics/traffic?limit=2")
    assert reply.json["more"] is True
    assert reply.json["computedAt"] == int(COMMITTED_AT * 1000)
    assert reply.json["columns"][:3] == ["hub", "time", "messages_in"]
    assert reply.json["columns"][-1] == "hour"
    assert reply.json["rows"][0]["time"] == "2026-11-02T12:05:00Z"


@pytest.mark.spec("PIPE-04", "UI-01")
async def test_rows_of_a_step_of_time_are_joined(hub: RunningHub) -> None:
    admin = admin_of(hub)
    reply = await admin("GET", "/v1/admin/analytics/traffic?step=3600")
    assert reply.json["columns"][:3] == ["time", "messages_in", "bytes_in"]
    (row,) = reply.json["rows"]
    assert (row["time"], row["messages_in"]) == ("2026-11-02T12:00:00Z", 120)
    reply = await admin("GET", "/v1/admin/hubs/acme/analytics/traffic?step=3600")
    assert [row["messages_in"] for row in reply.json["rows"]] == [21]
    reply = await admin("GET", "/v1/admin/analytics/activity?step=3600&hub=acme")
    assert "active_sessions" in (reply.json["columns"] or ["active_sessions"])
    reply = await admin("GET", "/v1/admin/analytics/latency?step=3600")
    assert (reply.status, reply.json["error"]["code"]) == (400, "bad_request")
    assert "traffic, activity" in reply.json["error"]["message"]


@pytest.mark.spec("PIPE-04", "OPS-03")
async def test_a_hub_sees_only_its_own_rows(hub: RunningHub) -> None:
    service = Caller(hub, hub.token("robot", hub="acme", level=Level.SERVICE))
    reply = await service("GET", "/v1/admin/hubs/acme/analytics/traffic")
    assert [row["hub"] for row in reply.json["rows"]] == ["acme", "acme"]
    reply = await service("GET", "/v1/admin/hubs/acme/analytics/traffic?hub=other")
    assert (reply.status, reply.code) == (400, "bad_request")
    assert (await service("GET", "/v1/admin/hubs/other/analytics/traffic")).status == 401
    assert (await service("GET", "/v1/admin/analytics/traffic")).status in (401, 403)


async def test_what_is_not_there_is_said(hub: RunningHub) -> None:
    admin = admin_of(hub)
    reply = await admin("GET", "/v1/admin/analytics/nope")
    assert (reply.status, reply.code) == (404, "not_found")
    assert "there are activity" in reply.text
    reply = await admin("GET", "/v1/admin/hubs/nowhere/analytics/traffic")
    assert (reply.status, reply.code) == (404, "hub_not_found")
    reply = await admin("GET", "/v1/admin/analytics/audit")
    assert (reply.status, reply.json["rows"]) == (200, [])


async def test_a_damaged_table_is_an_error_and_no_crash(hub: RunningHub) -> None:
    folder = Path(hub.server.settings.storage.path) / "warehouse" / "traffic"
    (file,) = folder.glob("*.parquet")
    file.write_bytes(b"nonsense")
    reply = await admin_of(hub)("GET", "/v1/admin/analytics/traffic")
    assert (reply.status, reply.code) == (503, "unavailable")
    assert "pipeline run --full" in reply.text


async def test_a_question_ends_when_its_asker_hangs_up(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits behind questions whose answers are not read, and no process answers them."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def rows(_: AnalyticsProcess, query: RowsQuery) -> Rows:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError(query)

    monkeypatch.setattr(AnalyticsProcess, "rows", rows)
    _, writer = await asyncio.open_connection("127.0.0.1", hub.server.port)
    token = hub.token(None, "acme", Level.SERVICE)
    writer.write(
        b"GET /v1/admin/hubs/acme/analytics/traffic HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: Bearer %b\r\n\r\n" % token.encode()
    )
    with contextlib.closing(writer):
        await asyncio.wait_for(began.wait(), ANSWER_SECONDS)
    await asyncio.wait_for(ended.wait(), ANSWER_SECONDS)
