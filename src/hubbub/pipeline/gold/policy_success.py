"""How often delivery policies were met: over all adapters that a message to a peer took."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.adapter_success import named
from hubbub.pipeline.gold.columns import REAL, TEXT, WHOLE, schema, shaped
from hubbub.pipeline.tables import GoldTable, day_of_hour

SCHEMA = schema(
    hub=TEXT, policy=TEXT, deliveries=WHOLE, met=WHOLE, failed=WHOLE, success=REAL, day=TEXT
)
NEEDS_ALL = ("TO_ALL_CHANNELS", "TO_ALL_MEMBERS", "TO_ALL")
NEEDS_FIRST = ("PREFERRED",)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """A policy that names all needs every adapter to succeed, PREFERRED the one that was tried
    first, any other one adapter at least. Attempts without a policy are not counted here."""
    attempts = named(sources["attempts"]).where(F.col("policy").isNotNull())
    by_adapter = attempts.groupBy(
        "hub", "policy", F.upper("policy").alias("rule"), day_of_hour(F.col("hour")).alias("day"),
        "message_id", "target", "adapter",
    ).agg(
        F.bool_or(F.col("outcome") == "ok").alias("ok"),
        F.min(F.struct("at", "segment", "offset")).alias("began"),
    )  # fmt: skip
    by_message = by_adapter.groupBy("hub", "policy", "rule", "day", "message_id", "target").agg(
        F.bool_and("ok").alias("all"),
        F.bool_or("ok").alias("any"),
        F.min_by("ok", "began").alias("first"),
    )
    met = (
        F.when(F.col("rule").isin(*NEEDS_ALL), F.col("all"))
        .when(F.col("rule").isin(*NEEDS_FIRST), F.col("first"))
        .otherwise(F.col("any"))
    )
    counted = by_message.groupBy("hub", "policy", "day").agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count_if(met).alias("met"),
        F.count_if(~met).alias("failed"),
    )
    return shaped(counted.withColumn("success", F.col("met") / F.col("deliveries")), SCHEMA)


TABLE = GoldTable(
    name="policy_success",
    question=question_of("policy_success"),
    schema=SCHEMA,
    sources=("attempts",),
    grain="day",
    transform=transform,
    key=("hub", "policy", "day"),
)
