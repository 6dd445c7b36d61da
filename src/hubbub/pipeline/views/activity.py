"""Sessions, subscriptions, channels and hubs that were active, over time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from hubbub.pipeline.grouping import Groups, Integers
from hubbub.pipeline.views.changes import COUNTS
from hubbub.pipeline.views.columns import (
    ALL_HUBS,
    DAY,
    SLOT,
    TEXT,
    TIME,
    WHOLE,
    micros,
    schema,
    times,
)
from hubbub.pipeline.views.view import View

SHOWN_DAYS = 31
SCHEMA = schema(
    hub=TEXT,
    time=TIME,
    active_sessions=WHOLE,
    active_subscriptions=WHOLE,
    active_channels=WHOLE,
    active_hubs=WHOLE,
    sessions_opened=WHOLE,
    sessions_closed=WHOLE,
)
_SHOWN = tuple(SCHEMA.names[2:])


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """A session is active in each slot of five minutes that it was open in, even for a moment:
    what began up to the slot's end, less what ended before the slot. `*` is all hubs together.

    What is older than the days that are shown counts into the slot before them, so that the table
    does not grow for ever and its first figures are still right."""
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
        counts = {
            name: _in_slots(slot[of_hub], changes[name].to_numpy()[of_hub], whole.shape[1])[first:]
            for name in COUNTS
        }
        active = _active(counts)
        whole[:, first:] += np.array([active[name] for name in _SHOWN])
        parts.append(_rows(hub, begin + first * SLOT, active))
    first = int(slot.min())
    together = dict(zip(_SHOWN, whole[:, first:], strict=True))
    parts.append(_rows(ALL_HUBS, begin + first * SLOT, together))
    return pa.concat_tables(parts)


def _in_slots(slot: Integers, values: Integers, slots: int) -> Integers:
    """For every slot up to the last of all: quiet times are times, too."""
    found = np.zeros(slots, np.int64)
    np.add.at(found, slot, values)
    return found


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


VIEW = View(
    "activity",
    SCHEMA,
    {"changes": ("hub", "time", *COUNTS)},
    compute,
    key=("hub", "time"),
)
