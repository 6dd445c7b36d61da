"""Hubbub as data sources of Spark: the same frame, whoever reads the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from harness.segments import NOON, Pipeline, delivered, published, session_opened
from hubbub.pipeline.sources import journal, register, table
from hubbub.pipeline.transforms.events import EVENTS

pytestmark = [pytest.mark.spec("PIPE-07"), pytest.mark.timeout(600)]


@pytest.fixture
def segments(pipeline: Pipeline) -> list[str]:
    one = pipeline.write("a", published(1, headers={"x": "y"}), delivered(1), session_opened("s1"))
    two = pipeline.write("b", published(2, NOON + 1, payload=None))
    return [str(one), str(two)]


def test_spark_and_arrow_read_the_same_events(
    spark: SparkSession, segments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    native = journal.events(spark, segments, EVENTS.names)
    rows = sorted(map(str, native.collect()))
    monkeypatch.setattr(journal, "readable_by_spark", lambda *_: False)
    by_arrow = journal.events(spark, segments, EVENTS.names)
    assert by_arrow.schema.simpleString() == native.schema.simpleString()
    assert sorted(map(str, by_arrow.collect())) == rows
    assert len(rows) == 4


def test_a_notebook_reads_the_journal_a_table_and_a_view(
    spark: SparkSession, pipeline: Pipeline, segments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.run()
    register(spark)
    events = spark.read.format("hubbub_journal").load(str(pipeline.journal))
    assert events.where("kind = 'message.published'").count() == 2
    place = str(pipeline.warehouse)
    messages = spark.read.format("hubbub_table").option("table", "messages").load(place)
    assert sorted(row.message_id for row in messages.collect()) == ["m1", "m2"]
    traffic = spark.read.format("hubbub_table").option("table", "traffic").load(place)
    assert [row.messages_in for row in traffic.collect()] == [2]
    native = table.frame(spark, pipeline.snapshot, "messages")
    assert sorted(map(str, native.collect())) == sorted(map(str, messages.collect()))
    monkeypatch.setattr(table, "readable_by_spark", lambda *_: False)
    files = [file.path for file in pipeline.snapshot.files("messages")]
    found = table.files_frame(
        spark, pipeline.warehouse, "messages", files, ["message_id"], with_file=True
    )
    rows = found.collect()
    assert sorted(row.message_id for row in rows) == ["m1", "m2"]
    assert {row.file for row in rows} == set(files)


def test_a_stream_gives_each_segment_once(
    spark: SparkSession, pipeline: Pipeline, segments: list[str], tmp_path: Path
) -> None:
    register(spark)

    def read() -> list[str]:
        stream = spark.readStream.format("hubbub_journal").load(str(pipeline.journal))
        query = (
            stream.select("segment", "kind")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(row.segment for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert read() == ["a", "a", "a", "b"]
    pipeline.write("c", published(3))
    assert read() == ["a", "a", "a", "b", "c"]
