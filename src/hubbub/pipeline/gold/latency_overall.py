"""Latency of each channel and technology over all time, and of a technology as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = with_fields(
    schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE),
    histograms.fields("latency"),
)


_KEYS = ("hub", "channel", "technology")


def compute(sources: Mapping[str, pa.Table], _: str) -> pa.Table:
    """The row without a channel is the hub's sum over all of its channels."""
    latency = sources["latency"]
    nowhere = latency.set_column(1, "channel", pa.nulls(len(latency), pa.string()))
    both = pa.concat_tables([latency, nowhere])
    totals = {"deliveries": both["deliveries"], "bytes": both["bytes"]}
    added = spreads.added(both, Groups(both, _KEYS), "latency", totals)
    return spreads.described(added, "latency")


TABLE = arrow_table(
    "latency_overall",
    SCHEMA,
    {"latency": (*_KEYS, "deliveries", "bytes", *spreads.summed("latency"))},
    compute,
    key=("hub", "channel", "technology"),
)
