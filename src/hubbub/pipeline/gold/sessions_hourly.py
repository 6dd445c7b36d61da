"""Sessions that were opened in each hour, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hubbub.domain.analytics import question_of
from hubbub.pipeline.gold import histograms
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, hour_time, schema, shaped, with_fields
from hubbub.pipeline.tables import GoldTable

SCHEMA = with_fields(
    schema(hub=TEXT, time=TIME, sessions=WHOLE, still_open=WHOLE),
    histograms.fields("duration"),
    schema(hour=TEXT),
)


def transform(sources: Mapping[str, DataFrame]) -> DataFrame:
    sessions = histograms.of_each(sources["sessions"], "duration", "duration")
    totals = {
        "sessions": F.lit(1),
        "still_open": F.col("closed_at").isNull().cast("long"),
    }
    hours = histograms.added(sessions, ("hub", "hour"), "duration", totals)
    timed = hours.withColumn("time", hour_time(F.col("hour")))
    return shaped(histograms.described(timed, "duration"), SCHEMA)


TABLE = GoldTable(
    name="sessions_hourly",
    question=question_of("sessions_hourly"),
    schema=SCHEMA,
    sources=("sessions",),
    grain="hour",
    transform=transform,
    key=("hub", "hour"),
)
