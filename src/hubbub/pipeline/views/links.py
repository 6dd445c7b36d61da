"""The messages that belong to a conversation or answer another one, without their content."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.views.columns import TEXT, TIME, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

_COLUMNS = schema(
    hub=TEXT,
    message_id=TEXT,
    at=TIME,
    serial=WHOLE,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
)


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    rows = sources["linked_messages"]
    linked = pc.or_(pc.is_valid(rows["conversation_id"]), pc.is_valid(rows["refers_to"]))
    rows = rows.filter(linked)
    return with_columns(rows, hour=hours(rows["at"]))


VIEW = View(
    "links",
    schema(_COLUMNS, hour=TEXT),
    {"linked_messages": tuple(_COLUMNS.names)},
    compute,
    key=("hub", "message_id"),
    reach="hour",
)
