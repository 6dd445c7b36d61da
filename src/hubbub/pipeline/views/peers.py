"""Peers: what they write, when, and whether and how fast they answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups, whole
from hubbub.pipeline.views import spreads
from hubbub.pipeline.views.columns import REAL, or_zero, schema, with_columns
from hubbub.pipeline.views.view import Sources, view

WRITTEN = ("messages", "bytes", "attempts", "attempts_ok")
COUNTS = (*WRITTEN, "sessions", "session_time")
_SUMMED = (*COUNTS, "active_hours", "questions_answered")
_KEYS = ("hub", "peer")
HOURS_OF_A_DAY = 24
_SPAN = schema("time first_at last_at")
MONTH = schema(
    "text hub peer, time month",
    f"whole {' '.join(_SUMMED)}",
    _SPAN,
    "buckets hours",
    spreads.sums("response"),
)
"""The columns of totals by month; `hours` has the messages of each hour of the day."""


def added(rows: pa.Table, groups: Groups) -> pa.Table:
    """What peers did, added up by groups."""
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


@view(
    schema(
        "text hub peer",
        _SPAN,
        "whole active_hours busiest_hour messages bytes sessions session_time",
        "whole questions_answered answers attempts attempts_ok, real reached",
        spreads.fields("response"),
    ),
    peer_months=MONTH.names,
)
def peers(sources: Sources) -> pa.Table:
    """`busiest_hour` is the hour of the day (UTC) with most messages; `questions_answered` counts
    the messages of this peer that somebody else answered; `reached` is the share of attempts to
    reach the peer that went well."""
    months = sources["peer_months"]
    totals = added(months, Groups(months, _KEYS))
    tried = pc.if_else(pc.greater(totals["attempts"], 0), totals["attempts"], None)
    more = {
        "busiest_hour": _busiest(whole(totals["hours"])),
        "answers": totals["response_count"],
        "reached": pc.divide(totals["attempts_ok"].cast(REAL), tried.cast(REAL)),
    }
    return spreads.described(with_columns(totals, **more), "response")


def _busiest(hours: pa.MapArray) -> pa.Array:
    """Of hours with as many messages, the earlier one; null where there are none."""
    row = np.repeat(np.arange(len(hours)), np.diff(hours.offsets.to_numpy()))
    by_hour = np.zeros((len(hours), HOURS_OF_A_DAY), np.int64)
    by_hour[row, hours.keys.to_numpy()] = hours.items.to_numpy()
    return pa.array(by_hour.argmax(axis=1), mask=by_hour.max(axis=1) <= 0)
