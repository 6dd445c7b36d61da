"""What was published to each channel, by type of message and hour."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import active_slots, known
from hubbub.pipeline.gold.columns import TEXT, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table
from hubbub.pipeline.grouping import Groups

SCHEMA = schema(
    hub=TEXT, channel=TEXT, event=TEXT, messages=WHOLE, bytes=WHOLE, slots=WHOLE, hour=TEXT
)
_KEYS = ("hub", "channel", "event")


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    """`slots` has a bit for each five minutes of the hour in which something was published."""
    messages = sources["messages"]
    messages = messages.filter(pc.is_valid(messages["channel"]))
    groups = Groups(messages, _KEYS)
    added = groups.added(
        {
            "messages": (pa.repeat(1, len(messages)), "sum"),
            "bytes": (known(messages["size"]), "sum"),
        }
    )
    return added.append_column("slots", pa.array(active_slots(groups, messages["at"])))


TABLE = arrow_table(
    "channels",
    SCHEMA,
    {"messages": (*_KEYS, "at", "size")},
    compute,
    key=("hub", "channel", "event", "hour"),
)
