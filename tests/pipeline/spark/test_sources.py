"""Hubbub as data sources of Spark: the same frame, whoever reads the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from harness.segments import (
    NOON,
    Pipeline,
    delivered,
    published,
    replace_segments,
    session_opened,
)
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


def test_a_table_and_a_view_are_read_as_of_an_earlier_round(
    spark: SparkSession, pipeline: Pipeline, segments: list[str]
) -> None:
    pipeline.run()
    pipeline.write("c", published(3, NOON + 2))
    pipeline.run()
    register(spark)

    def read(name: str, **options: str) -> DataFrame:
        source = spark.read.format("hubbub_table").options(table=name, **options)
        return source.load(str(pipeline.warehouse))

    assert (read("messages").count(), read("messages", round="1").count()) == (3, 2)
    assert [row.messages_in for row in read("traffic", round="1").collect()] == [2]
    with pytest.raises(PySparkException, match="there are rounds from 1 to 2"):
        read("messages", round="7").count()
    with pytest.raises(AnalysisException, match="round 'first' is no number"):
        read("messages", round="first")


def test_a_frame_that_was_filtered_still_has_all_its_rows(
    spark: SparkSession, pipeline: Pipeline, segments: list[str]
) -> None:
    """Spark keeps filters that a source in Python takes over, for all queries of the frame."""
    register(spark)
    events = spark.read.format("hubbub_journal").load(str(pipeline.journal))
    of_one = events.where("segment = 'b'")
    assert (of_one.count(), events.count(), of_one.union(events).count()) == (1, 4, 5)


def test_only_row_groups_files_and_columns_that_are_wanted_are_read(
    spark: SparkSession, pipeline: Pipeline, segments: list[str]
) -> None:
    def splits(**options: str) -> list[str]:
        source = journal.JournalSource({"path": str(pipeline.journal), **options})
        return [part.value.segment for part in source.reader(source.schema()).partitions()]

    register(spark)
    assert splits() == ["a", "b"]
    assert splits(since="2026-11-15T12:00:00.000001Z") == ["b"]
    assert splits(until="2026-11-15T13:00:00.000001+01:00") == ["a"]
    assert splits(hub="other") == []
    read = spark.read.format("hubbub_journal").option("columns", "kind, segment")
    events = read.option("until", "2026-11-15T12:00:00.000001").load(str(pipeline.journal))
    assert events.columns == ["kind", "segment"]
    assert {row.segment for row in events.collect()} == {"a"}

    pipeline.run()
    pipeline.write("c", published(3, NOON + 3600 * 10**6))
    pipeline.run()
    late = {"table": "messages", "since": "2026-11-15T13:00Z", "columns": "message_id"}
    tables = table.TableSource({"path": str(pipeline.warehouse), **late})
    assert (
        len(tables.reader(tables.schema()).partitions())
        == 1
        < len(pipeline.snapshot.files("messages"))
    )
    read = spark.read.format("hubbub_table").options(**late)
    found = read.load(str(pipeline.warehouse)).collect()
    assert [row.asDict() for row in found] == [{"message_id": "m3"}]
    read = spark.read.format("hubbub_table").options(table="traffic", since=late["since"])
    rows = read.option("columns", "messages_in").load(str(pipeline.warehouse))
    assert [row.asDict() for row in rows.collect()] == [{"messages_in": 1}]


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("hubbub_table", {"table": "mesages"}, "there is no table 'mesages'.*messages"),
        ("hubbub_table", {}, "there is no table ''"),
        ("hubbub_journal", {"columns": "kind,wen"}, "there is no column 'wen'.*kind"),
        ("hubbub_journal", {"since": "today"}, "since 'today' is no time.*such as 20"),
    ],
)
def test_a_wrong_option_is_named_with_the_right_ones(
    spark: SparkSession, tmp_path: Path, source: str, options: dict[str, str], said: str
) -> None:
    register(spark)
    with pytest.raises(AnalysisException, match=said):
        spark.read.format(source).options(**options).load(str(tmp_path))


def test_a_damaged_segment_is_named(spark: SparkSession, pipeline: Pipeline) -> None:
    register(spark)
    pipeline.write("a", published(1)).write_bytes(b"PAR1 and nothing")
    with pytest.raises(AnalysisException, match=r"a\.parquet cannot be read.*quarantine"):
        spark.read.format("hubbub_journal").load(str(pipeline.journal)).count()


class Streamed:
    """A query that takes in what is there, and ends; the next call goes on from its checkpoint."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, folder: Path, table: str | None = None
    ) -> None:
        self._spark, self._folder = spark, folder
        self._format, self._path = "hubbub_journal", str(pipeline.journal)
        self._options: dict[str, str] = {}
        if table:
            self._options = {"table": table, "journal": self._path}
            self._format, self._path = "hubbub_table", str(pipeline.warehouse)
        register(spark)

    def batches(self, most: int = 8) -> list[list[str]]:
        """The messages of each new micro-batch."""
        found: list[list[str]] = []

        def take(rows: DataFrame, _: int) -> None:
            found.append(sorted(row.message_id for row in rows.collect() if row.message_id))

        stream = self._spark.readStream.format(self._format).options(**self._options)
        rows = stream.option("maxFilesPerTrigger", most).load(self._path)
        query = rows.writeStream.foreachBatch(take).option(
            "checkpointLocation", str(self._folder / "checkpoint")
        )
        query.trigger(availableNow=True).start().awaitTermination()
        return found

    def offset(self) -> list[str]:
        last = max((self._folder / "checkpoint" / "offsets").glob("[0-9]*"), key=_number)
        read: list[str] = json.loads(last.read_text().splitlines()[-1])["read"]
        return read


def _number(path: Path) -> int:
    return int(path.name)


def test_a_stream_gives_each_segment_once_a_bounded_number_at_a_time(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    stream = Streamed(spark, pipeline, tmp_path)
    for number in range(5):
        pipeline.write(f"s{number}", published(number, NOON + number))
    assert stream.batches(most=2) == [["m0", "m1"], ["m2", "m3"], ["m4"]]
    assert stream.batches() == []
    pipeline.write("s5", published(5, NOON + 5))
    assert stream.batches() == [["m5"]]


def test_a_stream_does_not_repeat_what_compaction_or_erasure_wrote_again(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    stream = Streamed(spark, pipeline, tmp_path)
    paths = [pipeline.write(name, published(number)) for number, name in enumerate("ab")]
    assert stream.batches() == [["m0", "m1"]]
    pipeline.write("rewritten-1", published(0), published(1))
    replace_segments(pipeline.journal, 1, ["a", "b"], ["rewritten-1"])
    pipeline.write("rewritten-2", published(1))
    replace_segments(pipeline.journal, 2, ["rewritten-1"], ["rewritten-2"])
    for path in paths:
        path.unlink()
    pipeline.write("c", published(2))
    assert stream.batches() == [["m2"]]
    assert stream.offset() == ["c", "rewritten-2"], "names of segments that are gone are not kept"


def test_a_stream_loses_nothing_where_read_and_unread_segments_were_joined(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    stream = Streamed(spark, pipeline, tmp_path)
    pipeline.write("a", published(0))
    assert stream.batches() == [["m0"]]
    pipeline.write("b", published(1))
    pipeline.write("rewritten-1", published(0), published(1))
    replace_segments(pipeline.journal, 1, ["a", "b"], ["rewritten-1"])
    assert stream.batches() == [["m0", "m1"]]
    assert stream.batches() == []


def test_a_table_is_a_stream_of_what_rounds_took_in(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path
) -> None:
    stream = Streamed(spark, pipeline, tmp_path, "messages")
    for number in range(3):
        pipeline.write(f"s{number}", published(number, NOON + number))
    pipeline.run()
    assert stream.batches(most=2) == [["m0", "m1"], ["m2"]]
    pipeline.write("s3", published(3, NOON + 3))
    assert stream.batches() == [], "no round has taken it in"
    pipeline.run(full=True)
    assert stream.batches() == [["m3"]], "what a rebuild wrote again is not new"
    pipeline.write("rewritten-1", published(0, NOON), published(1, NOON + 1))
    replace_segments(pipeline.journal, 1, ["s0", "s1"], ["rewritten-1"])
    pipeline.write("s4", published(4, NOON + 4))
    pipeline.run()
    assert stream.batches() == [["m4"]], "nor is what compaction wrote again"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"table": "sessions"}, "'sessions' is no stream.*messages"),
        ({"table": "traffic"}, "'traffic' is no stream"),
        ({"table": "messages", "round": "1"}, "read one round as a batch"),
    ],
)
def test_a_stream_that_cannot_be_is_refused_with_the_remedy(
    spark: SparkSession, pipeline: Pipeline, tmp_path: Path, options: dict[str, str], word: str
) -> None:
    register(spark)
    stream = spark.readStream.format("hubbub_table").options(**options)
    query = stream.load(str(pipeline.warehouse)).writeStream.format("noop")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(PySparkException, match=f"(?s){word}"):
        query.trigger(availableNow=True).start().awaitTermination()


def test_a_journal_without_segments_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    assert spark.read.format("hubbub_journal").load(str(tmp_path)).count() == 0


@pytest.mark.parametrize("most", ["0", "-1", "abc", "1.5", ""])
def test_a_stream_of_no_segments_at_a_time_is_refused(
    spark: SparkSession, tmp_path: Path, most: str
) -> None:
    """`0` read nothing, and `-1` all segments but the last, without an error."""
    register(spark)
    source = spark.readStream.format("hubbub_journal").option("maxFilesPerTrigger", most)
    with pytest.raises(AnalysisException, match=f"maxFilesPerTrigger '{most}' is no number"):
        source.load(str(tmp_path))


@pytest.mark.parametrize("source", ["hubbub_journal", "hubbub_table"])
def test_a_source_without_a_path_says_so(spark: SparkSession, source: str) -> None:
    register(spark)
    with pytest.raises(AnalysisException, match="no path is given"):
        spark.read.format(source).option("table", "messages").load()
