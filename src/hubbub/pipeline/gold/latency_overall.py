"""Latency of each channel and technology over all time, and of a technology as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped, with_fields
from hubbub.pipeline.tables import GoldTable

SCHEMA = with_fields(
    schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE),
    histograms.fields("latency"),
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """The row without a channel is the hub's sum over all of its channels."""
    latency = sources["latency"]
    both = latency.unionByName(latency.withColumn("channel", F.lit(None).cast("string")))
    totals = {"deliveries": F.col("deliveries"), "bytes": F.col("bytes")}
    added = histograms.added(both, ("hub", "channel", "technology"), "latency", totals)
    return shaped(histograms.described(added, "latency"), SCHEMA)


TABLE = GoldTable(
    name="latency_overall",
    question=question_of("latency_overall"),
    schema=SCHEMA,
    sources=("latency",),
    grain="all",
    transform=transform,
    key=("hub", "channel", "technology"),
)
