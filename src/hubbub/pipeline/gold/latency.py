"""Latency of each channel and technology by the hour."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped, slot_bit, with_fields
from hubbub.pipeline.tables import GoldTable

SCHEMA = with_fields(
    schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE, slots=WHOLE),
    histograms.fields("latency"),
    schema(hour=TEXT),
)
_KEYS = ("hub", "channel", "technology", "hour")


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`slots` has a bit for each five minutes of the hour in which something was delivered."""
    deliveries = sources["deliveries"].withColumns(
        {"slot": slot_bit(F.col("at")), "latency_count": F.col("count")}
    )
    totals = {"deliveries": F.col("count"), "bytes": F.col("size")}
    added = histograms.added(deliveries, _KEYS, "latency", totals, {"slots": F.col("slot")})
    return shaped(histograms.described(added, "latency"), SCHEMA)


TABLE = GoldTable(
    name="latency",
    question=question_of("latency"),
    schema=SCHEMA,
    sources=("deliveries",),
    grain="hour",
    transform=transform,
    key=("hub", "channel", "technology", "hour"),
)
