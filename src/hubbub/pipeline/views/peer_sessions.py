"""The sessions that each peer opened in each hour: with `peer_hours` what `peers` adds up."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.columns import (
    TEXT,
    TIME,
    WHOLE,
    hours,
    ones,
    or_zero,
    schema,
    with_columns,
)
from hubbub.pipeline.views.view import View


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """`last_at` is the end of a session, if it has ended."""
    sessions = sources["sessions"]
    rows = sessions.filter(pc.is_valid(sessions["user"]))
    rows = with_columns(rows, peer=rows["user"], hour=hours(rows["opened_at"]))
    return Groups(rows, ("hub", "peer", "hour")).added(
        {
            "sessions": (ones(rows), "sum"),
            "session_time": (or_zero(rows["duration"]), "sum"),
            "first_at": (rows["opened_at"], "min"),
            "last_at": (pc.coalesce(rows["closed_at"], rows["opened_at"]), "max"),
        }
    )


VIEW = View(
    "peer_sessions",
    schema(
        hub=TEXT,
        peer=TEXT,
        sessions=WHOLE,
        session_time=WHOLE,
        first_at=TIME,
        last_at=TIME,
        hour=TEXT,
    ),
    {"sessions": ("hub", "user", "duration", "opened_at", "closed_at")},
    compute,
    key=("hub", "peer", "hour"),
    reach="hour",
)
