"""Messages that were journalled twice: found by narrow keys, so that no whole row is shuffled."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.domain.journal import PUBLISHED
from hubbub.pipeline.sources.journal import events
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
    snapshot: Snapshot,
    gone: Collection[str],
    span: tuple[int, int] | None,
    fixed: Collection[str] = (),
) -> list[Repeat]:
    """The copies that do not count. A message is the same if hub, message id and hour of its time
    are; of its copies the first by time, segment and offset counts, whatever order they come in.

    `fresh` are the files of new segments, `span` their earliest and latest time. Committed rows of
    the segments `gone` are left out. Rows of `fixed` segments stay where they are."""
    keys = _fresh_keys(spark, fresh).unionByName(_committed_keys(spark, snapshot, gone, span))
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


def _fresh_keys(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    rows = events(spark, files, ("kind", "hub", "message_id", "at", "offset"))
    return rows.where(
        (F.col("kind") == PUBLISHED) & F.col("hub").isNotNull() & F.col("message_id").isNotNull()
    ).select(*_KEY)


def _committed_keys(
    spark: SparkSession, snapshot: Snapshot, gone: Collection[str], span: tuple[int, int] | None
) -> DataFrame:
    """Of files with times of the same hours."""
    files = snapshot.files("messages")
    if span is not None:
        since, until = span[0] // HOUR * HOUR, (span[1] // HOUR + 1) * HOUR
        files = [
            file
            for file in files
            if file.since is None or (file.since < until and (file.last or until) >= since)
        ]
    rows = files_frame(
        spark, snapshot.location, "messages", [file.path for file in files], list(_KEY)
    )
    rows = rows.withColumn("at", F.unix_micros("at"))
    return rows.where(~F.col("segment").isin(*gone)) if gone else rows
