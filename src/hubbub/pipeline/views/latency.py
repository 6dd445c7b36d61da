"""Latency of each channel and technology by the hour."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views import histograms, spreads
from hubbub.pipeline.views.columns import TEXT, WHOLE, hours, schema, slot_bits, with_columns
from hubbub.pipeline.views.view import View

_KEYS = ("hub", "channel", "technology")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour in which something was delivered."""
    facts = sources["delivery_facts"]
    facts = with_columns(facts, hour=hours(facts["time"]))
    groups = Groups(facts, (*_KEYS, "hour"))
    totals = {name: facts[name] for name in ("deliveries", "bytes")}
    found = spreads.added(facts, groups, "latency", totals)
    bits = pa.array(slot_bits(groups, facts["time"]))
    return with_columns(spreads.described(found, "latency"), slots=bits)


VIEW = View(
    "latency",
    schema(
        schema(hub=TEXT, channel=TEXT, technology=TEXT, deliveries=WHOLE, bytes=WHOLE, slots=WHOLE),
        histograms.fields("latency"),
        schema(hour=TEXT),
    ),
    {
        "delivery_facts": (
            *_KEYS,
            "time",
            "deliveries",
            "bytes",
            *histograms.sums("latency").names,
        )
    },
    compute,
    key=("hub", "channel", "technology", "hour"),
    reach="hour",
)
