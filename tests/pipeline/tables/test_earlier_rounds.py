"""The tables as of an earlier round, and how far they are now."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.command import hubbub
from harness.segments import published as event
from harness.segments import write_segment
from harness.warehouse import COMMITTED_AT, write_warehouse
from hubbub.pipeline.errors import NoSuchRound
from hubbub.pipeline.jobs.upkeep import vacuum
from hubbub.pipeline.querying import query
from hubbub.pipeline.status import status_of
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import RoundLock, read_lease
from hubbub.pipeline.tables.snapshot import open_snapshot

pytestmark = pytest.mark.spec("PIPE-07")

SUM = "SELECT sum(messages)::BIGINT AS n FROM term_facts"


def messages(count: int) -> dict[str, object]:
    return {"hub": "demo", "term": "a", "segment": f"s{count}", "messages": count}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Two rounds."""
    for count in (1, 10):
        write_warehouse(tmp_path / "warehouse", {"term_facts": [messages(count)]})
    return tmp_path / "warehouse"


async def test_the_tables_are_read_as_of_an_earlier_round(warehouse: Path, tmp_path: Path) -> None:
    for number, sum_of_messages in ((1, 1), (2, 11), (None, 11)):
        found = query(open_snapshot(warehouse, number), SUM).read_all()
        assert found["n"].to_pylist() == [sum_of_messages]
    there = ("--warehouse", str(warehouse), "--round", "1")
    asked = await hubbub("pipeline", "sql", SUM, *there, "--format", "csv")
    assert asked.out == "n\n1\n"
    await hubbub("pipeline", "export", "term_facts", str(tmp_path / "old.parquet"), *there)
    assert pq.read_table(tmp_path / "old.parquet")["messages"].to_pylist() == [1]


@pytest.mark.parametrize("number", [3, 99])
def test_a_round_that_is_not_done_is_refused_with_those_that_are(
    warehouse: Path, number: int
) -> None:
    with RoundLock(Location(warehouse)).running(lambda: 0), pytest.raises(NoSuchRound) as refused:
        open_snapshot(warehouse, number)
    assert f"no round {number} in {warehouse} that is done" in refused.value.message
    assert "there are rounds from 1 to 2" in refused.value.message


def test_a_round_whose_files_were_vacuumed_is_refused(warehouse: Path) -> None:
    write_warehouse(warehouse, {"term_facts": [messages(100)]})
    place = Location(warehouse)
    delta = open_snapshot(place).delta("term_facts")
    assert delta is not None
    delta.optimize.compact()
    rounds = RoundLock(place)
    with rounds.running(lambda: 0):
        versions = {**open_snapshot(place).round.versions, "term_facts": delta.version()}  # type: ignore[union-attr]
        rounds.finish(versions=versions)
    assert query(open_snapshot(place, 3), SUM).read_all()["n"].to_pylist() == [111]
    vacuum(place, 0, lambda: 0)
    with pytest.raises(NoSuchRound, match="files of term_facts were vacuumed"):
        open_snapshot(place, 3)
    assert query(open_snapshot(place), SUM).read_all()["n"].to_pylist() == [111]


def _cut_file(table: Path) -> None:
    [first, *_] = sorted(table.glob("*.parquet"))
    first.write_bytes(first.read_bytes()[:40])


def _cut_log(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").write_text("{")


@pytest.mark.parametrize("damage", [_cut_file, _cut_log, shutil.rmtree])
@pytest.mark.parametrize("options", [(), ("--round", "1")])
async def test_damaged_tables_are_told_in_a_sentence(
    warehouse: Path, tmp_path: Path, damage: Callable[[Path], None], options: tuple[str, ...]
) -> None:
    damage(warehouse / "term_facts")
    there = ("--warehouse", str(warehouse), *options)
    for command in (("sql", SUM), ("export", "term_facts", str(tmp_path / "out.csv"))):
        done = await hubbub("pipeline", *command, *there)
        assert (done.code, "term_facts" in done.err) == (1, True)


@pytest.mark.spec("PIPE-04")
async def test_the_status_refuses_a_journal_that_is_not_there(
    warehouse: Path, tmp_path: Path
) -> None:
    told = await hubbub(
        *("pipeline", "status", "--warehouse", str(warehouse)),
        *("--journal", str(tmp_path / "jurnal")),
    )
    assert (told.code, "holds no journal" in told.err) == (2, True), told


@pytest.mark.spec("PIPE-04")
def test_the_status_tells_what_waits_and_which_step_a_round_has_reached(
    warehouse: Path, tmp_path: Path
) -> None:
    place, journal = Location(warehouse), Location(tmp_path / "journal")
    write_segment(tmp_path / "journal", "a", [event(1)])
    sealed = (tmp_path / "journal" / "sealed" / "a.parquet").stat()
    idle = status_of(place, journal, sealed.st_mtime + 60)
    assert idle is not None
    assert (idle["round"], idle["waiting_segments"], idle["lag_seconds"]) == (2, 1, 60)
    assert idle["waiting_bytes"] == sealed.st_size
    assert (idle["running"], idle["step"]) == (None, None)
    rounds = RoundLock(place)
    with rounds.running(lambda: int(COMMITTED_AT * 1e6)):
        rounds.at_step("[4/7] sessions")
        while (lease := read_lease(place)) is None or not lease.step:
            pass
        busy = status_of(place, journal, COMMITTED_AT + 5)
    assert busy is not None
    assert (busy["running"], busy["step"], busy["running_seconds"]) == (3, "[4/7] sessions", 5)
    ended = status_of(place, journal, COMMITTED_AT + 5)
    assert ended is not None
    assert ended["running"] is None, "the round was given up"


async def test_the_status_of_a_first_round_is_told_before_there_are_tables(tmp_path: Path) -> None:
    rounds = RoundLock(Location(tmp_path))
    with rounds.running(lambda: int(COMMITTED_AT * 1e6)):
        told = await hubbub("pipeline", "status", "--json", "--warehouse", str(tmp_path))
    found = json.loads(told.out)
    assert (found["round"], found["running"], found["total_events"]) == (None, 1, 0)
