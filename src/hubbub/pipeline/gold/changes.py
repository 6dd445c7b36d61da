"""What began and ended in each five minutes: what `activity` adds up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import hour_seconds, known, slots, times, together
from hubbub.pipeline.gold.columns import SLOT_SECONDS, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

_COUNTS = (
    "sessions_opened",
    "sessions_closed",
    "subscriptions_started",
    "subscriptions_ended",
    "active_channels",
)
SCHEMA = schema(hub=TEXT, time=TIME, **dict.fromkeys(_COUNTS, WHOLE), hour=TEXT)
_SLOTS_OF_AN_HOUR = 3600 // SLOT_SECONDS
_KEYS = ("hub", "slot")


def compute(sources: Mapping[str, pa.Table], hour: str) -> pa.Table:
    """`hour` is that in which the session or subscription began, also where `time`, at which it
    ended, is much later. A channel is active where something was published or delivered."""
    sessions, subscriptions = sources["sessions"], sources["subscriptions"]
    every = together(
        _counted(sessions, "opened_at", "sessions_opened"),
        _counted(sessions, "closed_at", "sessions_closed"),
        _counted(subscriptions, "started_at", "subscriptions_started"),
        _counted(subscriptions, "ended_at", "subscriptions_ended"),
        _active_channels(pa.concat_tables([sources["channels"], sources["latency"]]), hour),
    )
    added = Groups(every, _KEYS).added({name: (known(every[name]), "sum") for name in _COUNTS})
    return added.append_column("time", times(added["slot"]))


def _counted(rows: pa.Table, time: str, name: str) -> pa.Table:
    rows = rows.filter(pc.is_valid(rows[time]))
    rows = rows.append_column("slot", pa.array(slots(rows[time])))
    return Groups(rows, _KEYS).added({name: (pa.repeat(1, len(rows)), "sum")})


def _active_channels(rows: pa.Table, hour: str) -> pa.Table:
    groups = Groups(rows, ("hub", "channel"))
    bits = np.zeros(len(groups), np.int64)
    np.bitwise_or.at(bits, groups.ids, rows["slots"].to_numpy())
    parts = []
    for place in range(_SLOTS_OF_AN_HOUR):
        active = groups.keys.filter(pa.array(bits >> place & 1 == 1))
        slot = pa.repeat(hour_seconds(hour) + place * SLOT_SECONDS, len(active))
        parts.append(active.select(["hub"]).append_column("slot", slot))
    every = pa.concat_tables(parts)
    return Groups(every, _KEYS).added({"active_channels": (pa.repeat(1, len(every)), "sum")})


TABLE = arrow_table(
    "changes",
    SCHEMA,
    {
        "sessions": ("hub", "opened_at", "closed_at"),
        "subscriptions": ("hub", "started_at", "ended_at"),
        "channels": ("hub", "channel", "slots"),
        "latency": ("hub", "channel", "slots"),
    },
    compute,
    key=("hub", "time", "hour"),
)
