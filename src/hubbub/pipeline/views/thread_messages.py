"""Which message belongs to which thread, and at which place in it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from hubbub.pipeline.views.columns import TEXT, TIME, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

_COLUMNS = schema(
    hub=TEXT,
    thread=TEXT,
    position=WHOLE,
    message_id=TEXT,
    at=TIME,
    channel=TEXT,
    peer=TEXT,
    conversation_id=TEXT,
    refers_to=TEXT,
    response_time=WHOLE,
    serial=WHOLE,
)


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    """`hour` is that of the thread's first message."""
    rows = sources["linked_messages"]
    return with_columns(rows, hour=hours(rows["thread_began"]))


VIEW = View(
    "thread_messages",
    schema(_COLUMNS, hour=TEXT),
    {"linked_messages": (*_COLUMNS.names, "thread_began")},
    compute,
    key=("hub", "message_id"),
)
