"""The generated day of the pipeline's benchmark: the same for the same seed, and what it says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pipeline_day import HOUR, START, write_day
from hubbub.domain.documents.journal import DOCUMENT_CHANGED
from hubbub.domain.journal import (
    KINDS,
    NODE_STARTED,
    NOTIFICATION_CREATED,
    NOTIFICATION_READ,
    POLICY_VERDICT,
    PUSH_ATTEMPT,
    STREAM_EVENT,
)
from hubbub.journal.parquet import SCHEMA, read_sealed


def test_a_seed_gives_the_same_day_each_time(tmp_path: Path) -> None:
    first = write_day(tmp_path / "a" / "sealed", 5000)
    second = write_day(tmp_path / "b" / "sealed", 5000)
    assert [path.name for path in first.segments] == [path.name for path in second.segments]
    for one, other in zip(first.segments, second.segments, strict=True):
        assert pq.read_table(one).equals(pq.read_table(other))
    assert abs(first.events - 5000) < 500


def test_it_is_a_journal_as_documented(tmp_path: Path) -> None:
    day = write_day(tmp_path / "sealed", 20_000, late=[tmp_path / "late"])
    tables = [pq.read_table(path) for path in day.segments]
    assert all(table.schema.equals(SCHEMA) for table in tables)
    assert all(table["offset"].to_pylist() == list(range(len(table))) for table in tables)
    whole = pa.concat_tables(tables)
    assert len(whole) == day.events
    kinds = set(whole["kind"].unique().to_pylist())
    without_table = {
        STREAM_EVENT, DOCUMENT_CHANGED, NOTIFICATION_CREATED, NOTIFICATION_READ, PUSH_ATTEMPT,
        NODE_STARTED, POLICY_VERDICT,
    }  # fmt: skip
    assert kinds == KINDS - without_table
    times = whole["at"].to_pylist()
    assert START <= min(times) <= max(times) < START + 24 * HOUR
    event = next(each for each in read_sealed(day.segments[0]) if each.latency_buckets)
    assert sum((event.latency_buckets or {}).values()) == event.count
    late = sum(pq.read_metadata(path).num_rows for path in (tmp_path / "late").iterdir())
    assert 0.005 < late / day.events < 0.02
