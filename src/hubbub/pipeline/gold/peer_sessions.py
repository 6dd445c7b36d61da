"""The sessions that each peer opened in each hour: with `peer_hours` what `peers` adds up.

Apart from it, because the end of a session changes the hour in which it began, of which all else
stays as it is."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import known
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = schema(
    hub=TEXT,
    peer=TEXT,
    sessions=WHOLE,
    session_time=WHOLE,
    first_at=TIME,
    last_at=TIME,
    hour=TEXT,
)


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """`last_at` is the end of a session, if it has ended."""
    sessions = sources["sessions"]
    rows = sessions.filter(pc.is_valid(sessions["user"]))
    rows = rows.append_column("peer", rows["user"])
    return Groups(rows, ("hub", "peer")).added(
        {
            "sessions": (pa.repeat(1, len(rows)), "sum"),
            "session_time": (known(rows["duration"]), "sum"),
            "first_at": (rows["opened_at"], "min"),
            "last_at": (pc.coalesce(rows["closed_at"], rows["opened_at"]), "max"),
        }
    )


TABLE = arrow_table(
    "peer_sessions",
    SCHEMA,
    {"sessions": ("hub", "user", "duration", "opened_at", "closed_at")},
    compute,
    key=("hub", "peer", "hour"),
)
