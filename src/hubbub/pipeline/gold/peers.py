"""Profiles of peers: what they write, when, and whether and how fast they answer."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import (
    REAL,
    TEXT,
    TIME,
    WHOLE,
    schema,
    shaped,
    total,
    with_fields,
)
from hubbub.pipeline.tables import GoldTable

_SUMMED = ("messages", "bytes", "sessions", "session_time", "attempts", "attempts_ok")
SCHEMA = with_fields(
    schema(
        hub=TEXT,
        peer=TEXT,
        first_at=TIME,
        last_at=TIME,
        active_hours=WHOLE,
        busiest_hour=WHOLE,
        messages=WHOLE,
        bytes=WHOLE,
        sessions=WHOLE,
        session_time=WHOLE,
        questions_answered=WHOLE,
        answers=WHOLE,
        attempts=WHOLE,
        attempts_ok=WHOLE,
        reached=REAL,
    ),
    histograms.fields("response"),
)
_KEYS = ["hub", "peer"]


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`busiest_hour` is the hour of the day (UTC) with most messages; `questions_answered` counts
    the messages of this peer that somebody else answered; `reached` is the share of attempts to
    reach the peer that went well."""
    hours = sources["peer_hours"]
    profile = (
        _totals(hours)
        .join(_busiest(hours), _KEYS, "left")
        .join(_asked(sources["replies"]), _KEYS, "left")
        .join(histograms.added(sources["responses"], _KEYS, "response"), _KEYS, "left")
        .withColumns(
            {
                "questions_answered": F.coalesce("questions_answered", F.lit(0)),
                "answers": F.coalesce("response_count", F.lit(0)),
                "reached": F.col("attempts_ok") / F.nullif("attempts", F.lit(0)),
            }
        )
    )
    return shaped(histograms.described(profile, "response"), SCHEMA)


def _totals(hours: DataFrame) -> DataFrame:
    return hours.groupBy(*_KEYS).agg(
        *(total(name).alias(name) for name in _SUMMED),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
        F.count_if(F.col("messages") > 0).alias("active_hours"),
    )


def _busiest(hours: DataFrame) -> DataFrame:
    """Of hours with as many messages, the earlier one."""
    of_day = F.substring("hour", 12, 2).cast("long")
    by_hour = hours.groupBy(*_KEYS, of_day.alias("of_day")).agg(F.sum("messages").alias("n"))
    most = F.max_by("of_day", F.struct("n", -F.col("of_day")))
    return by_hour.where(F.col("n") > 0).groupBy(*_KEYS).agg(most.alias("busiest_hour"))


def _asked(replies: DataFrame) -> DataFrame:
    other = ~F.col("asker").eqNullSafe(F.col("answerer"))
    return (
        replies.where(F.col("asker").isNotNull() & other)
        .groupBy("hub", F.col("asker").alias("peer"))
        .agg(F.count_distinct("question_id").alias("questions_answered"))
    )


TABLE = GoldTable(
    name="peers",
    question=question_of("peers"),
    schema=SCHEMA,
    sources=("peer_hours", "replies", "responses"),
    grain="all",
    transform=transform,
    key=("hub", "peer"),
)
