"""Traffic of each hub in five minutes, with the latency of what went out."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.domain.journal import DROPPED
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import (
    TEXT,
    TIME,
    WHOLE,
    schema,
    shaped,
    slot_of,
    total,
    with_fields,
)
from hubbub.pipeline.tables import GoldTable

SCHEMA = with_fields(
    schema(
        hub=TEXT,
        time=TIME,
        messages_in=WHOLE,
        bytes_in=WHOLE,
        messages_out=WHOLE,
        bytes_out=WHOLE,
        dropped=WHOLE,
    ),
    histograms.fields("latency"),
    schema(hour=TEXT),
)
_KEYS = ("hub", "hour", "slot")
_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped", "latency_count")
_LATENCY = ("latency_min", "latency_max", "latency_sum", "latency_squares", "latency_buckets")


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    slots = (
        _sent(sources["deliveries"])
        .unionByName(_received(sources["messages"]), allowMissingColumns=True)
        .unionByName(_dropped(sources["drops"]), allowMissingColumns=True)
        .groupBy(*_KEYS)
        .agg(
            *(total(name).alias(name) for name in _COUNTS),
            *(F.any_value(name, F.lit(True)).alias(name) for name in _LATENCY),
        )
        .withColumn("time", F.timestamp_seconds("slot"))
    )
    return shaped(histograms.described(slots, "latency"), SCHEMA)


def _sent(deliveries: DataFrame) -> DataFrame:
    slots = deliveries.withColumns({"slot": slot_of(F.col("at")), "latency_count": F.col("count")})
    totals = {"messages_out": F.col("count"), "bytes_out": F.col("size")}
    return histograms.added(slots, _KEYS, "latency", totals)


def _received(messages: DataFrame) -> DataFrame:
    return messages.groupBy("hub", "hour", slot_of(F.col("at")).alias("slot")).agg(
        F.count(F.lit(1)).alias("messages_in"), total("size").alias("bytes_in")
    )


def _dropped(drops: DataFrame) -> DataFrame:
    return (
        drops.where(F.col("kind") == DROPPED)
        .groupBy("hub", "hour", slot_of(F.col("at")).alias("slot"))
        .agg(total(F.coalesce("count", F.lit(1))).alias("dropped"))
    )


TABLE = GoldTable(
    name="traffic",
    question=question_of("traffic"),
    schema=SCHEMA,
    sources=("messages", "deliveries", "drops"),
    grain="hour",
    transform=transform,
    key=("hub", "time"),
)
