"""How often adapters and webhooks get their messages through."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.domain.journal import WEBHOOK_ATTEMPT
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import REAL, TEXT, WHOLE, schema, shaped, with_fields
from hubbub.pipeline.tables import GoldTable, day_of_hour

SCHEMA = with_fields(
    schema(
        hub=TEXT,
        adapter=TEXT,
        policy=TEXT,
        attempts=WHOLE,
        attempts_ok=WHOLE,
        deliveries=WHOLE,
        delivered=WHOLE,
        delivered_at_once=WHOLE,
        success=REAL,
        usual_failure=TEXT,
    ),
    histograms.fields("duration"),
    schema(day=TEXT),
)
_KEYS = ["hub", "adapter", "policy", "day"]


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """A delivery is one message to one peer or subscription. It is delivered if any attempt of
    the day went well, at once if the first one did. Webhooks count as an adapter `webhook`."""
    attempts = named(sources["attempts"]).withColumns(
        {
            "day": day_of_hour(F.col("hour")),
            "ok": F.col("outcome") == "ok",
            "first": F.coalesce("attempt", F.lit(1)) == 1,
            "failure": F.coalesce("reason", "outcome"),
        }
    )
    times = histograms.added(
        histograms.of_each(attempts, "duration", "duration"),
        _KEYS,
        "duration",
        {"attempts": F.lit(1), "attempts_ok": F.col("ok").cast("long")},
    )
    # `policy` may be null, and a null is a key like any other.
    same = [F.col(f"t.{key}").eqNullSafe(F.col(f"d.{key}")) for key in _KEYS]
    joined = times.alias("t").join(_deliveries(attempts).alias("d"), same)
    kept = joined.select(
        "t.*", "d.deliveries", "d.delivered", "d.delivered_at_once", "d.usual_failure"
    )
    success = F.col("delivered") / F.col("deliveries")
    return shaped(histograms.described(kept.withColumn("success", success), "duration"), SCHEMA)


def named(attempts: DataFrame) -> DataFrame:
    """With the adapter's name where it is a webhook, and the target that a delivery went to."""
    webhook = F.when(F.col("kind") == WEBHOOK_ATTEMPT, F.lit("webhook"))
    return attempts.withColumns(
        {
            "adapter": F.coalesce("adapter", webhook, "technology"),
            "target": F.coalesce("peer", "subscription", F.lit("")),
        }
    )


def _deliveries(attempts: DataFrame) -> DataFrame:
    each = attempts.groupBy(*_KEYS, "message_id", "target").agg(
        F.bool_or("ok").alias("delivered"),
        F.bool_or(F.col("ok") & F.col("first")).alias("at_once"),
        F.mode(F.when(~F.col("ok"), F.col("failure")), deterministic=True).alias("failure"),
    )
    return each.groupBy(*_KEYS).agg(
        F.count(F.lit(1)).alias("deliveries"),
        F.count_if("delivered").alias("delivered"),
        F.count_if("at_once").alias("delivered_at_once"),
        F.mode("failure", deterministic=True).alias("usual_failure"),
    )


TABLE = GoldTable(
    name="adapter_success",
    question=question_of("adapter_success"),
    schema=SCHEMA,
    sources=("attempts",),
    grain="day",
    transform=transform,
    key=("hub", "adapter", "policy", "day"),
)
