"""Sessions that were opened on each day, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = with_fields(
    schema(hub=TEXT, sessions=WHOLE, still_open=WHOLE),
    histograms.fields("duration"),
    schema(day=TEXT),
)


def compute(sources: Mapping[str, pa.Table], _day: str) -> pa.Table:
    hours = sources["sessions_hourly"]
    totals = {name: hours[name] for name in ("sessions", "still_open")}
    added = spreads.added(hours, Groups(hours, ("hub",)), "duration", totals)
    return spreads.described(added, "duration")


TABLE = arrow_table(
    "sessions_daily",
    SCHEMA,
    {"sessions_hourly": ("hub", "sessions", "still_open", *spreads.summed("duration"))},
    compute,
    key=("hub", "day"),
)
