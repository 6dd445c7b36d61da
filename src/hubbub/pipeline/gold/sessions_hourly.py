"""Sessions that were opened in each hour, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.adding import hour_seconds, times
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = with_fields(
    schema(hub=TEXT, time=TIME, sessions=WHOLE, still_open=WHOLE),
    histograms.fields("duration"),
    schema(hour=TEXT),
)


def compute(sources: Mapping[str, pa.Table], hour: str) -> pa.Table:
    sessions = spreads.of_each(sources["sessions"], "duration", "duration")
    totals = {
        "sessions": pa.repeat(1, len(sessions)),
        "still_open": pc.is_null(sessions["closed_at"]).cast(pa.int64()),
    }
    hours = spreads.added(sessions, Groups(sessions, ("hub",)), "duration", totals)
    time = times(pa.repeat(hour_seconds(hour), len(hours)))
    return spreads.described(hours.append_column("time", time), "duration")


TABLE = arrow_table(
    "sessions_hourly",
    SCHEMA,
    {"sessions": ("hub", "duration", "closed_at")},
    compute,
    key=("hub", "hour"),
)
