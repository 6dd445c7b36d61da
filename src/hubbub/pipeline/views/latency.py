"""Latency of each channel and technology: per hour, and over all time."""

from __future__ import annotations

import pyarrow as pa

from hubbub.pipeline import spreads
from hubbub.pipeline.columns import hours, schema, slot_bits, with_columns
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.view import Sources, view

_KEYS = ("hub", "channel", "technology")
_TOTALS = ("deliveries", "bytes")
_SHOWN = spreads.fields("latency")
_SUMS = (*_KEYS, *_TOTALS, *spreads.sums("latency").names)


@view(
    schema("text hub channel technology, whole deliveries bytes slots", _SHOWN, "text hour"),
    "hour",
    delivery_facts=(*_SUMS, "time"),
)
def latency(sources: Sources) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour with deliveries."""
    facts = sources["delivery_facts"]
    facts = with_columns(facts, hour=hours(facts["time"]))
    groups = Groups(facts, (*_KEYS, "hour"))
    bits = pa.array(slot_bits(groups, facts["time"]))
    return with_columns(spreads.described(_added(facts, groups), "latency"), slots=bits)


@view(schema("text hub channel technology, whole deliveries bytes", _SHOWN), delivery_facts=_SUMS)
def latency_overall(sources: Sources) -> pa.Table:
    """The row without a channel is the sum over all channels of the hub."""
    facts = sources["delivery_facts"]
    by_channel = _added(facts, Groups(facts, _KEYS))
    hubs = with_columns(by_channel, channel=pa.nulls(len(by_channel), pa.string()))
    both = pa.concat_tables([by_channel, _added(hubs, Groups(hubs, _KEYS))])
    return spreads.described(both, "latency")


def _added(rows: pa.Table, groups: Groups) -> pa.Table:
    return spreads.added(rows, groups, "latency", {name: rows[name] for name in _TOTALS})
