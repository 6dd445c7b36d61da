"""Sessions, subscriptions, channels and hubs that were active, over time."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import (
    ALL_HUBS,
    SLOT_SECONDS,
    TEXT,
    TIME,
    WHOLE,
    schema,
    shaped,
    total,
)
from hubbub.pipeline.tables import GoldTable

SHOWN_DAYS = 31
_SUMMED = (
    "sessions_opened",
    "sessions_closed",
    "subscriptions_started",
    "subscriptions_ended",
    "active_channels",
)
SCHEMA = schema(
    hub=TEXT,
    time=TIME,
    active_sessions=WHOLE,
    active_subscriptions=WHOLE,
    active_channels=WHOLE,
    active_hubs=WHOLE,
    sessions_opened=WHOLE,
    sessions_closed=WHOLE,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """A session is active in each slot of five minutes that it was open in, even for a moment:
    what began up to the slot's end, less what ended before the slot. `*` is all hubs together."""
    each = _active(_without_holes(_recent(sources["changes"])))
    whole = each.groupBy("slot").agg(
        F.lit(ALL_HUBS).alias("hub"),
        *(F.sum(name).alias(name) for name in each.columns if name not in ("hub", "slot")),
    )
    both = each.unionByName(whole).withColumn("time", F.timestamp_seconds("slot"))
    return shaped(both, SCHEMA)


def _recent(changes: DataFrame) -> DataFrame:
    """By hub and slot. What is older than the days that are shown counts into the slot before
    them, so that the table does not grow for ever and its first figures are still right."""
    shown_seconds = SHOWN_DAYS * 86_400
    oldest = changes.agg((F.max(F.unix_seconds("time")) - shown_seconds).alias("oldest"))
    slot = F.greatest(F.unix_seconds("time"), F.col("oldest")).alias("slot")
    return (
        changes.crossJoin(F.broadcast(oldest))
        .groupBy("hub", slot)
        .agg(*(total(name).alias(name) for name in _SUMMED))
    )


def _without_holes(changes: DataFrame) -> DataFrame:
    """A row for every slot from a hub's first to the last of all: quiet times are times, too."""
    last = changes.agg(F.max("slot").alias("last"))
    slots = (
        changes.groupBy("hub")
        .agg(F.min("slot").alias("first"))
        .crossJoin(F.broadcast(last))
        .select("hub", F.explode(F.sequence("first", "last", F.lit(SLOT_SECONDS))).alias("slot"))
    )
    return slots.join(changes, ["hub", "slot"], "left").fillna(0)


def _active(slots: DataFrame) -> DataFrame:
    up_to_now = Window.partitionBy("hub").orderBy("slot").rowsBetween(Window.unboundedPreceding, 0)
    before = Window.partitionBy("hub").orderBy("slot").rowsBetween(Window.unboundedPreceding, -1)

    def open_in(began: str, ended: str) -> Column:
        return F.sum(began).over(up_to_now) - F.coalesce(F.sum(ended).over(before), F.lit(0))

    sessions = open_in("sessions_opened", "sessions_closed")
    subscriptions = open_in("subscriptions_started", "subscriptions_ended")
    counted = slots.withColumns(
        {"active_sessions": sessions, "active_subscriptions": subscriptions}
    )
    alive = (F.col("active_sessions") > 0) | (F.col("active_channels") > 0)
    return counted.withColumn("active_hubs", alive.cast("long"))


TABLE = GoldTable(
    name="activity",
    question=question_of("activity"),
    schema=SCHEMA,
    sources=("changes",),
    grain="all",
    transform=transform,
    key=("hub", "time"),
)
