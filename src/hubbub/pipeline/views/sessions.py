"""Sessions opened per hour and day, and their durations."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline import spreads
from hubbub.pipeline.columns import days, hours, ones, schema, starts_of_hours, with_columns
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.view import Sources, view

_COUNTS = schema("whole sessions still_open", spreads.fields("duration"))


@view(
    schema("text hub, time time", _COUNTS, "text hour"),
    "hour",
    sessions="hub opened_at duration closed_at",
)
def sessions_hourly(sources: Sources) -> pa.Table:
    sessions = spreads.of_each(sources["sessions"], "duration", "duration")
    sessions = with_columns(sessions, time=starts_of_hours(sessions["opened_at"]))
    totals = {
        "sessions": ones(sessions),
        "still_open": pc.is_null(sessions["closed_at"]).cast(pa.int64()),
    }
    found = spreads.added(sessions, Groups(sessions, ("hub", "time")), "duration", totals)
    return with_columns(spreads.described(found, "duration"), hour=hours(found["time"]))


@view(schema("text hub", _COUNTS, "text day"), "day", sessions_hourly="")
def sessions_daily(sources: Sources) -> pa.Table:
    hourly = sources["sessions_hourly"]
    hourly = with_columns(hourly, day=days(hourly["time"]))
    totals = {name: hourly[name] for name in ("sessions", "still_open")}
    found = spreads.added(hourly, Groups(hourly, ("hub", "day")), "duration", totals)
    return spreads.described(found, "duration")
