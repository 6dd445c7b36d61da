"""How far the forecast was off on days that it had not seen, beside a guess that needs no model."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold.columns import FLAG, REAL, TEXT, WHOLE, schema, shaped
from hubbub.pipeline.gold.forecast import MEASURES
from hubbub.pipeline.tables import GoldTable

SCHEMA = schema(
    hub=TEXT,
    measure=TEXT,
    hours=WHOLE,
    mean=REAL,
    error=REAL,
    error_share=REAL,
    yesterday_error=REAL,
    yesterday_error_share=REAL,
    better=FLAG,
    verdict=TEXT,
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    """`error` is the mean distance from what came, in messages per hour, `error_share` the same
    as a share of the mean hour. `yesterday` is the guess that an hour will be as the same hour
    of the day before was."""
    held_back = sources["forecast"].where("held_back")
    by_measure = None
    for name in MEASURES:
        each = held_back.select(
            "hub",
            F.lit(name).alias("measure"),
            F.col(name).alias("expected"),
            F.col(f"{name}_actual").alias("actual"),
            F.col(f"{name}_yesterday").alias("yesterday"),
        )
        by_measure = each if by_measure is None else by_measure.unionByName(each)
    assert by_measure is not None
    known = by_measure.where(F.col("actual").isNotNull() & F.col("yesterday").isNotNull())
    errors = known.groupBy("hub", "measure").agg(
        F.count(F.lit(1)).alias("hours"),
        F.avg("actual").alias("mean"),
        F.avg(F.abs(F.col("expected") - F.col("actual"))).alias("error"),
        F.avg(F.abs(F.col("yesterday") - F.col("actual"))).alias("yesterday_error"),
    )
    mean = F.nullif("mean", F.lit(0.0))
    better = F.col("error") < F.col("yesterday_error")
    told = errors.withColumns(
        {
            "error_share": F.col("error") / mean,
            "yesterday_error_share": F.col("yesterday_error") / mean,
            "better": better,
            "verdict": F.when(better, "better than the same hour yesterday").otherwise(
                "no better than the same hour yesterday"
            ),
        }
    )
    return shaped(told, SCHEMA)


TABLE = GoldTable(
    name="forecast_errors",
    question=question_of("forecast_errors"),
    schema=SCHEMA,
    sources=("forecast",),
    grain="all",
    transform=transform,
    key=("hub", "measure"),
)
