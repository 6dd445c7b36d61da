"""Sessions that were opened in each hour, and how long they lasted."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import (
    HOUR,
    TEXT,
    TIME,
    WHOLE,
    hours,
    micros,
    ones,
    schema,
    times,
    with_columns,
)
from hubbub.pipeline.views.view import View


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    sessions = spreads.of_each(sources["sessions"], "duration", "duration")
    opened = micros(sessions["opened_at"])
    sessions = with_columns(sessions, time=times(opened - opened % HOUR))
    totals = {
        "sessions": ones(sessions),
        "still_open": pc.is_null(sessions["closed_at"]).cast(pa.int64()),
    }
    found = spreads.added(sessions, Groups(sessions, ("hub", "time")), "duration", totals)
    return with_columns(spreads.described(found, "duration"), hour=hours(found["time"]))


VIEW = View(
    "sessions_hourly",
    schema(
        schema(hub=TEXT, time=TIME, sessions=WHOLE, still_open=WHOLE),
        histograms.fields("duration"),
        schema(hour=TEXT),
    ),
    {"sessions": ("hub", "opened_at", "duration", "closed_at")},
    compute,
    key=("hub", "hour"),
    reach="hour",
)
