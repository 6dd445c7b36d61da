"""The expected load of the next hours, the nodes that it requires, and the accuracy of past
forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.columns import (
    ALL_HUBS,
    HOUR,
    SLOTS_OF_AN_HOUR,
    micros,
    ones,
    schema,
    times,
    with_columns,
)
from hubbub.pipeline.grouping import Groups, Integers, Reals, summed
from hubbub.pipeline.views.seasonal_model import HELD_BACK_DAYS, TRAINING_DAYS, predicted
from hubbub.pipeline.views.view import Sources, View, view

MEASURES = ("messages_in", "messages_out")
BUSIEST_HUBS = 20
"""How many hubs have their own forecast, besides the sum of all."""
NINE_OF_TEN = 1.645
"""Standard deviations on each side that include nine of ten hours."""


@dataclass(frozen=True)
class Capacity:
    """The measured capacity of a node (docs/benchmarks.md): acknowledged stored publishes, and
    deliveries with one write each, the most expensive way. `used` is the highest planned
    utilisation of a node, which leaves room for failures and peaks."""

    publishes_per_second: float = 14_400
    deliveries_per_second: float = 300_000
    used: float = 0.6


MEASURED = Capacity()

SCHEMA = schema(
    "text hub, time time, flag held_back",
    *(
        f"real {name} {name}_low {name}_high, whole {name}_actual {name}_yesterday"
        for name in MEASURES
    ),
    "whole nodes",
)


def _load(sources: Sources, capacity: Capacity = MEASURED) -> pa.Table:
    """Rows that are `held_back` lie in the past: the forecast of the day before, beside the actual
    load and the load of the same hour on the day before."""
    traffic = sources["traffic"]
    hour = micros(traffic["time"]) // HOUR
    newest = int(hour.max(initial=0))
    slots = _slots(traffic.filter(pa.array(hour < newest)))
    busiest, peaks = _busiest(slots), _peaks(slots)
    parts = [SCHEMA.empty_table()]
    for hub in (*busiest, ALL_HUBS):
        of_hub = slots.filter(pc.equal(slots["hub"], hub))
        if len(of_hub):
            parts += _forecast(hub, of_hub, newest, capacity, peaks[hub])
    return pa.concat_tables(parts)


def _slots(traffic: pa.Table) -> pa.Table:
    """Load by hub, and of all hubs together, with the number of the hour."""
    whole = with_columns(traffic, hub=pa.repeat(ALL_HUBS, len(traffic)))
    both = pa.concat_tables([traffic, whole])
    slots = Groups(both, ("hub", "time")).added({name: (both[name], "sum") for name in MEASURES})
    every = pc.add(slots["messages_in"], slots["messages_out"])
    hour = pa.array(micros(slots["time"]) // HOUR)
    return slots.append_column("all", every).append_column("hour_number", hour)


def _busiest(slots: pa.Table) -> list[str]:
    hubs = Groups(slots, ("hub",)).added({"all": (slots["all"], "sum")})
    hubs = hubs.filter(pc.not_equal(hubs["hub"], ALL_HUBS))
    ordered = hubs.sort_by([("all", "descending"), ("hub", "ascending")])
    found: list[str] = ordered["hub"].slice(0, BUSIEST_HUBS).to_pylist()
    return found


def _peaks(slots: pa.Table) -> dict[str, float]:
    """The ratio of the busiest slot of an hour to the hour's mean, over all hours of a hub."""
    hours = Groups(slots, ("hub", "hour_number")).added(
        {"busiest": (slots["all"], "max"), "sum": (slots["all"], "sum")}
    )
    hubs = Groups(hours, ("hub",)).added(
        {"busiest": (hours["busiest"], "sum"), "sum": (hours["sum"], "sum")}
    )
    return {
        row["hub"]: row["busiest"] * SLOTS_OF_AN_HOUR / row["sum"] if row["sum"] else 1.0
        for row in hubs.to_pylist()
    }


def _forecast(
    hub: str, slots: pa.Table, newest: int, capacity: Capacity, peak: float
) -> Iterator[pa.Table]:
    hour: Integers = slots["hour_number"].to_numpy()
    first = int(hour.min())
    series = {}
    for name in MEASURES:
        # Every hour, also those in which nothing happened.
        load = summed(hour - first, slots[name].to_numpy(), newest - first)
        series[name] = _Series(load, newest)
    for place, (days_before, asked, _) in enumerate(series[MEASURES[0]].found):
        columns = {
            "hub": pa.repeat(hub, len(asked)),
            "time": times(asked * HOUR),
            "held_back": pa.repeat(days_before > 0, len(asked)),
        }
        for name, each in series.items():
            columns |= {f"{name}{ending}": column for ending, column in each.columns(place)}
        dearest = [each.dearest(place) for each in series.values()]
        columns["nodes"] = _nodes(dearest[0], dearest[1], capacity, peak)
        yield pa.table(columns).select(SCHEMA.names).cast(SCHEMA)


class _Series:
    """One measure of one hub: the actual and the predicted load."""

    def __init__(self, load: Integers, newest: int) -> None:
        self._load = load
        self._first = newest - len(load)
        self.found = list(predicted(load, newest))
        missed = [
            expected - load[asked - self._first]
            for days_before, asked, expected in self.found
            if days_before
        ]
        off = np.concatenate(missed) if missed else np.full(1, np.nan)
        self._off = NINE_OF_TEN * float(np.sqrt((off * off).mean()))

    def columns(self, place: int) -> Iterator[tuple[str, pa.Array]]:
        _, asked, expected = self.found[place]
        yield "", pa.array(expected)
        low = np.where(expected < self._off, 0.0, expected - self._off)
        yield "_low", pa.array(low, from_pandas=True)
        yield "_high", pa.array(expected + self._off, from_pandas=True)
        yield "_actual", self._came(asked)
        yield "_yesterday", self._came(asked - 24)

    def dearest(self, place: int) -> Reals:
        expected = self.found[place][2]
        return expected if np.isnan(self._off) else expected + self._off

    def _came(self, hours: Integers) -> pa.Array:
        places = hours - self._first
        unknown = (places < 0) | (places >= len(self._load))
        return pa.array(self._load[np.where(unknown, 0, places)], mask=unknown)


def _nodes(incoming: Reals, outgoing: Reals, capacity: Capacity, peak: float) -> pa.Array:
    """Nodes required for the busiest five minutes of such an hour."""
    seconds = 3600.0 * capacity.used
    nodes = (
        incoming / (capacity.publishes_per_second * seconds)
        + outgoing / (capacity.deliveries_per_second * seconds)
    ) * peak
    return pa.array(np.maximum(np.ceil(np.round(nodes, 6)), 1).astype(np.int64))


@view(
    schema(
        "text hub measure, whole hours",
        "real mean error error_share yesterday_error yesterday_error_share",
        "flag better, text verdict",
    ),
    forecast="",
)
def forecast_errors(sources: Sources) -> pa.Table:
    """`error` is the mean absolute error in messages per hour, `error_share` its ratio to the mean
    load. `yesterday` is the error of a prediction that repeats the same hour of the day before."""
    rows = sources["forecast"]
    held_back = rows.filter(rows["held_back"])
    return pa.concat_tables([_errors(held_back, name) for name in MEASURES])


def _errors(held_back: pa.Table, measure: str) -> pa.Table:
    came, before = held_back[f"{measure}_actual"], held_back[f"{measure}_yesterday"]
    known = pc.and_(pc.is_valid(came), pc.is_valid(before))
    rows = held_back.filter(known)
    expected = rows[measure]
    actual, yesterday = (each.filter(known).cast(pa.float64()) for each in (came, before))
    found = Groups(rows, ("hub",)).added(
        {
            "hours": (ones(rows), "sum"),
            "mean": (actual, "mean"),
            "error": (pc.abs(pc.subtract(expected, actual)), "mean"),
            "yesterday_error": (pc.abs(pc.subtract(yesterday, actual)), "mean"),
        }
    )
    nothing = pa.scalar(None, pa.float64())
    mean = pc.if_else(pc.equal(found["mean"], 0.0), nothing, found["mean"])
    better = pc.less(found["error"], found["yesterday_error"])
    than = " than the same hour yesterday"
    more = {
        "measure": pa.repeat(measure, len(found)),
        "error_share": pc.divide(found["error"], mean),
        "yesterday_error_share": pc.divide(found["yesterday_error"], mean),
        "better": better,
        "verdict": pc.if_else(better, f"better{than}", f"no better{than}"),
    }
    return with_columns(found, **more)


def make_view(capacity: Capacity = MEASURED) -> View:
    hours = (TRAINING_DAYS + HELD_BACK_DAYS) * 24
    return View(
        "forecast",
        partial(_load, capacity=capacity),
        SCHEMA,
        {"traffic": ("hub", "time", *MEASURES)},
        recent_hours=hours,
    )


forecast = make_view()
