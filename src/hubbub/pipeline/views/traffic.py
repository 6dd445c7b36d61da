"""Incoming and outgoing traffic: of each hub per five minutes, and into each channel per hour."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import DROPPED
from hubbub.pipeline import spreads
from hubbub.pipeline.columns import (
    BUCKETS,
    hours,
    or_zero,
    schema,
    slot_bits,
    slots,
    union,
    with_columns,
)
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.view import Sources, view

_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_NO_BUCKETS = pa.scalar([], BUCKETS)
_CHANNEL = ("hub", "channel", "event")


@view(
    schema(
        f"text hub, time time, whole {' '.join(_COUNTS)}", spreads.fields("latency"), "text hour"
    ),
    "hour",
    publish_facts="hub time messages bytes",
    delivery_facts=("hub", "time", "deliveries", "bytes", *spreads.sums("latency").names),
    drops="kind hub at count",
)
def traffic(sources: Sources) -> pa.Table:
    """Traffic of each hub per five minutes, with the latency of deliveries."""
    parts = union(
        _renamed(sources["publish_facts"], "in"),
        _renamed(sources["delivery_facts"], "out"),
        _dropped(sources["drops"]),
    )
    buckets = pc.fill_null(parts["latency_buckets"].combine_chunks(), _NO_BUCKETS)
    parts = with_columns(parts, latency_buckets=buckets)
    totals = {name: or_zero(parts[name]) for name in _COUNTS}
    found = spreads.added(parts, Groups(parts, ("hub", "time")), "latency", totals)
    found = spreads.described(found, "latency")
    count = or_zero(found["latency_count"])
    return with_columns(found, latency_count=count, hour=hours(found["time"]))


def _renamed(facts: pa.Table, way: str) -> pa.Table:
    count = "messages" if way == "in" else "deliveries"
    names = {count: f"messages_{way}", "bytes": f"bytes_{way}"}
    return facts.rename_columns([names.get(name, name) for name in facts.column_names])


def _dropped(drops: pa.Table) -> pa.Table:
    rows = drops.filter(pc.equal(drops["kind"], DROPPED))
    return pa.table(
        {"hub": rows["hub"], "time": slots(rows["at"]), "dropped": pc.fill_null(rows["count"], 1)}
    )


@view(
    schema("text hub channel event, whole messages bytes slots, text hour"),
    "hour",
    publish_facts=(*_CHANNEL, "time", "messages", "bytes"),
)
def channels(sources: Sources) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour with publishes."""
    facts = sources["publish_facts"]
    facts = facts.filter(pc.is_valid(facts["channel"]))
    facts = with_columns(facts, hour=hours(facts["time"]))
    groups = Groups(facts, (*_CHANNEL, "hour"))
    found = groups.added({name: (facts[name], "sum") for name in ("messages", "bytes")})
    return with_columns(found, slots=pa.array(slot_bits(groups, facts["time"])))
