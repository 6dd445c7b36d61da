"""The messages that belong to a conversation or answer another one, without their content."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.adding import who
from hubbub.pipeline.gold.columns import TEXT, TIME, WHOLE, schema
from hubbub.pipeline.gold_tables import arrow_table

SCHEMA = schema(
    hub=TEXT,
    message_id=TEXT,
    at=TIME,
    serial=WHOLE,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
    hour=TEXT,
)


def compute(sources: Mapping[str, pa.Table], _hour: str) -> pa.Table:
    messages = sources["messages"]
    linked = pc.or_(pc.is_valid(messages["conversation_id"]), pc.is_valid(messages["refers_to"]))
    rows = messages.filter(linked)
    return rows.append_column("peer", who(rows))


TABLE = arrow_table(
    "links",
    SCHEMA,
    {
        "messages": (
            "hub",
            "message_id",
            "at",
            "serial",
            "channel",
            "sender",
            "user",
            "conversation_id",
            "refers_to",
        )
    },
    compute,
    key=("hub", "message_id"),
)
