"""A store that refuses, loses answers or is full costs a round at most, never what counts."""

from __future__ import annotations

import dataclasses
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema

from harness.failing_store import FailingStore, How, failing_store
from harness.object_store import BUCKET, object_store, variables
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import PipelineBusy, PipelineError
from hubbub.pipeline.failures import clear_spark_failures
from hubbub.pipeline.tables import rounds as rounds_module
from hubbub.pipeline.tables.commits import commit
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import (
    DONE,
    FAILED,
    RUNNING,
    Round,
    RoundLock,
    all_rounds,
    versions,
)
from hubbub.pipeline.tables.snapshot import open_snapshot
from hubbub.pipeline.tables.staging import Stage, StagedFile

pytestmark = pytest.mark.spec("PIPE-02", "PIPE-07")
NOON = 1_794_744_000_000_000
TABLE = "term_facts"


@pytest.fixture(scope="module")
def proxied() -> Iterator[FailingStore]:
    with object_store() as address, failing_store(address) as proxy:
        yield proxy


@pytest.fixture
def store(proxied: FailingStore, monkeypatch: pytest.MonkeyPatch) -> tuple[FailingStore, Location]:
    for name, value in variables(proxied.address).items():
        monkeypatch.setenv(name, value)
    return proxied, Location(f"s3://{BUCKET}/{uuid4().hex}")


def staged(warehouse: Location, messages: int, files: int = 1) -> list[StagedFile]:
    """Files of `term_facts` with one row each."""
    schema = TABLES[TABLE].schema
    plain = pa.schema([(f.name, pa.int64() if f.name == "time" else f.type) for f in schema])
    row = {"hub": "demo", "term": "news", "messages": messages, "time": NOON}
    rows = pa.Table.from_pylist([{**row, "segment": "s"}], plain).cast(schema)
    found = []
    for number in range(files):
        stage = Stage(str(warehouse), f"{messages}-{number}")
        stage.add(TABLE, rows)
        found += stage.close()
    return found


def run(warehouse: Location, messages: int, files: int = 1) -> Round:
    """A round that adds rows with so many messages."""
    with clear_spark_failures(Path("spark.log")):
        rounds = RoundLock(warehouse)
        with rounds.running(lambda: NOON) as mine:
            known = dict(rounds.done.versions) if rounds.done else {}
            added = staged(warehouse, messages, files)
            known[TABLE] = commit(warehouse, TABLE, mine.round, added, base=known.get(TABLE))
            return rounds.finish(finished=NOON, versions=known)
    raise AssertionError


def read(warehouse: Location) -> list[int]:
    return sorted(open_snapshot(warehouse).read(TABLE)["messages"].to_pylist())


def states(warehouse: Location) -> list[str]:
    return [one.state for one in all_rounds(warehouse)]


COMMIT = f"/{TABLE}/_delta_log/00000000000000000002"
BEGIN = "/rounds/_delta_log/00000000000000000002"
END = "/rounds/_delta_log/00000000000000000003"
DATA = f"/{TABLE}/2-0-0.parquet"


@pytest.mark.parametrize(
    ("path", "how"),
    [(COMMIT, "lost"), (BEGIN, "lost"), (END, "lost"), (COMMIT, "refused"), (DATA, "refused")],
    ids=["commit, lost", "begin, lost", "end, lost", "commit, refused", "data, refused"],
)
def test_a_request_that_fails_once_is_made_again_and_the_round_counts_once(
    store: tuple[FailingStore, Location], path: str, how: How
) -> None:
    proxy, warehouse = store
    run(warehouse, 1)
    proxy.fail("PUT", path, how)
    run(warehouse, 2)
    assert proxy.heal() == 1
    assert (read(warehouse), states(warehouse)) == ([1, 2], [DONE, DONE])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["refused", "silent"])
@pytest.mark.parametrize("path", [COMMIT, END], ids=["commit", "end"])
def test_a_store_that_stays_away_is_said_and_the_next_round_goes_on(
    store: tuple[FailingStore, Location], how: How, path: str
) -> None:
    """After as many attempts and as much time as the libraries take, which is some minutes."""
    proxy, warehouse = store
    run(warehouse, 1)
    proxy.fail("PUT", path, how, times=10_000)
    with pytest.raises(PipelineError, match=r"what was committed before is as it was\. Run again"):
        run(warehouse, 2)
    assert read(warehouse) == [1]
    assert proxy.heal() >= 1
    run(warehouse, 3)
    assert read(warehouse) == [1, 3]


def test_a_store_that_is_down_is_not_called_a_damaged_warehouse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def down(*_: object) -> None:
        raise OSError("Generic S3 error: connection refused\nand pages more")

    monkeypatch.setattr(rounds_module, "DeltaTable", down)
    with pytest.raises(PipelineError) as raised:
        open_snapshot("s3://bucket/warehouse")
    assert raised.value.message.startswith("s3://bucket/warehouse cannot be reached (Generic S3")
    assert "\n" not in raised.value.message


def test_a_full_disk_in_a_commit_costs_the_round_only(tmp_path: Path) -> None:
    warehouse = Location(tmp_path)
    run(warehouse, 1)
    # No file may grow beyond this: what a full disk looks like. The log entry of fifty files does.
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(PipelineError, match="the disk is full; what was committed before"):
            run(warehouse, 2, files=50)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert (read(warehouse), states(warehouse)) == ([1], [DONE, FAILED])
    run(warehouse, 3)
    assert read(warehouse) == [1, 3]


@pytest.mark.parametrize("kind", ["folder", "object store"])
def test_of_runs_at_once_one_works_and_the_others_are_refused(
    store: tuple[FailingStore, Location], tmp_path: Path, kind: str
) -> None:
    warehouse = Location(tmp_path / "w") if kind == "folder" else store[1]
    run(warehouse, 1)
    together = threading.Barrier(4)
    won, refused = [], []

    def begin() -> None:
        rounds = RoundLock(warehouse)
        together.wait()
        try:
            with rounds.running(lambda: NOON) as mine:
                won.append(mine.round)
                together.wait()
        except PipelineBusy as error:
            refused.append(error.message)
            together.wait()

    threads = [threading.Thread(target=begin) for _ in range(3)]
    for thread in threads:
        thread.start()
    together.wait()
    together.wait()
    for thread in threads:
        thread.join()
    assert (won, len(refused)) == ([2], 2)
    assert all("wait for it, or stop it" in said for said in refused)
    assert run(warehouse, 2).round == 3


def test_a_round_of_this_process_whose_end_could_not_be_written_locks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Location(tmp_path)
    run(warehouse, 1)

    def away(*_: object) -> None:
        raise OSError("the store is away")

    context = RoundLock(warehouse).running(lambda: NOON)
    context.__enter__()
    monkeypatch.setattr(RoundLock, "_write", away)
    assert not context.__exit__(OSError, OSError("the store is away"), None)
    monkeypatch.undo()
    assert states(warehouse) == [DONE, RUNNING]
    run(warehouse, 2)
    assert (read(warehouse), states(warehouse)) == ([1, 2], [DONE, FAILED, DONE])


def test_a_late_commit_of_a_process_that_was_taken_over_does_not_count(tmp_path: Path) -> None:
    """It comes between two rounds of others, when no round is at work."""
    warehouse = Location(tmp_path)
    run(warehouse, 1)
    paused = RoundLock(warehouse).running(lambda: NOON)
    late = paused.__enter__()
    _lose(warehouse)
    commit(warehouse, TABLE, late.round, staged(warehouse, 50))
    assert read(warehouse) == [1]
    run(warehouse, 2)
    assert read(warehouse) == [1, 2]


def _lose(warehouse: Location) -> None:
    """Another process takes the round over, and does nothing."""
    rounds_module._at_work.clear()
    rounds = RoundLock(warehouse)
    with rounds.running(lambda: NOON):
        assert rounds.done is not None
        rounds.finish(versions=rounds.done.versions)


def test_a_commit_on_a_table_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    warehouse = Location(tmp_path)
    base = run(warehouse, 1).versions[TABLE]

    def late(number: int) -> Callable[[], int]:
        files = staged(warehouse, number)
        return lambda: commit(warehouse, TABLE, number, files, base=base)

    first, second = late(8), late(9)
    first()
    with pytest.raises(PipelineBusy, match="another pipeline wrote the table term_facts"):
        second()


@pytest.mark.parametrize("newer", [True, False])
def test_tables_with_more_or_fewer_columns_are_read_and_written(
    tmp_path: Path, newer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a later version of Hubbub, whose new column this one does not know; and of an earlier one,
    which did not have a column that this one has."""
    warehouse = Location(tmp_path)
    if newer:
        run(warehouse, 1)
        mood: Field = Schema.from_arrow(pa.schema([("mood", pa.string())])).fields[0]
        DeltaTable(str(warehouse / TABLE)).alter.add_columns([mood])
        rounds = RoundLock(warehouse)
        with rounds.running(lambda: NOON):
            rounds.finish(versions=versions(warehouse))
    else:
        whole = TABLES[TABLE]
        fewer = whole.schema.remove(whole.schema.get_field_index("term"))
        monkeypatch.setitem(TABLES, TABLE, dataclasses.replace(whole, schema=fewer))
        run(warehouse, 1)
        monkeypatch.undo()
    assert read(warehouse) == [1]
    run(warehouse, 2)
    rows = open_snapshot(warehouse).read(TABLE)
    assert sorted(rows["messages"].to_pylist()) == [1, 2]
    assert rows.column_names == TABLES[TABLE].schema.names
    assert sorted(rows["term"].to_pylist(), key=str) == (["news"] * 2 if newer else [None, "news"])
