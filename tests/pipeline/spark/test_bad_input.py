"""What cannot be taken is set aside with its reason and counted, and nothing else suffers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.segments import HOUR, NOW, Pipeline, delivered, published, session_opened

pytestmark = [pytest.mark.spec("PIPE-02"), pytest.mark.timeout(300)]


@pytest.fixture
def healthy(pipeline: Pipeline) -> Pipeline:
    """One good segment; whatever else is wrong, its rows are there."""
    pipeline.write("good", published(1), delivered(1))
    return pipeline


def quarantined(pipeline: Pipeline) -> list[tuple[str, int | None, str]]:
    rows = pipeline.rows("quarantine")
    return sorted((row["segment"], row["offset"], row["reason"]) for row in rows)


def check_the_good_one(pipeline: Pipeline) -> None:
    assert [row["message_id"] for row in pipeline.rows("messages")] == ["m1"]
    assert len(pipeline.rows("deliveries")) == 1


def change(path: Path, **columns: pa.Array) -> None:
    """Writes a segment again with other columns."""
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    pq.write_table(table, path)


def test_segments_that_are_no_whole_parquet_are_refused(healthy: Pipeline) -> None:
    path = healthy.write("truncated", published(7))
    path.write_bytes(path.read_bytes()[:-100])
    healthy.write("garbage", published(8)).write_bytes(b"this is not Parquet" * 10)
    healthy.write("empty", published(9)).write_bytes(b"")
    path = healthy.write("footer", published(9))
    content = bytearray(path.read_bytes())
    content[-60:-8] = b"\xff" * 52
    path.write_bytes(content)
    summary = healthy.run()
    assert quarantined(healthy) == [
        ("empty", None, "corrupt"),
        ("footer", None, "corrupt"),
        ("garbage", None, "corrupt"),
        ("truncated", None, "truncated"),
    ]
    assert summary.refused == {"corrupt": 3, "truncated": 1}
    check_the_good_one(healthy)
    assert healthy.run().refused == {}


def test_a_segment_damaged_inside_is_found_when_it_is_read(healthy: Pipeline) -> None:
    path = healthy.write("damaged", *(published(n, payload=bytes(range(256))) for n in range(99)))
    content = bytearray(path.read_bytes())
    content[4:600] = b"\xff" * 596
    path.write_bytes(content)
    healthy.run()
    assert quarantined(healthy) == [("damaged", None, "corrupt")]
    check_the_good_one(healthy)


def test_a_refused_segment_that_was_repaired_is_taken(healthy: Pipeline) -> None:
    path = healthy.write("late", published(2))
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    healthy.run()
    assert len(quarantined(healthy)) == 1
    path.write_bytes(whole)
    healthy.run()
    assert quarantined(healthy) == []
    assert [row["message_id"] for row in healthy.rows("messages")] == ["m1", "m2"]


def test_wrong_types_and_missing_columns_are_named(healthy: Pipeline) -> None:
    change(healthy.write("typed", published(2)), at=pa.array(["yesterday"]))
    path = healthy.write("short", published(3))
    pq.write_table(pq.read_table(path).drop(["kind"]), path)
    healthy.run()
    found = {row["segment"]: (row["reason"], row["detail"]) for row in healthy.rows("quarantine")}
    assert found == {
        "typed": ("wrong_types", "at is string, it should be int64"),
        "short": ("wrong_types", "columns are missing: kind"),
    }
    check_the_good_one(healthy)


def test_an_older_segment_without_some_columns_is_taken(healthy: Pipeline) -> None:
    path = healthy.write("older", published(2))
    pq.write_table(pq.read_table(path).drop(["language", "policy", "extra"]), path)
    assert healthy.run().refused == {}
    assert [row["message_id"] for row in healthy.rows("messages")] == ["m1", "m2"]


def test_a_newer_segment_with_a_column_more_is_taken(healthy: Pipeline) -> None:
    path = healthy.write("newer", published(2))
    pq.write_table(pq.read_table(path).append_column("mood", pa.array(["glad"])), path)
    assert healthy.run().refused == {}
    assert [row["message_id"] for row in healthy.rows("messages")] == ["m1", "m2"]


def test_unfit_records_are_refused_one_by_one(healthy: Pipeline) -> None:
    path = healthy.write(
        "mixed",
        published(2),
        published(3),
        published(4),
        published(5, at=NOW + HOUR),
        published(6, at=-1),
        published(7, message_id=None),
        published(8, at=NOW + 60_000_000),
    )
    kinds = pa.array(["message.published", "message.sung", *["message.published"] * 5])
    change(path, kind=kinds, schema_version=pa.array([1, 1, 99, 1, 1, 1, 1], pa.int32()))
    summary = healthy.run()
    assert quarantined(healthy) == [
        ("mixed", 1, "unknown_kind"),
        ("mixed", 2, "newer_version"),
        ("mixed", 3, "future"),
        ("mixed", 4, "bad_time"),
        ("mixed", 5, "incomplete"),
    ]
    assert [row["message_id"] for row in healthy.rows("messages")] == ["m1", "m2", "m8"]
    assert summary.refused.total() == 5
    (mixed,) = [row for row in healthy.rows("segments") if row["segment"] == "mixed"]
    assert dict(mixed["unfit"]) == dict(summary.refused)


def test_what_came_from_the_future_stays_refused_in_a_rebuild(healthy: Pipeline) -> None:
    healthy.write("ahead", published(2, at=NOW + HOUR), session_opened("s1"))
    healthy.run()
    before = healthy.everything()
    healthy.now = NOW + 10 * HOUR
    healthy.run(full=True)
    assert healthy.everything() == before
    assert quarantined(healthy) == [("ahead", 0, "future")]


def test_the_same_segment_under_two_names_counts_once(healthy: Pipeline) -> None:
    sealed = healthy.journal / "sealed"
    shutil.copy(sealed / "good.parquet", sealed / "good-copy.parquet")
    # The same events packed another way, and found only later.
    healthy.run()
    table = pq.read_table(sealed / "good.parquet")
    pq.write_table(table, sealed / "again.parquet", compression="gzip")
    healthy.run()
    check_the_good_one(healthy)
    assert quarantined(healthy) == [
        ("again", None, "duplicate_segment"),
        ("good-copy", None, "duplicate_segment"),
    ]


def test_a_quarantined_record_can_be_looked_at(healthy: Pipeline) -> None:
    healthy.write("odd", published(2, at=-5, payload=b"secret"))
    healthy.run()
    (row,) = healthy.rows("quarantine")
    record: Any = row["record"]
    assert '"message_id": "m2"' in record
    assert "payload" not in record
