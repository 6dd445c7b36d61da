"""The traffic that AppSockets reports of its production, a thousandth of it, through a hub and then
through the pipeline: what was sent is what both count, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.clock import FakeClock
from harness.running_hub import OPEN, RunningHub, hub_settings, open_hub
from harness.segments import Pipeline
from hubbub.engine.metering.recorder import Metering
from hubbub.engine.metering.service import KeptCounters
from hubbub.journal.sealing import seal_all
from hubbub.server.wiring import Server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

SENT = 12_706_780 // 1000
SESSIONS = 173_977 // 1000
MEAN_SECONDS = 120
PAYLOAD = "x" * 50


def seconds_of(session: int) -> int:
    """Half a minute to three and a half, exactly two minutes on average."""
    if session == SESSIONS - 1:
        return MEAN_SECONDS
    return MEAN_SECONDS + (session // 2 % 90) * (1 if session % 2 else -1)


def messages_of(session: int) -> int:
    return SENT // SESSIONS + (session < SENT % SESSIONS)


@pytest.mark.spec("ADMIN-06", "PIPE-03")
async def test_kept_counters_and_the_pipeline_agree_on_the_same_traffic(
    spark: SparkSession, tmp_path: Path
) -> None:
    clock = FakeClock()
    clock.advance(3600 - clock.now() % 3600 - 86_400)
    began = int(clock.now())
    settings = hub_settings(
        tmp_path,
        open_hub("acme", OPEN),
        session__messagesPerSecond=0,
        connection__ws__pingInterval=3600,
        session__restoreTtl=0,
    )
    server = Server(settings, clock)
    await server.start()
    hub = RunningHub(server)
    try:
        received = 0
        for session in range(SESSIONS):
            received += await visit(hub, clock, session)
        kept = await server.node.feature(KeptCounters).read("acme", began, int(clock.now()), 300)
    finally:
        await hub.close()
    total = kept.total
    assert received == SENT
    assert (total.messages_in, total.messages_out) == (SENT, SENT)
    assert (total.sessions_opened, total.sessions_ended) == (SESSIONS, SESSIONS)
    assert total.session_us == pytest.approx(sum(map(seconds_of, range(SESSIONS))) * 1e6, rel=1e-6)
    assert total.session_us / SESSIONS == pytest.approx(MEAN_SECONDS * 1e6, rel=1e-6)

    data = Path(settings.storage.path)
    seal_all(data / "journal")
    pipeline = Pipeline(spark, data)
    pipeline.now = time.time_ns() // 1000
    await asyncio.to_thread(pipeline.run)

    traffic = {at(row["time"]): row for row in pipeline.rows("traffic")}
    published = {when: row for when, row in traffic.items() if row["messages_in"]}
    busy = [step for step in kept.steps if step.messages_in]
    assert {step.at for step in busy} == published.keys()
    for step in busy:
        row = published[step.at]
        assert (step.messages_in, step.bytes_in) == (row["messages_in"], row["bytes_in"])
    # The journal tells of deliveries after a while, and here the clock jumps meanwhile.
    assert sum(row["messages_out"] for row in traffic.values()) == SENT
    # It counts payloads; the counters count what went to sockets, as /metrics does.
    assert sum(row["bytes_out"] for row in traffic.values()) == total.bytes_in
    assert total.bytes_out > total.bytes_in
    active = {at(r["time"]): r for r in pipeline.rows("activity") if r["hub"] == "acme"}
    for step in kept.steps:
        assert step.active_sessions == active[step.at]["active_sessions"], step
        assert step.sessions_opened == active[step.at]["sessions_opened"], step
    hours: dict[int, list[int]] = {}
    for row in pipeline.rows("sessions_hourly"):
        of_hour = hours.setdefault(at(row["time"]) % 86_400 // 3600, [0, 0])
        of_hour[0] += row["sessions"]
        of_hour[1] += round(row["duration_mean"] * row["sessions"])
    assert {each.hour: each.sessions for each in kept.hours} == {
        h: n for h, (n, _) in hours.items()
    }
    for each in kept.hours:
        assert each.session_us == pytest.approx(hours[each.hour][1], abs=each.sessions)


def at(text: Any) -> int:
    return int(text.timestamp())


async def visit(hub: RunningHub, clock: FakeClock, session: int) -> int:
    """A session that hears what it says; returns how much it heard."""
    metering, count = hub.server.node.feature(Metering), messages_of(session)
    socket = await hub.socket()
    await socket.subscribe("news")
    item = {"channel": "news", "event": "e", "payload": {"text": PAYLOAD}}
    await socket.send("Publish", publishes=[{**item, "reqID": n} for n in range(count)])
    heard = acknowledged = 0
    while heard < count or acknowledged < count:
        envelope = await socket.next()
        if envelope["event"] == "Publish":
            heard += 1
        elif envelope["event"] == "Ack":
            acknowledged += sum(each["success"] for each in envelope["payload"]["published"])
    await metering.save()
    clock.advance(seconds_of(session))
    await metering.save()
    await socket.connection.close()
    async with asyncio.timeout(20):
        while hub.server.node.session_count:
            await asyncio.sleep(0)
    await metering.save()
    return heard
