"""Finds messages that were journalled twice, by narrow keys, so that no whole row is shuffled."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.pipeline.columns import HOUR
from hubbub.pipeline.jobs.work import Work

_KEY = ("hub", "message_id", "at", "segment", "offset")


class Repeat(msgspec.Struct, frozen=True, order=True):
    """A copy of a message. `at` is in microseconds since 1970."""

    hub: str
    message_id: str
    at: int
    segment: str
    offset: int


def find_repeats(
    work: Work, copied: Collection[str], span: tuple[int, int] | None, fixed: Collection[str] = ()
) -> list[Repeat]:
    """The duplicates to ignore. Copies have the same hub, message id and hour; the first by time,
    segment and offset counts, regardless of the order of arrival.

    `span` is the earliest and latest time of the added messages; segments in `copied` are excluded.
    Rows of `fixed` segments are kept.
    """
    if not work.added.get("messages"):
        return []
    staged = work.new("messages", _KEY)
    if copied:
        staged = staged.where(~F.col("segment").isin(*copied))
    keys = staged.unionByName(work.staying(_committed(work, span)))
    keys = keys.withColumn("at", F.unix_micros("at"))
    keys = keys.withColumn("h", F.xxhash64("hub", "message_id", F.expr(f"at div {HOUR}")))
    twice = keys.groupBy("h").count().where("count > 1").select("h")
    found = [row["h"] for row in twice.collect()]
    if not found:
        return []
    known = work.spark.createDataFrame([(each,) for each in found], "h long")
    rows = keys.join(F.broadcast(known), "h", "left_semi").select(*_KEY).collect()
    return losing([Repeat(**row.asDict()) for row in rows], fixed)


def losing(copies: Sequence[Repeat], fixed: Collection[str] = ()) -> list[Repeat]:
    """The duplicates to ignore, among messages with one or several copies."""

    def message(one: Repeat) -> tuple[Any, ...]:
        return one.hub, one.message_id, one.at // HOUR

    def place(one: Repeat) -> tuple[Any, ...]:
        return (*message(one), one.segment not in fixed, one.at, one.segment, one.offset)

    groups = itertools.groupby(sorted(copies, key=place), key=message)
    return [copy for _, group in groups for copy in list(group)[1:]]


def _committed(work: Work, span: tuple[int, int] | None) -> DataFrame:
    """The committed messages of files that overlap the same hours."""
    files = work.base.files("messages")
    if span is not None:
        since, until = span[0] // HOUR * HOUR, (span[1] // HOUR + 1) * HOUR
        files = [file for file in files if file.overlaps(since, until)]
    return work.frame("messages", files, _KEY)
