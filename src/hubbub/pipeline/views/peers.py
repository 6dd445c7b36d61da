"""Peers: what they write, when, and whether and how fast they answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups, whole
from hubbub.pipeline.views import spreads
from hubbub.pipeline.views.columns import hours, ones, or_zero, schema, with_columns
from hubbub.pipeline.views.view import Sources, View

WRITTEN = ("messages", "bytes", "attempts", "attempts_ok")
_OPENED = ("sessions", "session_time")
COUNTS = (*WRITTEN, *_OPENED)
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


def peer_hours(sources: Sources) -> pa.Table:
    """What each peer wrote in each hour, and how often adapters tried to reach the peer."""
    facts = sources["peer_facts"]
    found = Groups(facts, ("hub", "peer", "time")).added(
        {
            **{name: (facts[name], "sum") for name in WRITTEN},
            "first_at": (facts["first_at"], "min"),
            "last_at": (facts["last_at"], "max"),
        }
    )
    return with_columns(found, hour=hours(found["time"]))


def peer_sessions(sources: Sources) -> pa.Table:
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


def peers(sources: Sources) -> pa.Table:
    """`busiest_hour` is the hour of the day (UTC) with most messages; `questions_answered` counts
    the messages of this peer that somebody else answered; `reached` is the share of attempts to
    reach the peer that went well."""
    months = sources["peer_months"]
    totals = added(months, Groups(months, _KEYS))
    attempts = totals["attempts"].to_numpy().astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.where(attempts == 0, np.nan, totals["attempts_ok"].to_numpy() / attempts)
    more = {
        "busiest_hour": _busiest(whole(totals["hours"])),
        "answers": totals["response_count"],
        "reached": pa.array(reached, from_pandas=True),
    }
    return spreads.described(with_columns(totals, **more), "response")


def _busiest(hours: pa.MapArray) -> pa.Array:
    """Of hours with as many messages, the earlier one; null where there are none."""
    row = np.repeat(np.arange(len(hours)), np.diff(hours.offsets.to_numpy()))
    by_hour = np.zeros((len(hours), HOURS_OF_A_DAY), np.int64)
    by_hour[row, hours.keys.to_numpy()] = hours.items.to_numpy()
    return pa.array(by_hour.argmax(axis=1), mask=by_hour.max(axis=1) <= 0)


VIEWS = (
    View(
        peer_hours,
        schema("text hub peer", f"whole {' '.join(WRITTEN)}", _SPAN, "text hour"),
        {"peer_facts": (*_KEYS, "time", *WRITTEN, "first_at", "last_at")},
        reach="hour",
    ),
    View(
        peer_sessions,
        schema("text hub peer", f"whole {' '.join(_OPENED)}", _SPAN, "text hour"),
        {"sessions": ("hub", "user", "duration", "opened_at", "closed_at")},
        reach="hour",
    ),
    View(
        peers,
        schema(
            "text hub peer",
            _SPAN,
            "whole active_hours busiest_hour messages bytes sessions session_time",
            "whole questions_answered answers attempts attempts_ok, real reached",
            spreads.fields("response"),
        ),
        {"peer_months": MONTH.names},
    ),
)
