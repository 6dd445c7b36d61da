"""The materialised tables: their columns, the column that says when, and what identifies a row.

Times are timestamps in UTC, durations microseconds. Views are in `views/`. Needs Arrow only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from hubbub.pipeline.views import histograms
from hubbub.pipeline.views.columns import FLAG, REAL, TEXT, TIME, WHOLE, schema
from hubbub.pipeline.views.runs import COLUMNS as RUN

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
    key: tuple[str, ...]
    by_segment: bool = True
    """A row comes from the segment that it names; else a file holds all rows of its keys."""


def _texts(*names: str) -> pa.Schema:
    return pa.schema([(name, TEXT) for name in names])


def _numbers(*names: str) -> pa.Schema:
    return pa.schema([(name, WHOLE) for name in names])


_ORIGIN: Final = schema(segment=TEXT, offset=WHOLE)
"""Where in the journal a row comes from."""

_LATENCY: Final = schema(
    _numbers("latency_min", "latency_max", "latency_sum"),
    latency_squares=REAL,
    latency_buckets=histograms.BUCKETS,
)

EVENT: Final = schema(
    schema(at=TIME, kind=TEXT),
    _texts("user", "node", "technology"),
    schema(duration=WHOLE, reason=TEXT),
    _ORIGIN,
)
"""An event of a session or subscription. Rows keep theirs, so that late events can correct them."""

TABLES: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        Table(
            "messages",
            schema(
                _texts("hub", "channel", "epoch"),
                schema(serial=WHOLE, message_id=TEXT, published_at=TIME, at=TIME),
                _texts("node", "session", "user", "technology"),
                schema(stored=FLAG, event=TEXT, content_type=TEXT, size=WHOLE, payload=PAYLOAD),
                schema(producer=TEXT, sequence=WHOLE),
                _texts("conversation_id", "refers_to", "sender", "receiver", "language"),
                schema(headers=TEXTS, subtype=TEXT, author=TEXT),
                _numbers("priority", "relevant_until", "ttl"),
                schema(location=TEXT, dead_letter_of=TEXT),
                _ORIGIN,
            ),
            "at",
            ("hub", "message_id"),
        ),
        Table(
            "deliveries",
            schema(
                _texts("hub", "channel", "technology", "node"),
                schema(at=TIME, epoch=TEXT),
                _numbers("first_serial", "serial", "messages", "count", "size"),
                _LATENCY,
                _ORIGIN,
            ),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "receipts",
            schema(
                _texts("kind", "hub", "channel", "epoch", "subscription", "user", "technology"),
                _numbers("first_serial", "serial", "count", "delivery"),
                schema(reason=TEXT, at=TIME, size=WHOLE),
                _LATENCY,
                _ORIGIN,
            ),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "attempts",
            schema(
                _texts("kind", "hub", "channel", "message_id", "subscription", "peer", "adapter"),
                _texts("policy", "technology"),
                schema(attempt=WHOLE, outcome=TEXT, status=WHOLE, duration=WHOLE, reason=TEXT),
                schema(at=TIME, published_at=TIME),
                _ORIGIN,
            ),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "drops",
            schema(
                _texts("kind", "hub", "channel", "session", "message_id"),
                _numbers("serial", "count"),
                schema(reason=TEXT, at=TIME),
                _ORIGIN,
            ),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "publish_facts",
            schema(
                _texts("hub", "channel", "event"),
                schema(time=TIME, messages=WHOLE, bytes=WHOLE, segment=TEXT),
            ),
            "time",
            ("segment", "hub", "channel", "event", "time"),
        ),
        Table(
            "delivery_facts",
            schema(
                _texts("hub", "channel", "technology"),
                schema(time=TIME, deliveries=WHOLE, bytes=WHOLE),
                histograms.sums("latency"),
                schema(segment=TEXT),
            ),
            "time",
            ("segment", "hub", "channel", "technology", "time"),
        ),
        Table(
            "peer_facts",
            schema(
                schema(hub=TEXT, peer=TEXT, time=TIME),
                _numbers("messages", "bytes", "attempts", "attempts_ok"),
                schema(first_at=TIME, last_at=TIME, segment=TEXT),
            ),
            "time",
            ("segment", "hub", "peer", "time"),
        ),
        Table(
            "term_facts",
            schema(hub=TEXT, term=TEXT, time=TIME, messages=WHOLE, segment=TEXT),
            "time",
            ("segment", "hub", "term", "time"),
        ),
        Table(
            "sequence_facts",
            schema(RUN, segment=TEXT),
            "began",
            (
                "segment",
                "kind",
                "hub",
                "channel",
                "epoch",
                "user",
                "name",
                "again",
                "began",
                "first",
            ),
        ),
        Table(
            "repeats",
            schema(schema(hub=TEXT, message_id=TEXT, at=TIME), _ORIGIN),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "quarantine",
            schema(_ORIGIN, _texts("reason", "detail", "kind", "hub", "record", "hour")),
            None,
            ("segment", "offset"),
        ),
        Table(
            "sessions",
            schema(
                _texts("hub", "session", "user", "node", "technology"),
                schema(opened_at=TIME, closed_at=TIME, duration=WHOLE, reason=TEXT),
                schema(events=pa.list_(pa.struct(list(EVENT)))),
            ),
            "opened_at",
            ("hub", "session"),
            by_segment=False,
        ),
        Table(
            "subscriptions",
            schema(
                _texts("hub", "channel", "session", "user", "node"),
                schema(started_at=TIME, ended_at=TIME, duration=WHOLE),
                schema(events=pa.list_(pa.struct(list(EVENT)))),
            ),
            "started_at",
            ("hub", "channel", "session", "started_at"),
            by_segment=False,
        ),
        Table(
            "linked_messages",
            schema(
                schema(hub=TEXT, thread=TEXT, thread_began=TIME, position=WHOLE),
                schema(message_id=TEXT, at=TIME, serial=WHOLE),
                _texts("channel", "peer", "conversation_id", "refers_to", "how", "question_id"),
                _texts("asker", "question_channel", "question_conversation_id"),
                schema(asked_at=TIME, response_time=WHOLE),
                _ORIGIN,
            ),
            "at",
            ("hub", "message_id", "at"),
            by_segment=False,
        ),
        Table(
            "segments",
            schema(
                schema(segment=TEXT, seen_at=TIME, size=WHOLE, modified=WHOLE, rows=WHOLE),
                schema(earliest=TIME, latest=TIME, fingerprint=TEXT),
                schema(refused=TEXT, duplicate_of=TEXT, kinds=COUNTS, unfit=COUNTS),
                schema(nodes=COUNTS, starts=pa.map_(TEXT, pa.list_(WHOLE))),
            ),
            None,
            ("segment",),
        ),
    )
}
"""By name. `rounds` is beside them: `tables/rounds.py`."""


SCRATCH: Final[dict[str, Table]] = {
    table.name: table
    for table in (
        Table(
            "_session_events",
            schema(_texts("hub", "channel", "session"), EVENT),
            "at",
            ("segment", "offset"),
        ),
        Table(
            "_links",
            schema(
                schema(hub=TEXT, message_id=TEXT, at=TIME, serial=WHOLE),
                _texts("channel", "peer", "conversation_id", "refers_to"),
                _ORIGIN,
            ),
            "at",
            ("segment", "offset"),
        ),
        Table("_pairs", _numbers("a", "b"), None, ("a", "b")),
    )
}
"""What one plan of a round leaves for the next one; removed with the round. No Delta tables."""

BY_SEGMENT: Final = tuple(
    table.name for table in TABLES.values() if table.by_segment and table.name != "segments"
)
