"""Types, names and times shared by tables and kernels."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.grouping import Integers, whole

HOUR: Final = 3_600_000_000
DAY: Final = 24 * HOUR
SLOTS_OF_AN_HOUR: Final = 12
"""Load is counted in five-minute slots."""

ALL_HUBS: Final = "*"
"""The sum of all hubs; no hub can have this name."""

TEXT, WHOLE, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TIME: Final = pa.timestamp("us", "UTC")
BUCKETS: Final = pa.map_(pa.int32(), WHOLE)
_TYPES: Final = {
    "text": TEXT,
    "whole": WHOLE,
    "real": REAL,
    "flag": FLAG,
    "time": TIME,
    "payload": pa.binary(),
    "buckets": BUCKETS,
    "texts": pa.map_(TEXT, TEXT),
    "counts": pa.map_(TEXT, WHOLE),
}


def schema(*parts: pa.Schema | str) -> pa.Schema:
    """A schema of other schemas' columns, and of texts such as `text hub peer, time at`: column
    names after their type."""
    fields: list[pa.Field] = []
    for part in parts:
        if isinstance(part, pa.Schema):
            fields += part
            continue
        for kind, *names in (group.split() for group in part.split(",")):
            fields += [pa.field(name, _TYPES[kind]) for name in names]
    return pa.schema(fields)


def micros(time: Any) -> Integers:
    """Non-null times as microseconds since 1970."""
    found: Integers = whole(time).cast(pa.int64()).to_numpy()
    return found


def times(microseconds: Any) -> pa.Array:
    return pa.array(microseconds, pa.int64()).cast(TIME)


def starts_of_hours(time: Any) -> pa.Array:
    """The start of each time's hour."""
    at = micros(time)
    return times(at - at % HOUR)


def hours(time: Any) -> pa.Array:
    """The hour of each time as text: 2026-11-15T12."""
    codes = pa.array(micros(time) // HOUR).dictionary_encode()
    names = [
        datetime.fromtimestamp(number * HOUR // 1_000_000, UTC).strftime("%Y-%m-%dT%H")
        for number in codes.dictionary.to_pylist()
    ]
    return pa.array(names, pa.string()).take(codes.indices)


PEER: Final = ("sender", "user", "author")
"""The columns that may name a message's sender; the first non-null value counts."""


def peer_of(messages: pa.Table) -> pa.ChunkedArray:
    """The writer of each message: the sender that it names, else the user who published it, else
    (for an anonymous publisher) the author that it names."""
    return pc.coalesce(*(messages[name] for name in PEER))


def differ(a: Any, b: Any) -> Any:
    """Whether two names differ; null equals null and differs from every name."""
    return pc.not_equal(pc.fill_null(a, "\0"), pc.fill_null(b, "\0"))


def or_zero(numbers: Any) -> Any:
    return pc.fill_null(numbers, 0)


def with_columns(rows: pa.Table, **columns: Any) -> pa.Table:
    """Replaces columns of the same names, and appends others."""
    for name, column in columns.items():
        place = rows.schema.get_field_index(name)
        known = place >= 0
        rows = rows.set_column(place, name, column) if known else rows.append_column(name, column)
    return rows


def ones(rows: pa.Table) -> pa.Array:
    return pa.repeat(1, len(rows))
