"""The warehouse commits rounds once, takes unfinished ones back, and shows one moment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import CommitRefused, PipelineBusy, WarehouseUnreadable
from hubbub.pipeline.tables import rounds as rounds_module
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import (
    DONE,
    FAILED,
    LAYOUT,
    Round,
    RoundLease,
    RoundLock,
    all_rounds,
    read_lease,
    versions,
)
from hubbub.pipeline.tables.snapshot import open_snapshot
from hubbub.pipeline.tables.staging import Stage, StagedFile

pytestmark = pytest.mark.spec("PIPE-07")
HOUR = 3_600_000_000
NOON = 1_794_744_000_000_000


@pytest.fixture
def warehouse(tmp_path: Path) -> Location:
    return Location(tmp_path / "warehouse")


def staged(warehouse: Location, name: str, *rows: dict[str, Any]) -> list[StagedFile]:
    """A file of `term_facts`; what a row does not say is the usual."""
    usual = {"hub": "demo", "term": "news", "messages": 1, "segment": name}
    schema = TABLES["term_facts"].schema
    plain = pa.schema([(f.name, pa.int64() if f.name == "time" else f.type) for f in schema])
    table = pa.Table.from_pylist([{**usual, "time": NOON, **row} for row in rows], plain)
    stage = Stage(str(warehouse), name)
    stage.add("term_facts", table.cast(schema))
    return stage.close()


def run(warehouse: Location, files: Sequence[StagedFile], removed: Sequence[str] = ()) -> Round:
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON) as mine:
        commit(warehouse, "term_facts", mine.round, files, removed)
        return rounds.finish(finished=NOON, versions=versions(warehouse))


def read(warehouse: Location) -> list[int]:
    return sorted(open_snapshot(warehouse).read("term_facts")["messages"].to_pylist())


def test_a_round_that_is_done_is_what_readers_see(warehouse: Location) -> None:
    assert open_snapshot(warehouse).round is None
    assert read(warehouse) == []
    run(warehouse, staged(warehouse, "a", {"messages": 1}, {"messages": 2}))
    assert read(warehouse) == [1, 2]
    snapshot = open_snapshot(warehouse)
    run(warehouse, staged(warehouse, "b", {"messages": 3}), removed=["a-0.parquet"])
    assert read(warehouse) == [3]
    assert len(snapshot.read("term_facts")) == 2, "an older snapshot stays what it was"


def test_a_commit_that_is_repeated_counts_once(warehouse: Location) -> None:
    with RoundLock(warehouse).running(lambda: NOON) as mine:
        files = staged(warehouse, "a", {})
        first = commit(warehouse, "term_facts", mine.round, files)
        assert commit(warehouse, "term_facts", mine.round, files) == first


def test_what_an_unfinished_round_committed_is_taken_back(warehouse: Location) -> None:
    run(warehouse, staged(warehouse, "a", {"messages": 1}))
    with pytest.raises(ZeroDivisionError):
        _fail(warehouse)
    assert read(warehouse) == [1]
    run(warehouse, staged(warehouse, "c", {"messages": 3}))
    assert read(warehouse) == [1, 3]
    assert [one.state for one in all_rounds(warehouse)] == [DONE, FAILED, DONE]


def _fail(warehouse: Location) -> None:
    with RoundLock(warehouse).running(lambda: NOON) as mine:
        commit(warehouse, "term_facts", mine.round, staged(warehouse, "b", {"messages": 2}))
        raise ZeroDivisionError


def test_a_killed_process_does_not_lock_and_a_live_one_does(
    warehouse: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(warehouse, staged(warehouse, "a", {"messages": 1}))
    abandoned = RoundLock(warehouse).running(lambda: NOON)
    mine = abandoned.__enter__()
    commit(warehouse, "term_facts", mine.round, staged(warehouse, "b", {"messages": 2}))
    with pytest.raises(PipelineBusy, match=str(os.getpid())):
        run(warehouse, staged(warehouse, "c", {"messages": 3}))
    assert read(warehouse) == [1], "readers see the last round that is done"
    monkeypatch.setattr(rounds_module, "started", lambda _: "another process")
    run(warehouse, staged(warehouse, "d", {"messages": 4}))
    assert read(warehouse) == [1, 4]


def test_a_process_whose_lease_was_taken_over_cannot_finish(
    warehouse: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = RoundLock(warehouse)
    context = stale.running(lambda: NOON)
    context.__enter__()
    monkeypatch.setattr(rounds_module, "started", lambda _: "another process")
    run(warehouse, staged(warehouse, "a", {"messages": 1}))
    with pytest.raises(PipelineBusy):
        stale.finish()
    with pytest.raises(CommitRefused):
        _stale_commit(warehouse)
    assert read(warehouse) == [1]


def test_a_lease_can_be_read_while_it_is_renewed(
    warehouse: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine would take over a round without one after two minutes."""
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON):
        while read_lease(warehouse) is None:
            pass
        seen: list[RoundLease | None] = []
        encode = msgspec.json.encode

        def read_before(lease: RoundLease) -> bytes:
            seen.append(read_lease(warehouse))
            return encode(lease)

        monkeypatch.setattr(msgspec.json, "encode", read_before)
        rounds.at_step("[1/7]")
        while not seen:
            pass
    assert None not in seen


def _stale_commit(warehouse: Location) -> None:
    """A commit by a process that read the table before another one wrote it."""
    from hubbub.pipeline.tables import commits

    opened = commits._opened(warehouse, "term_facts", 90, None)
    commit(warehouse, "term_facts", 90, staged(warehouse, "x", {}))
    original = commits._opened
    commits._opened = lambda *_: opened
    try:
        commit(warehouse, "term_facts", 91, staged(warehouse, "y", {}))
    finally:
        commits._opened = original


def test_a_warehouse_of_a_newer_version_is_refused_with_the_remedy(warehouse: Location) -> None:
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON):
        rounds.finish(layout=LAYOUT + 1)
    with pytest.raises(WarehouseUnreadable, match="newer Hubbub"):
        open_snapshot(warehouse)


def test_a_table_of_rounds_without_fingerprints_of_models_is_read_and_continued(
    warehouse: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions with the layout 1 wrote it."""
    with monkeypatch.context() as patched:
        place = rounds_module.SCHEMA.get_field_index("models")
        patched.setattr(rounds_module, "SCHEMA", rounds_module.SCHEMA.remove(place))
        run(warehouse, staged(warehouse, "a", {"messages": 1}))
    before = open_snapshot(warehouse).round
    assert before is not None
    assert (before.round, before.models) == (1, {})
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON):
        rounds.finish(versions=versions(warehouse), models={"traffic": 7})
    after = open_snapshot(warehouse).round
    assert after is not None
    assert (after.round, after.models) == (2, {"traffic": 7})
    assert read(warehouse) == [1]


def test_a_question_about_a_time_leaves_other_files_closed(warehouse: Location) -> None:
    first = staged(warehouse, "a", {"messages": 1, "time": NOON})
    second = staged(warehouse, "b", {"messages": 2, "time": NOON + 5 * HOUR})
    run(warehouse, [*first, *second])
    (warehouse.path / "term_facts" / "a-0.parquet").write_bytes(b"damaged")
    snapshot = open_snapshot(warehouse)
    rows = snapshot.read("term_facts", since=NOON + 4 * HOUR)
    assert rows["messages"].to_pylist() == [2]
