"""Threads as a whole: who took part, how long they went on, what they crossed."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import FLAG, REAL, TEXT, TIME, WHOLE, schema, shaped
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT,
    thread=TEXT,
    started_by=TEXT,
    first_at=TIME,
    last_at=TIME,
    duration=WHOLE,
    messages=WHOLE,
    participants=WHOLE,
    channels=WHOLE,
    conversations=WHOLE,
    crosses=FLAG,
    answers=WHOLE,
    response_mean=REAL,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`crosses`: it spans several channels or conversations."""
    messages = sources["thread_messages"]
    threads = messages.groupBy("hub", "thread").agg(
        F.min_by("peer", "position").alias("started_by"),
        F.min("at").alias("first_at"),
        F.max("at").alias("last_at"),
        F.count(F.lit(1)).alias("messages"),
        F.count_distinct("peer").alias("participants"),
        F.count_distinct("channel").alias("channels"),
        F.count_distinct("conversation_id").alias("conversations"),
    )
    joined = threads.join(_answers(messages, sources["replies"]), ["hub", "thread"], "left")
    micros = F.unix_micros("last_at") - F.unix_micros("first_at")
    return shaped(
        joined.withColumns(
            {
                "duration": micros,
                "crosses": (F.col("channels") > 1) | (F.col("conversations") > 1),
                "answers": F.coalesce("answers", F.lit(0)),
            }
        ),
        SCHEMA,
    )


def _answers(messages: DataFrame, replies: DataFrame) -> DataFrame:
    of_thread = messages.select("hub", "thread", F.col("message_id").alias("answer_id"))
    return (
        replies.join(of_thread, ["hub", "answer_id"])
        .groupBy("hub", "thread")
        .agg(
            F.count(F.lit(1)).alias("answers"),
            F.avg("response_time").alias("response_mean"),
        )
    )


TABLE = GoldTable(
    name="threads",
    question=question_of("threads"),
    schema=SCHEMA,
    sources=("thread_messages", "replies"),
    grain="all",
    transform=transform,
    key=("hub", "thread"),
)
