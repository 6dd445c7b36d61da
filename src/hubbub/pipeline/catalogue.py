"""The materialised tables: their columns, and the column that says when.

Times are timestamps in UTC, durations microseconds. Views are in `views/`. Needs Arrow only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hubbub.pipeline.views.audit import RUN
from hubbub.pipeline.views.columns import BUCKETS, FLAG, REAL, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.views.spreads import sums

TEXTS: Final = pa.map_(TEXT, TEXT)
COUNTS: Final = pa.map_(TEXT, WHOLE)
PAYLOAD: Final = pa.binary()


@dataclass(frozen=True)
class Table:
    """A Delta table of the warehouse."""

    name: str
    schema: pa.Schema
    time: str | None
    """The column by which files are left closed that have nothing of the time in question."""
    by_segment: bool = True
    """A row comes from the segment that it names; else a file holds all rows of its keys."""


_ORIGIN: Final = schema(segment=TEXT, offset=WHOLE)
"""Where in the journal a row comes from."""

_LATENCY: Final = schema(
    (WHOLE, "latency_min latency_max latency_sum"),
    (REAL, "latency_squares"),
    (BUCKETS, "latency_buckets"),
)

EVENT: Final = schema(
    (TIME, "at"),
    (TEXT, "kind user node technology"),
    (WHOLE, "duration"),
    (TEXT, "reason"),
    _ORIGIN,
)
"""An event of a session or subscription. Rows keep theirs, so that late events can correct them."""
_EVENTS: Final = schema(events=pa.list_(pa.struct(list(EVENT))))
_LINK: Final = schema(
    (TEXT, "hub message_id"),
    (TIME, "at"),
    (WHOLE, "serial"),
    (TEXT, "channel peer conversation_id refers_to"),
)


def _by_name(*tables: Table) -> dict[str, Table]:
    return {table.name: table for table in tables}


TABLES: Final = _by_name(
    Table(
        "messages",
        schema(
            (TEXT, "hub channel epoch"),
            schema(serial=WHOLE, message_id=TEXT, published_at=TIME, at=TIME),
            (TEXT, "node session user technology"),
            schema(stored=FLAG, event=TEXT, content_type=TEXT, size=WHOLE, payload=PAYLOAD),
            schema(producer=TEXT, sequence=WHOLE),
            (TEXT, "conversation_id refers_to sender receiver language"),
            schema(headers=TEXTS, subtype=TEXT, author=TEXT),
            (WHOLE, "priority relevant_until ttl"),
            (TEXT, "location dead_letter_of"),
            _ORIGIN,
        ),
        "at",
    ),
    Table(
        "deliveries",
        schema(
            (TEXT, "hub channel technology node"),
            schema(at=TIME, epoch=TEXT),
            (WHOLE, "first_serial serial messages count size"),
            _LATENCY,
            _ORIGIN,
        ),
        "at",
    ),
    Table(
        "receipts",
        schema(
            (TEXT, "kind hub channel epoch subscription user technology"),
            (WHOLE, "first_serial serial count delivery"),
            schema(reason=TEXT, at=TIME, size=WHOLE),
            _LATENCY,
            _ORIGIN,
        ),
        "at",
    ),
    Table(
        "attempts",
        schema(
            (TEXT, "kind hub channel message_id subscription peer adapter policy technology"),
            schema(attempt=WHOLE, outcome=TEXT, status=WHOLE, duration=WHOLE, reason=TEXT),
            (TIME, "at published_at"),
            _ORIGIN,
        ),
        "at",
    ),
    Table(
        "drops",
        schema(
            (TEXT, "kind hub channel session message_id"),
            (WHOLE, "serial count"),
            schema(reason=TEXT, at=TIME),
            _ORIGIN,
        ),
        "at",
    ),
    Table(
        "publish_facts",
        schema(
            (TEXT, "hub channel event"), (TIME, "time"), (WHOLE, "messages bytes"), segment=TEXT
        ),
        "time",
    ),
    Table(
        "delivery_facts",
        schema(
            (TEXT, "hub channel technology"),
            (TIME, "time"),
            (WHOLE, "deliveries bytes"),
            sums("latency"),
            segment=TEXT,
        ),
        "time",
    ),
    Table(
        "peer_facts",
        schema(
            (TEXT, "hub peer"),
            (TIME, "time"),
            (WHOLE, "messages bytes attempts attempts_ok"),
            (TIME, "first_at last_at"),
            segment=TEXT,
        ),
        "time",
    ),
    Table(
        "term_facts",
        schema((TEXT, "hub term"), time=TIME, messages=WHOLE, segment=TEXT),
        "time",
    ),
    Table(
        "sequence_facts",
        schema(RUN, segment=TEXT),
        "began",
    ),
    Table(
        "document_facts",
        schema(
            (TEXT, "hub channel user"),
            (TIME, "time"),
            (WHOLE, "changes bytes version document_bytes"),
            (TIME, "first_at last_at"),
            segment=TEXT,
        ),
        "time",
    ),
    Table(
        "notification_facts",
        schema(schema(hub=TEXT, time=TIME, created=WHOLE), sums("read"), segment=TEXT),
        "time",
    ),
    Table(
        "push_facts",
        schema(
            (TEXT, "hub platform outcome"),
            schema(time=TIME, attempts=WHOLE),
            sums("duration"),
            segment=TEXT,
        ),
        "time",
    ),
    Table("repeats", schema((TEXT, "hub message_id"), (TIME, "at"), _ORIGIN), "at"),
    Table("quarantine", schema(_ORIGIN, (TEXT, "reason detail kind hub record hour")), None),
    Table(
        "sessions",
        schema(
            (TEXT, "hub session user node technology"),
            (TIME, "opened_at closed_at"),
            schema(duration=WHOLE, reason=TEXT),
            _EVENTS,
        ),
        "opened_at",
        by_segment=False,
    ),
    Table(
        "subscriptions",
        schema(
            (TEXT, "hub channel session user node"),
            (TIME, "started_at ended_at"),
            (WHOLE, "duration"),
            _EVENTS,
        ),
        "started_at",
        by_segment=False,
    ),
    Table(
        "linked_messages",
        schema(
            schema(hub=TEXT, thread=TEXT, thread_began=TIME, position=WHOLE),
            pa.schema(list(_LINK)[1:]),
            (TEXT, "how question_id asker question_channel question_conversation_id"),
            schema(asked_at=TIME, response_time=WHOLE),
            _ORIGIN,
        ),
        "at",
        by_segment=False,
    ),
    Table(
        "segments",
        schema(
            schema(segment=TEXT, seen_at=TIME, size=WHOLE, modified=WHOLE, rows=WHOLE),
            (TIME, "earliest latest"),
            (TEXT, "fingerprint refused duplicate_of"),
            (COUNTS, "kinds unfit nodes"),
            starts=pa.map_(TEXT, pa.list_(WHOLE)),
        ),
        None,
    ),
)
"""By name. `rounds` is beside them: `tables/rounds.py`."""


SCRATCH: Final = _by_name(
    Table("_session_events", schema((TEXT, "hub channel session"), EVENT), "at"),
    Table("_links", schema(_LINK, _ORIGIN), "at"),
    Table("_pairs", schema((WHOLE, "a b")), None),
)
"""What one plan of a round leaves for the next one; removed with the round. No Delta tables."""

BY_SEGMENT: Final = tuple(
    table.name for table in TABLES.values() if table.by_segment and table.name != "segments"
)
