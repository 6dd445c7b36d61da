"""What each peer did in each hour: what `peers` adds up."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, shaped, total, who
from hubbub.pipeline.tables import GoldTable

_COUNTS = (
    "messages",
    "bytes",
    "sessions",
    "session_time",
    "attempts",
    "attempts_ok",
)
SCHEMA = schema(
    hub=TEXT,
    peer=TEXT,
    **dict.fromkeys(_COUNTS, WHOLE),
    first_at=TIME,
    last_at=TIME,
    hour=TEXT,
)
_KEYS = ("hub", "peer", "hour")


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """A peer is a user, a sender, or somebody whom an adapter tried to reach."""
    together = (
        _wrote(sources["messages"])
        .unionByName(_came(sources["sessions"]), allowMissingColumns=True)
        .unionByName(_was_sought(sources["attempts"]), allowMissingColumns=True)
        .where(F.col("peer").isNotNull())
    )
    added = together.groupBy(*_KEYS).agg(
        *(total(name).alias(name) for name in _COUNTS),
        F.min("first_at").alias("first_at"),
        F.max("last_at").alias("last_at"),
    )
    return shaped(added, SCHEMA)


def _wrote(messages: DataFrame) -> DataFrame:
    return messages.groupBy("hub", who().alias("peer"), "hour").agg(
        F.count(F.lit(1)).alias("messages"),
        total("size").alias("bytes"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
    )


def _came(sessions: DataFrame) -> DataFrame:
    return sessions.groupBy("hub", F.col("user").alias("peer"), "hour").agg(
        F.count(F.lit(1)).alias("sessions"),
        total("duration").alias("session_time"),
        F.min("opened_at").alias("first_at"),
        F.max(F.coalesce("closed_at", "opened_at")).alias("last_at"),
    )


def _was_sought(attempts: DataFrame) -> DataFrame:
    return attempts.groupBy("hub", "peer", "hour").agg(
        F.count(F.lit(1)).alias("attempts"),
        F.count_if(F.col("outcome") == "ok").alias("attempts_ok"),
    )


TABLE = GoldTable(
    name="peer_hours",
    question=question_of("peer_hours"),
    schema=SCHEMA,
    sources=("messages", "sessions", "attempts"),
    grain="hour",
    transform=transform,
    key=("hub", "peer", "hour"),
)
