"""Latency of each channel and technology by the hour."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.adding import active_slots
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = with_fields(
    schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE, slots=WHOLE),
    histograms.fields("latency"),
    schema(hour=TEXT),
)
_KEYS = ("hub", "channel", "technology")


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour in which something was delivered."""
    rows = sources["deliveries"]
    count = rows["count"]
    totals = {"deliveries": count, "bytes": rows["size"]}
    groups = Groups(rows, _KEYS)
    added = spreads.added(rows.append_column("latency_count", count), groups, "latency", totals)
    slots = pa.array(active_slots(groups, rows["at"]))
    return spreads.described(added, "latency").append_column("slots", slots)


TABLE = arrow_table(
    "latency",
    SCHEMA,
    {
        "deliveries": (
            *_KEYS,
            "at",
            "count",
            "size",
            "latency_min",
            "latency_max",
            "latency_sum",
            "latency_squares",
            "latency_buckets",
        )
    },
    compute,
    key=("hub", "channel", "technology", "hour"),
)
