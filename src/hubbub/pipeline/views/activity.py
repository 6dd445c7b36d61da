"""Active sessions, subscriptions, channels and hubs over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.columns import (
    ALL_HUBS,
    DAY,
    SLOT,
    hours,
    micros,
    ones,
    or_zero,
    schema,
    slots,
    times,
    union,
)
from hubbub.pipeline.grouping import Groups, Integers, summed
from hubbub.pipeline.views.view import Sources, view

SHOWN_DAYS = 31
COUNTS = (
    *("sessions_opened", "sessions_closed", "subscriptions_started", "subscriptions_ended"),
    "active_channels",
)
_SHOWN = (
    *("active_sessions", "active_subscriptions", "active_channels", "active_hubs"),
    *("sessions_opened", "sessions_closed"),
)
_KEYS = ("hub", "time", "hour")


@view(
    schema("text hub, time time", f"whole {' '.join(COUNTS)}", "text hour"),
    sessions="hub opened_at closed_at",
    subscriptions="hub started_at ended_at",
    publish_facts="hub channel time",
    delivery_facts="hub channel time",
)
def changes(sources: Sources) -> pa.Table:
    """`hour` is the hour in which the session or subscription began, even if `time`, its end, is
    much later. A channel is active if messages were published or delivered in it."""
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


@view(schema("text hub, time time", f"whole {' '.join(_SHOWN)}"), changes="")
def activity(sources: Sources) -> pa.Table:
    """A session is active in each five-minute slot in which it was open, even briefly: sessions
    begun before the slot's end minus those ended before the slot. `*` is the sum of all hubs.

    Earlier changes are added to the slot before the displayed days, so that the table stays bounded
    and its first values are correct.
    """
    changes = sources["changes"]
    if not len(changes):
        return _rows("", 0, {name: np.zeros(0, np.int64) for name in _SHOWN})
    time = micros(changes["time"])
    begin = int(time.max()) - SHOWN_DAYS * DAY
    slot = np.maximum(time - begin, 0) // SLOT
    hubs = Groups(changes, ("hub",))
    parts, whole = [], np.zeros((len(_SHOWN), int(slot.max()) + 1), np.int64)
    for place, hub in enumerate(hubs.keys["hub"].to_pylist()):
        of_hub = hubs.ids == place
        first = int(slot[of_hub].min())
        counts = {  # of every slot up to the last of all: quiet times are times, too
            name: summed(slot[of_hub], changes[name].to_numpy()[of_hub], whole.shape[1])[first:]
            for name in COUNTS
        }
        active = _active(counts)
        whole[:, first:] += np.array([active[name] for name in _SHOWN])
        parts.append(_rows(hub, begin + first * SLOT, active))
    first = int(slot.min())
    together = dict(zip(_SHOWN, whole[:, first:], strict=True))
    parts.append(_rows(ALL_HUBS, begin + first * SLOT, together))
    return pa.concat_tables(parts)


def _active(counts: Mapping[str, Integers]) -> dict[str, Integers]:
    def open_in(began: str, ended: str) -> Integers:
        return np.cumsum(counts[began]) - np.cumsum(counts[ended]) + counts[ended]

    active = {
        "active_sessions": open_in("sessions_opened", "sessions_closed"),
        "active_subscriptions": open_in("subscriptions_started", "subscriptions_ended"),
        **counts,
    }
    alive = (active["active_sessions"] > 0) | (active["active_channels"] > 0)
    return {**active, "active_hubs": alive.astype(np.int64)}


def _rows(hub: str, first: int, active: Mapping[str, Integers]) -> pa.Table:
    slots = len(active["active_hubs"])
    time = times(first + np.arange(slots) * SLOT)
    return pa.table(
        {"hub": pa.repeat(hub, slots), "time": time, **{name: active[name] for name in _SHOWN}}
    )
