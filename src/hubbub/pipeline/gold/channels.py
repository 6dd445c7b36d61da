"""What was published to each channel, by type of message and hour."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped, slot_bit, total
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT, channel=TEXT, event=TEXT, messages=WHOLE, bytes=WHOLE, slots=WHOLE, hour=TEXT
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`slots` has a bit for each five minutes of the hour in which something was published."""
    messages = sources["messages"].where(F.col("channel").isNotNull())
    return shaped(
        messages.groupBy("hub", "channel", "event", "hour").agg(
            F.count(F.lit(1)).alias("messages"),
            total("size").alias("bytes"),
            F.bit_or(slot_bit(F.col("at"))).alias("slots"),
        ),
        SCHEMA,
    )


TABLE = GoldTable(
    name="channels",
    question=question_of("channels"),
    schema=SCHEMA,
    sources=("messages",),
    grain="hour",
    transform=transform,
    key=("hub", "channel", "event", "hour"),
)
