"""The stored tables: their columns and their time columns.

Times are timestamps in UTC, durations are in microseconds. Tables that answer questions, and those
from which they are added up, are defined by `models/`. Needs Arrow only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from hubbub.domain.analytics import LISTED
from hubbub.pipeline.columns import TEXT, WHOLE, schema
from hubbub.pipeline.models import MODELS, Model
from hubbub.pipeline.spreads import sums


@dataclass(frozen=True)
class WarehouseTable:
    """A Delta table of the warehouse."""

    name: str
    schema: pa.Schema
    time: str | None
    """The time column, by whose statistics files are skipped."""
    by_segment: bool = True
    """Whether a row belongs to one segment, which it names; otherwise a file holds all rows of its
    keys."""
    by: tuple[str, ...] = ()
    """The columns by which models assign rows to partitions. Files have statistics of them."""


_ORIGIN: Final = schema("text segment, whole offset")
"""The journal position from which a row was computed."""

_LATENCY: Final = schema(
    "whole latency_min latency_max latency_sum, real latency_squares", "buckets latency_buckets"
)

EVENT: Final = schema(
    "time at, text kind user node technology, whole duration, text reason", _ORIGIN
)
"""An event of a session or subscription. Rows contain their events, so that late events can correct
them."""
_EVENTS: Final = pa.schema([("events", pa.list_(pa.struct(list(EVENT))))])
LINK: Final = schema(
    "text hub message_id, time at, whole serial", "text channel peer conversation_id refers_to"
)
"""A message that belongs to a conversation or replies to another message."""


def _by_name(*tables: WarehouseTable) -> dict[str, WarehouseTable]:
    return {table.name: table for table in tables}


def _with_partitions(table: WarehouseTable) -> WarehouseTable:
    reading = (model.reads.get(table.name) for model in MODELS.values())
    named = [name for each in reading if each is not None for name in each]
    by = dict.fromkeys([table.time, _usual(table), *named])
    return replace(table, by=tuple(name for name in by if name is not None))


def _usual(table: WarehouseTable) -> str | None:
    """The column by which rows belong to a partition, if a model names none."""
    model = MODELS.get(table.name)
    if model is None:
        return table.time
    return model.partition if model.unit else None


def _silver(name: str, *columns: str | pa.Schema) -> WarehouseTable:
    """A table with one row per event."""
    return WarehouseTable(name, schema(*columns, _ORIGIN), "at")


def _facts(name: str, *columns: str | pa.Schema) -> WarehouseTable:
    """A table with sums per segment, or per part of a segment."""
    return WarehouseTable(name, schema(*columns, "text segment"), "time")


_SHOWN_BY: Final = {table.name: table.time for table in LISTED}


def _gold(model: Model) -> WarehouseTable:
    partition = model.partition if model.unit else None
    return WarehouseTable(
        model.name, model.schema, _SHOWN_BY.get(model.name, partition), by_segment=False
    )


_STORED: Final = (
    _silver(
        "messages",
        "text hub channel epoch, whole serial, text message_id",
        "time published_at at, text node session user technology, flag stored",
        "text event content_type, whole size, payload payload, text producer",
        "whole sequence, text conversation_id refers_to sender receiver language",
        "texts headers, text subtype author, whole priority relevant_until ttl",
        "text location dead_letter_of",
    ),
    _silver(
        "deliveries",
        "text hub channel technology node, time at, text epoch",
        "whole first_serial serial messages count size",
        _LATENCY,
    ),
    _silver(
        "receipts",
        "text kind hub channel epoch subscription user technology",
        "whole first_serial serial count delivery, text reason, time at",
        "whole size",
        _LATENCY,
    ),
    _silver(
        "attempts",
        "text kind hub channel message_id subscription peer adapter policy technology",
        "whole attempt, text outcome, whole status duration, text reason",
        "time at published_at",
    ),
    _silver(
        "verdicts",
        "text hub channel message_id sender receiver policy outcome reason, time at",
    ),
    _silver(
        "drops",
        "text kind hub channel session message_id, whole serial count",
        "text reason, time at",
    ),
    _facts("term_facts", "text hub term, time time, whole messages"),
    _facts(
        "document_facts",
        "text hub channel user, time time",
        "whole changes bytes version document_bytes, time first_at last_at",
    ),
    _facts("notification_facts", "text hub, time time, whole created", sums("read")),
    _facts("push_facts", "text hub platform outcome, time time, whole attempts", sums("duration")),
    _silver("repeats", "text hub message_id, time at"),
    WarehouseTable("quarantine", schema(_ORIGIN, "text reason detail kind hub record hour"), None),
    WarehouseTable(
        "sessions",
        schema(
            "text hub session user node technology, time opened_at closed_at",
            "whole duration, text reason",
            _EVENTS,
        ),
        "opened_at",
        by_segment=False,
    ),
    WarehouseTable(
        "subscriptions",
        schema(
            "text hub channel session user node, time started_at ended_at",
            "whole duration",
            _EVENTS,
        ),
        "started_at",
        by_segment=False,
    ),
    WarehouseTable(
        "linked_messages",
        schema(
            "text hub thread, time thread_began, whole position",
            pa.schema(list(LINK)[1:]),
            "text how question_id asker question_channel question_conversation_id",
            "time asked_at, whole response_time",
            _ORIGIN,
        ),
        "at",
        by_segment=False,
    ),
    WarehouseTable(
        "segments",
        schema(
            "text segment, time seen_at, whole size modified rows",
            "time earliest latest, text fingerprint refused duplicate_of",
            "counts kinds unfit nodes",
            pa.schema([("starts", pa.map_(TEXT, pa.list_(WHOLE)))]),
        ),
        None,
    ),
    *(_gold(model) for model in MODELS.values() if model.is_stored),
)
TABLES: Final = _by_name(*map(_with_partitions, _STORED))
"""Tables by name. `rounds` is separate: `tables/rounds.py`."""

DROPPED: Final = (
    *("publish_facts", "delivery_facts", "peer_facts", "sequence_facts"),
    *("peer_months", "sequence_months"),
)
"""Tables of earlier versions, which the first round of this one deletes."""


def taken_from(table: str) -> str:
    """The scratch table for rows that a round recomputes."""
    return f"_{table}"


SCRATCH: Final = _by_name(
    WarehouseTable("_session_events", schema("text hub channel session", EVENT), "at"),
    WarehouseTable("_links", schema(LINK, _ORIGIN), "at"),
    WarehouseTable("_pairs", schema("whole a b"), None),
    *(
        WarehouseTable(taken_from(name), TABLES[name].schema, None, by=TABLES[name].by)
        for name in ("sessions", "subscriptions", "linked_messages")
    ),
)
"""Intermediate results between the jobs of a round, deleted with the round. Not Delta tables."""


def partition_columns(model: Model, source: str) -> tuple[str, ...]:
    """The columns by which a source's rows belong to a partition of the model; none if the source
    is one partition."""
    usual = _usual(TABLES[source])
    return model.reads[source] or (() if usual is None else (usual,))


BY_SEGMENT: Final = tuple(
    table.name for table in TABLES.values() if table.by_segment and table.name != "segments"
)
