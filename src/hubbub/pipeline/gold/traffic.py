"""Traffic of each hub in five minutes, with the latency of what went out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.domain.journal import DROPPED
from hubbub.pipeline.gold import histograms, spreads
from hubbub.pipeline.gold.adding import known, slots, times, together
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema, with_fields
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = with_fields(
    schema(
        hub=TEXT,
        time=TIME,
        messages_in=WHOLE,
        bytes_in=WHOLE,
        messages_out=WHOLE,
        bytes_out=WHOLE,
        dropped=WHOLE,
    ),
    histograms.fields("latency"),
    schema(hour=TEXT),
)
_KEYS = ("hub", "slot")
_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped", "latency_count")
_LATENCY = ("latency_min", "latency_max", "latency_sum", "latency_squares", "latency_buckets")


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    sent = _sent(sources["deliveries"])
    every = together(sent, _received(sources["messages"]), _dropped(sources["drops"]))
    groups = Groups(every, _KEYS)
    slot = groups.added({name: (every[name], "sum") for name in _COUNTS})
    for place, name in enumerate(slot.column_names):
        if name in _COUNTS:
            slot = slot.set_column(place, name, known(slot[name]))
    sent_in = np.full(len(groups), -1)
    sent_in[groups.ids[: len(sent)]] = np.arange(len(sent))
    which = pa.array(sent_in, mask=sent_in < 0)
    for name in _LATENCY:
        slot = slot.append_column(name, sent[name].take(which))
    return spreads.described(slot.append_column("time", times(slot["slot"])), "latency")


def _sent(deliveries: pa.Table) -> pa.Table:
    count = deliveries["count"]
    rows = deliveries.append_column("slot", pa.array(slots(deliveries["at"])))
    totals = {"messages_out": count, "bytes_out": deliveries["size"]}
    groups = Groups(rows, _KEYS)
    return spreads.added(rows.append_column("latency_count", count), groups, "latency", totals)


def _received(messages: pa.Table) -> pa.Table:
    rows = messages.append_column("slot", pa.array(slots(messages["at"])))
    one = pa.repeat(1, len(rows))
    return Groups(rows, _KEYS).added(
        {"messages_in": (one, "sum"), "bytes_in": (known(rows["size"]), "sum")}
    )


def _dropped(drops: pa.Table) -> pa.Table:
    rows = drops.filter(pc.equal(drops["kind"], DROPPED))
    rows = rows.append_column("slot", pa.array(slots(rows["at"])))
    return Groups(rows, _KEYS).added({"dropped": (pc.fill_null(rows["count"], 1), "sum")})


TABLE = arrow_table(
    "traffic",
    SCHEMA,
    {
        "messages": ("hub", "at", "size"),
        "deliveries": ("hub", "at", "count", "size", *_LATENCY),
        "drops": ("kind", "hub", "at", "count"),
    },
    compute,
    key=("hub", "time"),
)
