"""Sessions that were opened on each day, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import TEXT, WHOLE, days, schema, with_columns
from hubbub.pipeline.views.view import View


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    hourly = sources["sessions_hourly"]
    hourly = with_columns(hourly, day=days(hourly["time"]))
    totals = {name: hourly[name] for name in ("sessions", "still_open")}
    found = spreads.added(hourly, Groups(hourly, ("hub", "day")), "duration", totals)
    return spreads.described(found, "duration")


VIEW = View(
    "sessions_daily",
    schema(
        schema(hub=TEXT, sessions=WHOLE, still_open=WHOLE),
        histograms.fields("duration"),
        schema(day=TEXT),
    ),
    {
        "sessions_hourly": (
            "hub",
            "time",
            "sessions",
            "still_open",
            *histograms.sums("duration").names,
        )
    },
    compute,
    key=("hub", "day"),
    reach="day",
)
