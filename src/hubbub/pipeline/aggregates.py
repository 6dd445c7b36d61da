"""Aggregates shared by transforms and views: the columns with sums, and how sums are combined."""

from __future__ import annotations

import pyarrow as pa

from hubbub.pipeline import spreads
from hubbub.pipeline.columns import or_zero, schema, with_columns
from hubbub.pipeline.grouping import Groups

RUN = schema(
    "text kind hub channel epoch user name, flag again, whole first last count",
    "time began, whole place",
)
"""Consecutive numbers of one producer, subscription or session."""
WHOM = ("kind", "hub", "channel", "epoch", "user", "name")
"""Whose numbers they are."""
LINK = schema(
    "text hub message_id, time at, whole serial", "text channel peer conversation_id refers_to"
)
"""A message that belongs to a conversation or replies to another message."""
WRITTEN = ("messages", "bytes", "attempts", "attempts_ok")
COUNTS = (*WRITTEN, "sessions", "session_time")
_SUMMED = (*COUNTS, "active_hours", "questions_answered")
HOURS_OF_A_DAY = 24
SPAN = schema("time first_at last_at")
MONTH = schema(
    "text hub peer, time month",
    f"whole {' '.join(_SUMMED)}",
    SPAN,
    "buckets hours",
    spreads.sums("response"),
)
"""The columns of monthly totals; `hours` has the number of messages by hour of the day."""


def added(rows: pa.Table, groups: Groups) -> pa.Table:
    """Sums of the peers' activity by group."""
    counts = {name: or_zero(rows[name]) for name in _SUMMED if name in rows.column_names}
    span = groups.added(
        {"first_at": (rows["first_at"], "min"), "last_at": (rows["last_at"], "max")}
    )
    return with_columns(
        spreads.added(rows, groups, "response", counts),
        first_at=span["first_at"],
        last_at=span["last_at"],
        hours=groups.histograms(rows["hours"]),
    )
