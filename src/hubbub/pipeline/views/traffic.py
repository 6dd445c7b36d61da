"""Traffic of each hub in five minutes, with the latency of what went out."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import DROPPED
from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import (
    TEXT,
    TIME,
    WHOLE,
    hours,
    or_zero,
    schema,
    slots,
    union,
    with_columns,
)
from hubbub.pipeline.views.view import View

_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_NO_BUCKETS = pa.scalar([], histograms.BUCKETS)


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    parts = union(
        _renamed(sources["publish_facts"], "in"),
        _renamed(sources["delivery_facts"], "out"),
        _dropped(sources["drops"]),
    )
    buckets = pc.fill_null(parts["latency_buckets"].combine_chunks(), _NO_BUCKETS)
    place = parts.schema.get_field_index("latency_buckets")
    parts = parts.set_column(place, "latency_buckets", buckets)
    totals = {name: or_zero(parts[name]) for name in _COUNTS}
    found = spreads.added(parts, Groups(parts, ("hub", "time")), "latency", totals)
    found = spreads.described(found, "latency")
    place = found.schema.get_field_index("latency_count")
    found = found.set_column(place, "latency_count", or_zero(found["latency_count"]))
    return with_columns(found, hour=hours(found["time"]))


def _renamed(facts: pa.Table, way: str) -> pa.Table:
    count = "messages" if way == "in" else "deliveries"
    names = {count: f"messages_{way}", "bytes": f"bytes_{way}"}
    return facts.rename_columns([names.get(name, name) for name in facts.column_names])


def _dropped(drops: pa.Table) -> pa.Table:
    rows = drops.filter(pc.equal(drops["kind"], DROPPED))
    return pa.table(
        {"hub": rows["hub"], "time": slots(rows["at"]), "dropped": pc.fill_null(rows["count"], 1)}
    )


VIEW = View(
    "traffic",
    schema(
        schema(hub=TEXT, time=TIME, **dict.fromkeys(_COUNTS, WHOLE)),
        histograms.fields("latency"),
        schema(hour=TEXT),
    ),
    {
        "publish_facts": ("hub", "time", "messages", "bytes"),
        "delivery_facts": ("hub", "time", "deliveries", "bytes", *histograms.sums("latency").names),
        "drops": ("kind", "hub", "at", "count"),
    },
    compute,
    key=("hub", "time"),
    reach="hour",
)
