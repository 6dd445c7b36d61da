"""Latency of each channel and technology over all time, and of a technology as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import TEXT, WHOLE, schema
from hubbub.pipeline.views.view import View

_KEYS = ("hub", "channel", "technology")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """The row without a channel is the hub's sum over all of its channels."""
    by_channel = _added(sources["delivery_facts"])
    hubs = by_channel.set_column(1, "channel", pa.nulls(len(by_channel), pa.string()))
    return spreads.described(pa.concat_tables([by_channel, _added(hubs)]), "latency")


def _added(rows: pa.Table) -> pa.Table:
    totals = {name: rows[name] for name in ("deliveries", "bytes")}
    return spreads.added(rows, Groups(rows, _KEYS), "latency", totals)


VIEW = View(
    "latency_overall",
    schema(
        schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE),
        histograms.fields("latency"),
    ),
    {"delivery_facts": (*_KEYS, "deliveries", "bytes", *histograms.sums("latency").names)},
    compute,
    key=_KEYS,
)
