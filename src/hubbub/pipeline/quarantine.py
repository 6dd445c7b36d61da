"""Quarantine: what could not be taken, with the reason, so that somebody can look into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hubbub.pipeline.bronze import EVENTS, HOUR_MICROSECONDS, hour_name
from hubbub.pipeline.schemas import QUARANTINE
from hubbub.pipeline.sorting import VERDICT


def unfit_records(events: DataFrame, seen_at: Mapping[str, int]) -> DataFrame:
    """The records of these events, each with the verdict on it."""
    shown = [F.col(name) for name in EVENTS.names if name != "payload"]
    hour = F.lit(None).cast("string")
    for name, at in seen_at.items():
        hour = F.when(F.col("segment") == name, hour_name(at // HOUR_MICROSECONDS)).otherwise(hour)
    return (
        events.withColumn("record", F.to_json(F.struct(*shown)))
        .withColumn("reason", F.col(VERDICT))
        .withColumn("detail", F.lit(None).cast("string"))
        .withColumn("hour", hour)
        .select(*QUARANTINE.names)
    )


def refused_segments(
    spark: SparkSession, refused: Iterable[tuple[str, str, str]], seen_at: Mapping[str, int]
) -> DataFrame:
    """One row for each segment that was refused as a whole: name, word, sentence."""
    rows = [
        (
            name,
            None,
            word,
            sentence,
            None,
            None,
            None,
            hour_name(seen_at[name] // HOUR_MICROSECONDS),
        )
        for name, word, sentence in refused
    ]
    return spark.createDataFrame(rows, QUARANTINE)
