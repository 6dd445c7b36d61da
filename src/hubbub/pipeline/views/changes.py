"""What began and ended in each five minutes: what `activity` adds up."""

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
    slots,
    union,
)
from hubbub.pipeline.views.view import View

COUNTS = (
    "sessions_opened",
    "sessions_closed",
    "subscriptions_started",
    "subscriptions_ended",
    "active_channels",
)
_KEYS = ("hub", "time", "hour")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """`hour` is that in which the session or subscription began, also where `time`, at which it
    ended, is much later. A channel is active where something was published or delivered."""
    sessions, subscriptions = sources["sessions"], sources["subscriptions"]
    every = union(
        _counted(sessions, "opened_at", "opened_at", "sessions_opened"),
        _counted(sessions, "opened_at", "closed_at", "sessions_closed"),
        _counted(subscriptions, "started_at", "started_at", "subscriptions_started"),
        _counted(subscriptions, "started_at", "ended_at", "subscriptions_ended"),
        _active_channels(pa.concat_tables([sources["publish_facts"], sources["delivery_facts"]])),
    )
    return Groups(every, _KEYS).added({name: (or_zero(every[name]), "sum") for name in COUNTS})


def _counted(rows: pa.Table, began: str, time: str, name: str) -> pa.Table:
    rows = rows.filter(pc.is_valid(rows[time]))
    when = pa.table({"hub": rows["hub"], "time": slots(rows[time]), "hour": hours(rows[began])})
    return Groups(when, _KEYS).added({name: (ones(when), "sum")})


def _active_channels(facts: pa.Table) -> pa.Table:
    active = Groups(facts, ("hub", "channel", "time")).keys
    active = active.filter(pc.is_valid(active["channel"]))
    active = active.append_column("hour", hours(active["time"]))
    return Groups(active, _KEYS).added({"active_channels": (ones(active), "sum")})


VIEW = View(
    "changes",
    schema(schema(hub=TEXT, time=TIME, **dict.fromkeys(COUNTS, WHOLE)), hour=TEXT),
    {
        "sessions": ("hub", "opened_at", "closed_at"),
        "subscriptions": ("hub", "started_at", "ended_at"),
        "publish_facts": ("hub", "channel", "time"),
        "delivery_facts": ("hub", "channel", "time"),
    },
    compute,
    key=_KEYS,
)
