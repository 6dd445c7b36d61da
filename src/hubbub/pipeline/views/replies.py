"""The provenance graph: who answered what, and how long it took."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.views.columns import TEXT, TIME, WHOLE, hours, schema, with_columns
from hubbub.pipeline.views.view import View

SCHEMA = schema(
    hub=TEXT,
    answer_id=TEXT,
    question_id=TEXT,
    how=TEXT,
    asker=TEXT,
    answerer=TEXT,
    question_channel=TEXT,
    channel=TEXT,
    question_conversation_id=TEXT,
    conversation_id=TEXT,
    asked_at=TIME,
    answered_at=TIME,
    response_time=WHOLE,
    hour=TEXT,
)
_RENAMED = {"message_id": "answer_id", "peer": "answerer", "at": "answered_at"}


def compute(sources: Mapping[str, pa.Table]) -> pa.Table:
    rows = sources["linked_messages"]
    rows = rows.filter(pc.is_valid(rows["how"]))
    rows = rows.rename_columns([_RENAMED.get(name, name) for name in rows.column_names])
    return with_columns(rows, hour=hours(rows["answered_at"]))


_ORIGINAL = {new: old for old, new in _RENAMED.items()}

VIEW = View(
    "replies",
    SCHEMA,
    {"linked_messages": tuple(_ORIGINAL.get(name, name) for name in SCHEMA.names[:-1])},
    compute,
    key=("hub", "answer_id"),
    reach="hour",
)
