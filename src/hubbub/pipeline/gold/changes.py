"""What began and ended in each five minutes: what `activity` adds up."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import (
    SLOT_SECONDS,
    TEXT,
    TIME,
    WHOLE,
    hour_time,
    schema,
    shaped,
    slot_of,
    total,
)
from hubbub.pipeline.tables import GoldTable

_COUNTS = (
    "sessions_opened",
    "sessions_closed",
    "subscriptions_started",
    "subscriptions_ended",
    "active_channels",
)
SCHEMA = schema(hub=TEXT, time=TIME, **dict.fromkeys(_COUNTS, WHOLE), hour=TEXT)
_SLOTS_OF_AN_HOUR = 3600 // SLOT_SECONDS


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`hour` is that in which the session or subscription began, also where `time`, at which it
    ended, is much later. A channel is active where something was published or delivered."""
    sessions, subscriptions = sources["sessions"], sources["subscriptions"]
    parts = [
        _counted(sessions, "opened_at", "sessions_opened"),
        _counted(sessions, "closed_at", "sessions_closed"),
        _counted(subscriptions, "started_at", "subscriptions_started"),
        _counted(subscriptions, "ended_at", "subscriptions_ended"),
        _active_channels(sources["channels"], sources["latency"]),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part, allowMissingColumns=True)
    added = together.groupBy("hub", "hour", "slot").agg(
        *(total(name).alias(name) for name in _COUNTS)
    )
    return shaped(added.withColumn("time", F.timestamp_seconds("slot")), SCHEMA)


def _counted(frame: DataFrame, time: str, name: str) -> DataFrame:
    slot = slot_of(F.col(time)).alias("slot")
    known = frame.where(F.col(time).isNotNull())
    return known.groupBy("hub", "hour", slot).agg(F.count(F.lit(1)).alias(name))


def _active_channels(channels: DataFrame, latency: DataFrame) -> DataFrame:
    columns = ("hub", "hour", "channel", "slots")
    each = (
        channels.select(*columns)
        .unionByName(latency.select(*columns))
        .groupBy("hub", "hour", "channel")
        .agg(F.bit_or("slots").alias("slots"))
    )
    places = F.filter(
        F.sequence(F.lit(0), F.lit(_SLOTS_OF_AN_HOUR - 1)),
        lambda place: F.getbit(F.col("slots"), place) == 1,
    )
    slot = F.unix_seconds(hour_time(F.col("hour"))) + F.col("place") * SLOT_SECONDS
    return (
        each.select("hub", "hour", F.explode(places).alias("place"))
        .groupBy("hub", "hour", slot.alias("slot"))
        .agg(F.count(F.lit(1)).alias("active_channels"))
    )


TABLE = GoldTable(
    name="changes",
    question=question_of("changes"),
    schema=SCHEMA,
    sources=("sessions", "subscriptions", "channels", "latency"),
    grain="hour",
    transform=transform,
    key=("hub", "time", "hour"),
)
