"""Silver rows of events that stand for themselves: messages, deliveries, receipts, attempts, drops.

Sessions and subscriptions are made of two events each: `pairing.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from hubbub.domain import journal
from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name
from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.tables import hour_of

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "messages": (journal.PUBLISHED,),
    "deliveries": (journal.DELIVERED,),
    "receipts": (journal.RECEIVED, journal.ACKNOWLEDGED, journal.DEAD_LETTERED),
    "attempts": (journal.WEBHOOK_ATTEMPT, journal.ADAPTER_ATTEMPT),
    "drops": (journal.DROPPED, journal.TELEMETRY_LOST),
}
"""The tables with one row for each event, and the events."""

HOUR_INDEX: Final = "hour_index"
"""The hour of an event, counted from 1970. Rows that are only added are sorted into folders by it,
as a number costs less than its name."""


def rows(table: str, events: DataFrame) -> DataFrame:
    """The silver rows of fit events; those of other kinds are left out."""
    return _of_kinds(table, events).select(*_columns(SILVER[table]), _named_hour())


def rows_by_index(table: str, events: DataFrame) -> DataFrame:
    """The same with `hour_index` in place of `hour`."""
    return _of_kinds(table, events).select(*_columns(SILVER[table]), _hour_index("at"))


def _of_kinds(table: str, events: DataFrame) -> DataFrame:
    return events.where(F.col("kind").isin(*KINDS[table]))


def _named_hour() -> Column:
    return hour_of(F.timestamp_micros("at")).alias("hour")


def _hour_index(microseconds: str) -> Column:
    return F.expr(f"{microseconds} div {HOUR_MICROSECONDS}").alias(HOUR_INDEX)


def _columns(schema: StructType) -> list[Column]:
    """All but the hour, which comes last."""
    return [
        F.timestamp_micros(column.name).alias(column.name)
        if isinstance(column.dataType, TimestampType)
        else F.col(column.name)
        for column in schema.fields
        if column.name != "hour"
    ]


def repeated_message_hours(new: DataFrame, kept: DataFrame) -> list[str]:
    """Hours in which a message may be there twice. `new` are events, `kept` silver rows of the
    same hours. Compares hashes, so it may name an hour too many, which costs time only.

    The hashes are sorted here: that takes a fraction of what a shuffle of them takes."""
    keys = (
        new.where(F.col("kind") == journal.PUBLISHED)
        .select("hub", "message_id", _hour_index("at"))
        .unionByName(kept.select("hub", "message_id", _hour_index("unix_micros(at)")))
        .select(F.xxhash64("hub", "message_id", HOUR_INDEX).alias("key"), HOUR_INDEX)
        .toArrow()
    )
    hashes = keys["key"].to_numpy()
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeats = order[1:][ordered[1:] == ordered[:-1]]
    hours = np.unique(keys[HOUR_INDEX].to_numpy()[repeats])
    return [hour_name(int(hour)) for hour in hours]


def without_repeats(table: str, rows: DataFrame) -> DataFrame:
    """Each message once, each other event once. Of a message's copies the first one in the
    journal's order stays, whatever order they came in."""
    if table != "messages":
        return rows.dropDuplicates(["segment", "offset"])
    copies = Window.partitionBy("hour", "hub", "message_id").orderBy("at", "segment", "offset")
    return rows.withColumn("copy", F.row_number().over(copies)).where("copy = 1").drop("copy")
