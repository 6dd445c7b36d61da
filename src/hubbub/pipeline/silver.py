"""Silver rows of events that stand for themselves: messages, deliveries, receipts, attempts, drops.

Sessions and subscriptions are made of two events each: `pairing.py`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from hubbub.domain import journal
from hubbub.pipeline.bronze import HOUR_MICROSECONDS
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


def rows(table: str, events: DataFrame) -> DataFrame:
    """The silver rows of fit events; those of other kinds are left out."""
    kinds = KINDS[table]
    return events.where(F.col("kind").isin(*kinds)).select(*_columns(SILVER[table]))


def _columns(schema: StructType) -> list[Column]:
    columns = []
    for column in schema.fields:
        if column.name == "hour":
            value = hour_of(F.timestamp_micros("at"))
        elif isinstance(column.dataType, TimestampType):
            value = F.timestamp_micros(column.name)
        else:
            value = F.col(column.name)
        columns.append(value.alias(column.name))
    return columns


def repeated_message_hours(new: DataFrame, kept: DataFrame) -> list[str]:
    """Hours in which a message may be there twice. `new` are events, `kept` silver rows of the
    same hours. Compares hashes, so it may name an hour too many, which costs time only."""
    keys = (
        new.where(F.col("kind") == journal.PUBLISHED)
        .select("hub", "message_id", F.expr(f"at div {HOUR_MICROSECONDS}").alias("hour_index"))
        .unionByName(
            kept.select(
                "hub",
                "message_id",
                F.expr(f"unix_micros(at) div {HOUR_MICROSECONDS}").alias("hour_index"),
            )
        )
    )
    doubled = (
        keys.groupBy(F.xxhash64("hub", "message_id", "hour_index").alias("key"))
        .agg(F.count(F.lit(1)).alias("count"), F.max("hour_index").alias("hour_index"))
        .where("count > 1")
    )
    hours = doubled.select(hour_of(F.timestamp_seconds(F.col("hour_index") * 3600)).alias("hour"))
    return [row.hour for row in hours.distinct().collect()]


def without_repeats(table: str, rows: DataFrame) -> DataFrame:
    """Each message once, each other event once. Of a message's copies the first one in the
    journal's order stays, whatever order they came in."""
    if table != "messages":
        return rows.dropDuplicates(["segment", "offset"])
    copies = Window.partitionBy("hour", "hub", "message_id").orderBy("at", "segment", "offset")
    return rows.withColumn("copy", F.row_number().over(copies)).where("copy = 1").drop("copy")
