"""Upkeep of the tables: nothing of a user is left, files are joined, old rows go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.command import hubbub
from harness.warehouse import write_warehouse
from harness.warehouse_rows import NOON, published
from hubbub.domain.commands.jids import Jid
from hubbub.pipeline.jobs import upkeep
from hubbub.pipeline.models import outdated
from hubbub.pipeline.tables.capacity import read_capacity
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.migration import replace_old_tables
from hubbub.pipeline.tables.rounds import RoundLock, versions
from hubbub.pipeline.tables.snapshot import open_snapshot
from hubbub.pipeline.views.forecast import Capacity

NOW = int(NOON.timestamp() * 1e6)


def session(user: str) -> dict[str, Any]:
    return {
        "hub": "acme",
        "session": "s1",
        "user": "erased-1",
        "opened_at": NOON,
        "events": [{"at": NOON, "kind": "session.opened", "user": user, "segment": "one"}],
    }


def replaced(warehouse: Location, table: str) -> None:
    """A round that removes all files of a table."""
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOW) as mine:
        last = open_snapshot(warehouse)
        commit(warehouse, table, mine.round, [], [file.path for file in last.files(table)])
        rounds.finish(versions=versions(warehouse))


@pytest.mark.spec("PIPE-05")
async def test_vacuum_removes_the_versions_that_hold_a_user_and_proves_it(tmp_path: Path) -> None:
    warehouse = Location(tmp_path)
    write_warehouse(tmp_path, {"sessions": [session("ann")], "messages": [published(0, 1)]})
    there = ("--warehouse", str(tmp_path))
    asked = ("pipeline", "vacuum", "--hub", "acme", "--erased", "ann", *there)
    done = await hubbub(*asked)
    assert done.code == 1
    assert "column events" in done.out, "the id is found inside of the list of events"
    replaced(warehouse, "sessions")
    before, found = upkeep.traces(warehouse, "acme", "ann")
    assert [trace.column for trace in found] == ["events"], "an old version holds it"
    done = await hubbub(*asked)
    assert (done.code, "nothing of the user is left" in done.out) == (0, True)
    assert upkeep.traces(warehouse, "acme", "ann") == (before - 1, [])
    assert len(open_snapshot(warehouse).read("messages")) == 1


@pytest.mark.spec("PIPE-05")
async def test_vacuum_refuses_more_hours_than_a_time_can_be_ago(tmp_path: Path) -> None:
    write_warehouse(tmp_path, {"messages": [published(0, 1)]})
    there = ("--warehouse", str(tmp_path))
    done = await hubbub("pipeline", "vacuum", "--keep-hours", "99999999999999", *there)
    assert (done.code, "--keep-hours" in done.err) == (2, True)
    done = await hubbub("pipeline", "vacuum", "--keep-hours", "878400", *there)
    assert done.code == 0


@pytest.mark.spec("PIPE-05")
def test_another_hubs_user_of_the_same_name_is_no_trace(tmp_path: Path) -> None:
    write_warehouse(tmp_path, {"sessions": [session("ann")]})
    files, found = upkeep.traces(Location(tmp_path), "other", "ann")
    assert (files > 2, found) == (True, [])


@pytest.mark.spec("PIPE-05")
@pytest.mark.parametrize("user", ["ann", 'a"n', "a\\n"])
@pytest.mark.parametrize(
    "text", ["{user}", "{address}", "{address}/phone", "u:{user}", "notification:u:{user}"]
)
def test_the_proof_finds_every_name_that_erasure_removes(
    tmp_path: Path, user: str, text: str
) -> None:
    name = text.format(user=user, address=Jid(user, "acme"))
    record = json.dumps({"sender": name})
    refused = {"hub": "acme", "segment": "one", "offset": 0, "reason": "future", "record": record}
    write_warehouse(tmp_path, {"sessions": [session(name)], "quarantine": [refused]})
    _, found = upkeep.traces(Location(tmp_path), "acme", user)
    assert sorted(trace.column for trace in found) == ["events", "record"]


@pytest.mark.spec("PIPE-05")
def test_a_word_in_the_messages_of_others_is_no_trace(tmp_path: Path) -> None:
    word = {"hub": "acme", "term": "ann", "messages": 2, "segment": "one", "time": NOON}
    trend = {"hub": "acme", "kind": "term", "name": "ann", "time": NOON}
    write_warehouse(tmp_path, {"term_facts": [word], "trending": [trend]})
    assert upkeep.traces(Location(tmp_path), "acme", "ann")[1] == []


@pytest.mark.spec("PIPE-05")
@pytest.mark.parametrize(
    "command",
    [("compact",), ("vacuum", "--erased", "ann", "--hub", "acme"), ("prune", "--older-than", "5")],
)
async def test_upkeep_of_a_place_without_tables_fails_and_makes_none(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = await hubbub("pipeline", *command, "--warehouse", str(tmp_path / "mistyped"))
    assert (done.code, done.out) == (1, "")
    assert f"there are no tables in {tmp_path / 'mistyped'}" in done.err
    assert not (tmp_path / "mistyped").exists()


@pytest.mark.spec("PIPE-05")
async def test_pruning_by_more_days_than_a_calendar_has_removes_nothing(tmp_path: Path) -> None:
    write_warehouse(tmp_path, {"messages": [published(0, 1)]})
    there = ("--older-than", "99999999", "--warehouse", str(tmp_path))
    done = await hubbub("pipeline", "prune", *there)
    assert (done.code, done.out.strip()) == (0, "removed 0 rows from 0 tables")


@pytest.mark.spec("PIPE-03")
@pytest.mark.parametrize("number", ["nan", "inf"])
async def test_an_option_that_is_no_number_is_refused(tmp_path: Path, number: str) -> None:
    there = ("--warehouse", str(tmp_path))
    done = await hubbub("pipeline", "capacity", "--publishes", number, *there)
    assert (done.code, number in done.err) == (2, True)
    assert read_capacity(Location(tmp_path)) == Capacity()
    done = await hubbub("pipeline", "run", "--follow", "--every", number, *there)
    assert (done.code, number in done.err) == (2, True)


@pytest.mark.spec("PIPE-05", "PIPE-07")
def test_small_files_are_joined_and_rows_stay(tmp_path: Path) -> None:
    for minutes in (0, 5, 10):
        write_warehouse(tmp_path, {"messages": [published(minutes, 1 + minutes)]})
    assert len(open_snapshot(tmp_path).files("messages")) == 3
    joined = upkeep.compact(Location(tmp_path), lambda: NOW)
    assert joined.files == 3 * joined.tables
    snapshot = open_snapshot(tmp_path)
    (file,) = snapshot.files("messages")
    assert (file.rows, file.bounds["at"][0], file.first_segment) == (18, NOW, "one")
    (file,) = snapshot.files("traffic")
    assert file.bounds["time"] == (NOW, NOW + 600_000_000)
    assert sorted(snapshot.read("traffic")["messages_in"].to_pylist()) == [1, 6, 11]


@pytest.mark.spec("PIPE-05")
def test_rows_of_old_events_are_removed(tmp_path: Path) -> None:
    rows = {"messages": [published(0, 1), published(600, 2)], "sessions": [session("ann")]}
    write_warehouse(tmp_path, rows)
    upkeep.prune(Location(tmp_path), NOW + 3_600_000_000, lambda: NOW)
    snapshot = open_snapshot(tmp_path)
    assert len(snapshot.read("messages")) == 2
    assert snapshot.read("traffic")["messages_in"].to_pylist() == [2]
    assert snapshot.read("channels")["hour"].to_pylist() == ["2026-11-02T22"]
    # Totals are those of a month, of which a part was after that time.
    assert set(snapshot.read("peer_totals")["month"].to_pylist()) == {"2026-11"}
    assert snapshot.round is not None
    assert {"peers", "audit"} <= outdated(snapshot.round.models), "the next round makes them again"
    upkeep.prune(Location(tmp_path), NOW + 31 * 86_400_000_000, lambda: NOW)
    assert len(open_snapshot(tmp_path).read("peer_totals")) == 0


def test_tables_of_an_earlier_version_go_unless_they_hold_more(tmp_path: Path) -> None:
    for name in ("silver/messages/hour=x", "gold/traffic", "quarantine/hour=x", "state"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "quarantine" / "_delta_log").mkdir()
    state = tmp_path / "state" / "state.json"
    state.write_bytes(b'{"segments": {"a": {"rows": 3}, "b": {"rows": 0}}}')
    assert "1 segments that the journal no longer has" in str(replace_old_tables(tmp_path, []))
    assert (tmp_path / "gold").exists()
    assert "made again" in str(replace_old_tables(tmp_path, ["a"]))
    assert [path.name for path in tmp_path.iterdir()] == ["quarantine"]
    assert [path.name for path in (tmp_path / "quarantine").iterdir()] == ["_delta_log"]
    assert replace_old_tables(tmp_path, ["a"]) is None


@pytest.mark.spec("PIPE-05")
async def test_what_a_node_can_take_is_a_setting_of_the_warehouse(tmp_path: Path) -> None:
    there = ("--warehouse", str(tmp_path), "--json")
    asked = await hubbub("pipeline", "capacity", *there)
    measured = msgspec.json.decode(asked.out)
    assert measured == {
        "publishes_per_second": 14_400,
        "deliveries_per_second": 300_000,
        "used": 0.6,
    }
    await hubbub("pipeline", "capacity", "--publishes", "500", *there)
    assert read_capacity(Location(tmp_path)) == Capacity(publishes_per_second=500)
    refused = await hubbub("pipeline", "capacity", "--used", "0", *there)
    assert refused.code == 2


@pytest.mark.spec("PIPE-05")
def test_vacuum_removes_what_killed_rounds_left_for_themselves(tmp_path: Path) -> None:
    write_warehouse(tmp_path, {"messages": [published(0, 1)]})
    left = tmp_path / "_links" / "00000007-dead.parquet"
    left.parent.mkdir()
    left.write_bytes(b"half")
    upkeep.vacuum(Location(tmp_path), 24, lambda: NOW)
    assert not left.exists()
