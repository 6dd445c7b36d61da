"""How far the forecast was off on days that it had not seen, beside a guess that needs no model."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.columns import FLAG, REAL, TEXT, WHOLE, schema
from hubbub.pipeline.gold.forecast import MEASURES
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = schema(
    hub=TEXT,
    measure=TEXT,
    hours=WHOLE,
    mean=REAL,
    error=REAL,
    error_share=REAL,
    yesterday_error=REAL,
    yesterday_error_share=REAL,
    better=FLAG,
    verdict=TEXT,
)


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """`error` is the mean distance from what came, in messages per hour, `error_share` the same
    as a share of the mean hour. `yesterday` is the guess that an hour will be as the same hour
    of the day before was."""
    forecast = sources["forecast"]
    held_back = forecast.filter(forecast["held_back"])
    return pa.concat_tables([_errors(held_back, name) for name in MEASURES])


def _errors(held_back: pa.Table, measure: str) -> pa.Table:
    came, before = held_back[f"{measure}_actual"], held_back[f"{measure}_yesterday"]
    known = pc.and_(pc.is_valid(came), pc.is_valid(before))
    rows = held_back.filter(known)
    expected = rows[measure]
    actual, yesterday = (each.filter(known).cast(pa.float64()) for each in (came, before))
    found = Groups(rows, ("hub",)).added(
        {
            "hours": (pa.repeat(1, len(rows)), "sum"),
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
    for name, column in more.items():
        found = found.append_column(name, column)
    return found


TABLE = arrow_table(
    "forecast_errors",
    SCHEMA,
    {
        "forecast": (
            "hub",
            "held_back",
            *(f"{name}{ending}" for name in MEASURES for ending in ("", "_actual", "_yesterday")),
        )
    },
    compute,
    key=("hub", "measure"),
)
