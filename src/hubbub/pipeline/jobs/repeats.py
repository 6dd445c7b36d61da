"""Messages that were journalled twice: found by narrow keys, so that no whole row is shuffled."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.sources.table import files_frame
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.views.columns import HOUR

_KEY = ("hub", "message_id", "at", "segment", "offset")


class Repeat(msgspec.Struct, frozen=True, order=True):
    """A copy of a message. `at` is microseconds since 1970."""

    hub: str
    message_id: str
    at: int
    segment: str
    offset: int


def find_repeats(
    spark: SparkSession,
    fresh: Sequence[str],
    copied: Collection[str],
    snapshot: Snapshot,
    gone: Collection[str],
    span: tuple[int, int] | None,
    fixed: Collection[str] = (),
) -> list[Repeat]:
    """The copies that do not count. A message is the same if hub, message id and hour of its time
    are; of its copies the first by time, segment and offset counts, whatever order they come in.

    `fresh` are the staged files of messages, `span` their earliest and latest time; segments that
    are `copied` as a whole are left out, and of committed messages those of the segments `gone`.
    Rows of `fixed` segments stay where they are."""
    staged = _without(files_frame(spark, snapshot.location, "messages", fresh, _KEY), copied)
    keys = staged.unionByName(_without(_committed(spark, snapshot, span), gone))
    keys = keys.withColumn("at", F.unix_micros("at"))
    keys = keys.withColumn("h", F.xxhash64("hub", "message_id", F.expr(f"at div {HOUR}")))
    twice = keys.groupBy("h").count().where("count > 1").select("h")
    found = [row["h"] for row in twice.collect()]
    if not found:
        return []
    known = spark.createDataFrame([(each,) for each in found], "h long")
    rows = keys.join(F.broadcast(known), "h", "left_semi").select(*_KEY).collect()
    return losing([Repeat(**row.asDict()) for row in rows], fixed)


def losing(copies: Sequence[Repeat], fixed: Collection[str] = ()) -> list[Repeat]:
    """The copies that do not count, of messages that may have one copy or several."""

    def message(one: Repeat) -> tuple[Any, ...]:
        return one.hub, one.message_id, one.at // HOUR

    def place(one: Repeat) -> tuple[Any, ...]:
        return (*message(one), one.segment not in fixed, one.at, one.segment, one.offset)

    groups = itertools.groupby(sorted(copies, key=place), key=message)
    return [copy for _, group in groups for copy in list(group)[1:]]


def _committed(spark: SparkSession, snapshot: Snapshot, span: tuple[int, int] | None) -> DataFrame:
    """Of files with times of the same hours."""
    files = snapshot.files("messages")
    if span is not None:
        since, until = span[0] // HOUR * HOUR, (span[1] // HOUR + 1) * HOUR
        files = [
            file
            for file in files
            if file.since is None or (file.since < until and (file.last or until) >= since)
        ]
    return files_frame(spark, snapshot.location, "messages", [file.path for file in files], _KEY)


def _without(rows: DataFrame, segments: Collection[str]) -> DataFrame:
    return rows.where(~F.col("segment").isin(*segments)) if segments else rows
