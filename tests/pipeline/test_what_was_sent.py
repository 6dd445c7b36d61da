"""From the journal to the page: it shows exactly what was sent."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from harness.hub_process import HubProcess
from harness.segments import (
    NOON,
    Pipeline,
    delivered,
    published,
    session_closed,
    session_opened,
)
from hubbub.domain.analytics import RowsQuery
from hubbub.pipeline.gold import TABLES
from hubbub.pipeline.report import make_report
from hubbub.pipeline.results import read_rows

pytestmark = pytest.mark.timeout(600)
MINUTE = 60_000_000
LOAD = Path(__file__).parents[2] / "examples" / "load.py"


def tiles(page: str) -> dict[str, str]:
    """The figures at the top of the page, by their names."""
    return {
        name: figure for figure, name in re.findall(r"<b>([^<]*)</b><span>([^<]*)</span>", page)
    }


def totals(warehouse: Path) -> dict[str, int]:
    rows = read_rows(warehouse, RowsQuery("traffic", limit=1000)).rows
    names = ("messages_in", "bytes_in", "messages_out", "bytes_out")
    return {name: sum(row[name] for row in rows) for name in names}


@pytest.mark.spec("PIPE-03", "PIPE-04")
def test_the_page_shows_what_the_segments_hold_also_after_late_data(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline(spark, tmp_path, TABLES)
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
    pytest.importorskip("hubbub.server.journals", reason="hubs do not write a journal yet")
    from hubbub.journal.sealing import seal_all

    rules = {"default": {"public": True, "clientPublish": True, "allowAnonymous": True}}
    async with HubProcess(tmp_path, {"demo": {"rules": rules}}) as hub:
        await hub.start()
        sent = await load(f"ws://127.0.0.1:{hub.port}")
        hub.signal(signal.SIGTERM)
        await hub.ended()
        journal = hub.data / "journal"
    seal_all(journal)
    pipeline = Pipeline(spark, hub.data, TABLES)
    pipeline.now = 2**53  # the events are of now, which is not the tests' time
    await asyncio.to_thread(pipeline.run)

    found = totals(pipeline.warehouse.path)
    assert (found["messages_in"], found["bytes_in"]) == (sent["published"], sent["bytes"])
    assert found["messages_out"] == sent["delivered"] == 4 * sent["published"]
    shown = tiles(make_report(pipeline.warehouse.path))
    assert shown["messages in"] == f"{sent['published']:,}"
    assert shown["messages out"] == f"{sent['delivered']:,}"
    assert shown["sessions"] == f"{sent['sessions']:,}"


async def load(url: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(LOAD), "--url", url, "--seconds", "2", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    found: dict[str, Any] = json.loads(said)
    return found
