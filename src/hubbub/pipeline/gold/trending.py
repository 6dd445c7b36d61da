"""What is talked about more than usual: channels, types and words against their own past."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import (
    REAL,
    TEXT,
    TIME,
    WHOLE,
    hour_time,
    recent_hours,
    schema,
    shaped,
)
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT, kind=TEXT, name=TEXT, time=TIME, messages=WHOLE, usual=REAL, score=REAL, rank=WHOLE
)
SHOWN_HOURS = 24
PAST_HOURS = 7 * 24
TOP = 20
"""The best of each hub, kind and hour."""


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`usual` is the mean of the hours of a week before, or since the hub's first hour if that is
    later; hours without a message count as 0. `score` says how many usual deviations an hour is
    above that: 3 is rare, 10 is news. So a busy channel that is as busy as ever does not trend,
    and a small one that wakes up does."""
    subjects = _subjects(sources).withColumn(
        "hour_number", F.floor(F.unix_seconds(hour_time(F.col("hour"))) / 3600)
    )
    past = (
        Window.partitionBy("hub", "kind", "name")
        .orderBy("hour_number")
        .rangeBetween(-PAST_HOURS, -1)
    )
    begun = subjects.groupBy("hub").agg(F.min("hour_number").alias("begun"))
    now = subjects.agg(F.max("hour_number").alias("now"))
    known = F.least(F.col("hour_number") - F.col("begun"), F.lit(PAST_HOURS))
    usual = F.coalesce("seen", F.lit(0)) / F.col("known")
    variance = F.coalesce("squares", F.lit(0)) / F.col("known") - F.col("usual") * F.col("usual")
    deviation = F.sqrt(F.greatest(variance, F.col("usual")) + 1)
    scored = (
        subjects.withColumns(
            {
                "seen": F.sum("messages").over(past),
                "squares": F.sum(F.col("messages") * F.col("messages")).over(past),
            }
        )
        .join(F.broadcast(begun), "hub")
        .crossJoin(F.broadcast(now))
        .where(F.col("hour_number") > F.col("now") - SHOWN_HOURS)
        .withColumn("known", known)
        .where(F.col("known") > 0)
        .withColumn("usual", usual)
        .withColumn("score", (F.col("messages") - F.col("usual")) / deviation)
        .where(F.col("score") > 0)
    )
    best = Window.partitionBy("hub", "kind", "hour_number").orderBy(F.desc("score"), "name")
    ranked = scored.withColumns(
        {"rank": F.row_number().over(best), "time": hour_time(F.col("hour"))}
    )
    return shaped(ranked.where(F.col("rank") <= TOP), SCHEMA)


def _subjects(sources: Mapping[str, DataFrame]) -> DataFrame:
    """One row for each subject and hour; the partitions that are too old are not even opened."""
    hours = SHOWN_HOURS + PAST_HOURS
    channels = recent_hours(sources["channels"], hours)
    terms = recent_hours(sources["terms"], hours)

    def counted(frame: DataFrame, kind: str, name: str) -> DataFrame:
        return (
            frame.where(F.col(name).isNotNull())
            .groupBy("hub", F.lit(kind).alias("kind"), F.col(name).alias("name"), "hour")
            .agg(F.sum("messages").alias("messages"))
        )

    return (
        counted(channels, "channel", "channel")
        .unionByName(counted(channels, "type", "event"))
        .unionByName(counted(terms, "term", "term"))
    )


TABLE = GoldTable(
    name="trending",
    question=question_of("trending"),
    schema=SCHEMA,
    sources=("channels", "terms"),
    grain="all",
    transform=transform,
    key=("hub", "kind", "name", "time"),
)
