"""Sessions that were opened on each day, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, shaped, with_fields
from hubbub.pipeline.tables import GoldTable, day_of_hour

SCHEMA = with_fields(
    schema(hub=TEXT, sessions=WHOLE, still_open=WHOLE),
    histograms.fields("duration"),
    schema(day=TEXT),
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    hours = sources["sessions_hourly"].withColumn("day", day_of_hour(F.col("hour")))
    totals = {"sessions": F.col("sessions"), "still_open": F.col("still_open")}
    days = histograms.added(hours, ("hub", "day"), "duration", totals)
    return shaped(histograms.described(days, "duration"), SCHEMA)


TABLE = GoldTable(
    name="sessions_daily",
    question=question_of("sessions_daily"),
    schema=SCHEMA,
    sources=("sessions_hourly",),
    grain="day",
    transform=transform,
    key=("hub", "day"),
)
