"""Unbroken runs of numbers: what producers put and what durable subscriptions were handed.

Almost always one run for each producer and hour, so that `audit` has little to read and is exact
all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.domain.journal import DROPPED, PUBLISHED
from hubbub.pipeline.gold.columns import FLAG, TEXT, TIME, WHOLE, schema, shaped, total
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    kind=TEXT,
    hub=TEXT,
    channel=TEXT,
    epoch=TEXT,
    user=TEXT,
    name=TEXT,
    again=FLAG,
    first=WHOLE,
    last=WHOLE,
    count=WHOLE,
    began=TIME,
    place=WHOLE,
    hour=TEXT,
)
_KEYS = ("kind", "hub", "channel", "epoch", "user", "name", "again", "hour")


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`first` to `last` are sequences of a producer (`message.published`), or serials that a
    subscription was handed, finished or gave up, in the order in which it happened; `again` marks
    what was handed out before. `message.dropped` has only a count, for each session."""
    published = _published(sources["messages"])
    receipts = _receipts(sources["receipts"])
    parts = [
        _runs(published, ("serial", "at", "message_id"), F.col("serial")),
        _runs(receipts, ("at", "segment", "offset"), F.col("offset")),
        _dropped(sources["drops"]),
    ]
    return shaped(
        parts[0].unionByName(parts[1]).unionByName(parts[2], allowMissingColumns=True), SCHEMA
    )


def _published(messages: DataFrame) -> DataFrame:
    known = F.col("producer").isNotNull() & F.col("sequence").isNotNull()
    return messages.where(known).select(
        F.lit(PUBLISHED).alias("kind"),
        "hub",
        "channel",
        "epoch",
        "user",
        F.col("producer").alias("name"),
        F.lit(False).alias("again"),
        "hour",
        F.col("sequence").alias("first"),
        F.col("sequence").alias("last"),
        F.lit(1).cast("long").alias("count"),
        "serial",
        "at",
        "message_id",
    )


def _receipts(receipts: DataFrame) -> DataFrame:
    first = F.coalesce("first_serial", "serial")
    return receipts.where(F.col("serial").isNotNull()).select(
        "kind",
        "hub",
        "channel",
        "epoch",
        "user",
        F.col("subscription").alias("name"),
        (F.coalesce("delivery", F.lit(1)) > 1).alias("again"),
        "hour",
        first.alias("first"),
        F.col("serial").alias("last"),
        (F.col("serial") - first + 1).alias("count"),
        "at",
        "segment",
        "offset",
    )


def _runs(rows: DataFrame, order: Sequence[str], place: Column) -> DataFrame:
    """A run ends where the next number is not the one that follows."""
    in_order = Window.partitionBy(*_KEYS).orderBy(*order)
    breaks = ~F.col("first").eqNullSafe(F.lag("last").over(in_order) + 1)
    return (
        rows.withColumn("place", place)
        .withColumn("breaks", breaks.cast("int"))
        .withColumn("run", F.sum("breaks").over(in_order))
        .groupBy(*_KEYS, "run")
        .agg(
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.sum("count").alias("count"),
            F.min("at").alias("began"),
            F.min("place").alias("place"),
        )
        .drop("run")
    )


def _dropped(drops: DataFrame) -> DataFrame:
    return (
        drops.where(F.col("kind") == DROPPED)
        .groupBy("kind", "hub", "channel", F.coalesce("session", "reason").alias("name"), "hour")
        .agg(total(F.coalesce("count", F.lit(1))).alias("count"), F.min("at").alias("began"))
    )


TABLE = GoldTable(
    name="runs",
    question=question_of("runs"),
    schema=SCHEMA,
    sources=("messages", "receipts", "drops"),
    grain="hour",
    transform=transform,
    key=("kind", "hub", "channel", "epoch", "user", "name", "again", "hour", "began", "first"),
)
