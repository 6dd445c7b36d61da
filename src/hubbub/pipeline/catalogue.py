"""The materialised tables: their columns, and the column that says when.

Times are timestamps in UTC, durations microseconds. Views are in `views/`. Needs Arrow only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hubbub.pipeline.views.audit import RUN
from hubbub.pipeline.views.columns import TEXT, WHOLE, schema
from hubbub.pipeline.views.conversations import LINK
from hubbub.pipeline.views.peers import MONTH
from hubbub.pipeline.views.spreads import sums


@dataclass(frozen=True)
class Table:
    """A Delta table of the warehouse."""

    name: str
    schema: pa.Schema
    time: str | None
    """The column by which files are left closed that have nothing of the time in question."""
    by_segment: bool = True
    """A row comes from the segment that it names; else a file holds all rows of its keys."""


_ORIGIN: Final = schema("text segment, whole offset")
"""Where in the journal a row comes from."""

_LATENCY: Final = schema(
    "whole latency_min latency_max latency_sum, real latency_squares", "buckets latency_buckets"
)

EVENT: Final = schema(
    "time at, text kind user node technology, whole duration, text reason", _ORIGIN
)
"""An event of a session or subscription. Rows keep theirs, so that late events can correct them."""
_EVENTS: Final = pa.schema([("events", pa.list_(pa.struct(list(EVENT))))])


def _by_name(*tables: Table) -> dict[str, Table]:
    return {table.name: table for table in tables}


def _silver(name: str, *columns: str | pa.Schema) -> Table:
    """A row for each event."""
    return Table(name, schema(*columns, _ORIGIN), "at")


def _facts(name: str, *columns: str | pa.Schema, time: str = "time") -> Table:
    """Sums of a segment, or of a part of it."""
    return Table(name, schema(*columns, "text segment"), time)


TABLES: Final = _by_name(
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
    _facts("publish_facts", "text hub channel event, time time, whole messages bytes"),
    _facts(
        "delivery_facts",
        "text hub channel technology, time time, whole deliveries bytes",
        sums("latency"),
    ),
    _facts(
        "peer_facts",
        "text hub peer, time time, whole messages bytes attempts attempts_ok",
        "time first_at last_at",
    ),
    _facts("term_facts", "text hub term, time time, whole messages"),
    _facts("sequence_facts", RUN, time="began"),
    _facts(
        "document_facts",
        "text hub channel user, time time",
        "whole changes bytes version document_bytes, time first_at last_at",
    ),
    _facts("notification_facts", "text hub, time time, whole created", sums("read")),
    _facts("push_facts", "text hub platform outcome, time time, whole attempts", sums("duration")),
    _silver("repeats", "text hub message_id, time at"),
    Table("quarantine", schema(_ORIGIN, "text reason detail kind hub record hour"), None),
    Table(
        "sessions",
        schema(
            "text hub session user node technology, time opened_at closed_at",
            "whole duration, text reason",
            _EVENTS,
        ),
        "opened_at",
        by_segment=False,
    ),
    Table(
        "subscriptions",
        schema(
            "text hub channel session user node, time started_at ended_at",
            "whole duration",
            _EVENTS,
        ),
        "started_at",
        by_segment=False,
    ),
    Table(
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
    Table("peer_months", MONTH, "month", by_segment=False),
    Table("sequence_months", schema("time month", RUN), "month", by_segment=False),
    Table(
        "segments",
        schema(
            "text segment, time seen_at, whole size modified rows",
            "time earliest latest, text fingerprint refused duplicate_of",
            "counts kinds unfit nodes",
            pa.schema([("starts", pa.map_(TEXT, pa.list_(WHOLE)))]),
        ),
        None,
    ),
)
"""By name. `rounds` is beside them: `tables/rounds.py`."""


def taken_from(table: str) -> str:
    """Where rows of a table go that a round makes again."""
    return f"_{table}"


SCRATCH: Final = _by_name(
    Table("_session_events", schema("text hub channel session", EVENT), "at"),
    Table("_links", schema(LINK, _ORIGIN), "at"),
    Table("_pairs", schema("whole a b"), None),
    *(
        Table(taken_from(name), TABLES[name].schema, None)
        for name in ("sessions", "subscriptions", "linked_messages")
    ),
)
"""What one plan of a round leaves for the next one; removed with the round. No Delta tables."""

BY_SEGMENT: Final = tuple(
    table.name for table in TABLES.values() if table.by_segment and table.name != "segments"
)
