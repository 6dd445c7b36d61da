"""From the journal to the page: it shows exactly what was sent."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.running_hub import RunningHub, hub_settings, open_hub
from harness.segments import (
    NOON,
    Pipeline,
    delivered,
    published,
    session_closed,
    session_opened,
)
from hubbub.cli.pipeline.report import make_report
from hubbub.domain.analytics import RowsQuery
from hubbub.journal.sealing import seal_all
from hubbub.pipeline.results import read_rows
from hubbub.server.wiring import Server

pytestmark = pytest.mark.timeout(900)
MINUTE = 60_000_000
EXAMPLES = Path(__file__).parents[3] / "examples"


def tiles(page: str) -> dict[str, str]:
    """The figures at the top of the page, by their names."""
    return dict(re.findall(r"<span class='label'>([^<]*)</span><b class='value'>([^<]*)</b>", page))


def totals(warehouse: Path) -> dict[str, int]:
    rows = read_rows(warehouse, RowsQuery("traffic", limit=1000)).rows
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    return {name: sum(row[name] for row in rows) for name in names}


@pytest.mark.long
@pytest.mark.spec("PIPE-03", "PIPE-04")
def test_the_page_shows_what_the_segments_hold_also_after_late_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path)
    words = [published(number, NOON + number * MINUTE) for number in range(1, 41)]
    out = [delivered(number, NOON + number * MINUTE, count=5) for number in range(1, 41)]
    came = [session_opened("s1", NOON), session_closed("s1", NOON + MINUTE)]
    pipeline.write("n1-20261115T120000-00000001", *words[:30], *out[:30], *came)
    pipeline.run()
    folder = pipeline.warehouse.path
    assert (totals(folder)["messages_in"], totals(folder)["messages_out"]) == (30, 150)

    pipeline.write("n1-20261115T130000-00000002", *words[30:], *out[30:])
    pipeline.write("n1-20261115T130000-00000003", published(41, NOON - 90 * MINUTE))
    pipeline.run()
    found = totals(folder)
    assert found["messages_in"] == 41
    assert found["bytes_in"] == sum(each.size or 0 for each in words) + (words[0].size or 0)
    assert found["messages_out"] == 200
    shown = tiles(make_report(folder))
    assert (shown["messages in"], shown["messages out"]) == ("41", "200")
    assert shown["sessions"] == "1"

    # What came bit by bit is what a rebuild makes of all of it.
    before = pipeline.everything()
    pipeline.run(full=True)
    after = pipeline.everything()
    for name in before:
        assert after[name] == before[name], name


@pytest.mark.spec("PIPE-01", "PIPE-03", "PIPE-04")
async def test_the_page_shows_what_the_example_load_sent_to_a_hub(
    spark: SparkSession, tmp_path: Path
) -> None:
    server = Server(hub_settings(tmp_path, open_hub("demo")))
    await server.start()
    hub = RunningHub(server)
    try:
        sent = await load(f"ws://{hub.address}")
    finally:
        await hub.close()
    data = Path(server.settings.storage.path)
    seal_all(data / "journal")
    pipeline = Pipeline(spark, data)
    pipeline.now = time.time_ns() // 1000
    await asyncio.to_thread(pipeline.run)

    folder = pipeline.warehouse.path
    found = totals(folder)
    assert found["messages_in"] == sent["total messages"]
    assert found["bytes_in"] == sum(sent["bytes"].values())
    assert found["messages_out"] == sent["total deliveries"]
    shown = tiles(make_report(folder))
    assert shown["messages in"] == f"{sent['total messages']:,}"
    assert shown["messages out"] == f"{sent['total deliveries']:,}"
    assert shown["sessions"] == str(sent["sessions"])
    by_channel: Counter[str] = Counter()
    for row in read_rows(folder, RowsQuery("channels")).rows:
        by_channel[row["channel"]] += row["messages"]
    assert by_channel == sent["messages"]
    assert len(read_rows(folder, RowsQuery("replies")).rows) == sent["replies"] > 0
    delivered_to: Counter[str] = Counter()
    for row in read_rows(folder, RowsQuery("latency")).rows:
        delivered_to[row["channel"]] += row["deliveries"]
    assert delivered_to == sent["deliveries"]
    example = runpy.run_path(str(EXAMPLES / "analytics.py"))
    example["register"](spark)
    hours = example["busiest_hours"](example["table"](spark, folder, "traffic"))
    assert sum(row.messages_in for row in hours.collect()) == sent["total messages"]
    publishers = example["loudest_publishers"](example["table"](spark, folder, "messages"))
    assert sum(row.messages for row in publishers.collect()) == sent["total messages"]


async def load(url: str) -> dict[str, Any]:
    """What the example sent, as it tells."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / "traffic.py"), "--url", url, "--seconds", "2"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    found: dict[str, Any] = json.loads(said)
    return found
