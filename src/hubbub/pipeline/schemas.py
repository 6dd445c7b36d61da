"""The schemas of the silver tables. Times are timestamps in UTC, durations microseconds."""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_STRING = StringType()
_LONG = LongType()
_TIME = TimestampType()


def _schema(*columns: tuple[str, DataType]) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns])


def _strings(*names: str) -> tuple[tuple[str, DataType], ...]:
    return tuple((name, _STRING) for name in names)


def _longs(*names: str) -> tuple[tuple[str, DataType], ...]:
    return tuple((name, _LONG) for name in names)


_ORIGIN = (("segment", _STRING), ("offset", _LONG), ("hour", _STRING))
"""Where in the journal a row comes from, and the partition that it lies in."""

MESSAGES: Final = _schema(
    *_strings("hub", "channel", "epoch"),
    ("serial", _LONG),
    ("message_id", _STRING),
    ("published_at", _TIME),
    ("at", _TIME),
    *_strings("node", "session", "user", "technology"),
    ("stored", BooleanType()),
    *_strings("event", "content_type"),
    ("size", _LONG),
    ("payload", BinaryType()),
    ("producer", _STRING),
    ("sequence", _LONG),
    *_strings("conversation_id", "refers_to", "sender", "receiver", "language"),
    ("headers", MapType(_STRING, _STRING)),
    *_ORIGIN,
)
"""One row for each published message; key (hub, message_id)."""

DELIVERIES: Final = _schema(
    *_strings("hub", "channel", "technology", "node"),
    ("at", _TIME),
    ("epoch", _STRING),
    *_longs("first_serial", "serial", "messages", "count", "size"),
    *_longs("latency_min", "latency_max", "latency_sum"),
    ("latency_squares", DoubleType()),
    ("latency_buckets", MapType(IntegerType(), _LONG)),
    *_ORIGIN,
)
"""One row for each channel, technology and tick; `count` deliveries. Key (segment, offset)."""

SESSION_EVENT: Final = _schema(
    ("at", _TIME),
    ("kind", _STRING),
    *_strings("user", "node", "technology"),
    ("duration", _LONG),
    ("reason", _STRING),
    ("segment", _STRING),
    ("offset", _LONG),
)

SESSIONS: Final = _schema(
    *_strings("hub", "session", "user", "node", "technology"),
    ("opened_at", _TIME),
    ("closed_at", _TIME),
    ("duration", _LONG),
    ("reason", _STRING),
    ("events", ArrayType(SESSION_EVENT)),
    ("hour", _STRING),
)
"""One row for each session; key (hub, session). `closed_at` is null while it is open. `hour` is
that of `opened_at`. `events` is what the row was made from, so that late events can correct it."""

SUBSCRIPTIONS: Final = _schema(
    *_strings("hub", "channel", "session", "user", "node"),
    ("started_at", _TIME),
    ("ended_at", _TIME),
    ("duration", _LONG),
    ("events", ArrayType(SESSION_EVENT)),
    ("hour", _STRING),
)
"""One row for each live subscription; key (hub, channel, session, started_at). As sessions."""

RECEIPTS: Final = _schema(
    *_strings("kind", "hub", "channel", "epoch", "subscription", "user"),
    *_longs("first_serial", "serial", "count", "delivery"),
    ("at", _TIME),
    *_ORIGIN,
)
"""What durable subscriptions were handed, finished, or gave up; key (segment, offset)."""

ATTEMPTS: Final = _schema(
    *_strings("kind", "hub", "channel", "message_id", "subscription", "peer", "adapter", "policy"),
    ("technology", _STRING),
    ("attempt", _LONG),
    ("outcome", _STRING),
    *_longs("status", "duration"),
    ("reason", _STRING),
    ("at", _TIME),
    *_ORIGIN,
)
"""Attempts of webhooks and adapters; key (segment, offset)."""

DROPS: Final = _schema(
    *_strings("kind", "hub", "channel", "session", "message_id"),
    *_longs("serial", "count"),
    ("reason", _STRING),
    ("at", _TIME),
    *_ORIGIN,
)
"""Messages that were dropped, and telemetry that was lost; key (segment, offset)."""

SILVER: Final[dict[str, StructType]] = {
    "messages": MESSAGES,
    "deliveries": DELIVERIES,
    "sessions": SESSIONS,
    "subscriptions": SUBSCRIPTIONS,
    "receipts": RECEIPTS,
    "attempts": ATTEMPTS,
    "drops": DROPS,
}

QUARANTINE: Final = _schema(
    ("segment", _STRING),
    ("offset", _LONG),
    *_strings("reason", "detail", "kind", "hub", "record", "hour"),
)
"""What could not be taken: one row for each record, or one without `offset` for a whole segment.
`record` is the record as JSON, without its payload. `hour` is that of the run that found it."""
