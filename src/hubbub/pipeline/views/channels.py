"""What was published to each channel, by type of message and hour."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.views.columns import TEXT, WHOLE, hours, schema, slot_bits, with_columns
from hubbub.pipeline.views.view import View

_KEYS = ("hub", "channel", "event")


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour in which something was published."""
    facts = sources["publish_facts"]
    facts = facts.filter(pc.is_valid(facts["channel"]))
    facts = with_columns(facts, hour=hours(facts["time"]))
    groups = Groups(facts, (*_KEYS, "hour"))
    found = groups.added({name: (facts[name], "sum") for name in ("messages", "bytes")})
    return with_columns(found, slots=pa.array(slot_bits(groups, facts["time"])))


VIEW = View(
    "channels",
    schema(hub=TEXT, channel=TEXT, event=TEXT, messages=WHOLE, bytes=WHOLE, slots=WHOLE, hour=TEXT),
    {"publish_facts": (*_KEYS, "time", "messages", "bytes")},
    compute,
    key=(*_KEYS, "hour"),
    reach="hour",
)
