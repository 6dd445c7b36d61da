"""Partitions of tables by time: hours, and the spans that whole hours, days or months cover.

Times are microseconds since 1970. A column by which rows are assigned holds times, or the hour,
day or month as text: `2026-11-15T12`, `2026-11-15`, `2026-11`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.columns import DAY, HOUR
from hubbub.pipeline.grouping import whole

Span = tuple[int, int]
"""A time interval: start inclusive, end exclusive."""
MOST_SPANS: Final = 64
"""More spans are joined: each is a condition of a query."""
_FORMS: Final = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def hours_in(column: Any) -> set[int]:
    """The hours of a column's times, counted from 1970."""
    column = pc.drop_null(whole(column))
    if pa.types.is_timestamp(column.type):
        found: set[int] = set(np.unique(column.cast(pa.int64()).to_numpy() // HOUR).tolist())
        return found
    return {began(text) // HOUR for text in column.unique().to_pylist()}


def began(text: str) -> int:
    """When an hour, day or month began."""
    moment = datetime.fromisoformat(f"{text}-01" if len(text) == len("2026-11") else text)
    return micros(moment)


def micros(moment: datetime) -> int:
    """A time without an offset is in UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def named(at: int, unit: str) -> str:
    """The hour, day or month of a time as text."""
    return (_EPOCH + timedelta(microseconds=at)).strftime(_FORMS[unit])


def widened(since: int, until: int, unit: str) -> Span:
    """Extends an interval to whole hours, days or months."""
    if unit == "month":
        last = _EPOCH + timedelta(microseconds=max(until - 1, since))
        following = (last.replace(day=1) + timedelta(days=32)).replace(day=1)
        return began(named(since, unit)), began(f"{following:%Y-%m}")
    length = HOUR if unit == "hour" else DAY
    return since - since % length, until + -until % length


def spans(hours: Collection[int], unit: str) -> list[Span]:
    """The whole hours, days or months with these hours, joined where they touch. Above
    `MOST_SPANS`, the narrowest gaps count as well."""
    found: list[Span] = []
    for hour in sorted(hours):
        if found and hour * HOUR < found[-1][1]:
            continue
        since, until = widened(hour * HOUR, (hour + 1) * HOUR, unit)
        if found and since <= found[-1][1]:
            since = found.pop()[0]
        found.append((since, until))
    gaps = sorted(range(1, len(found)), key=lambda place: found[place - 1][1] - found[place][0])
    cuts = sorted(gaps[: MOST_SPANS - 1])
    starts, ends = [0, *cuts], [*cuts, len(found)]
    parts = zip(starts, ends, strict=True)
    return [(found[start][0], found[end - 1][1]) for start, end in parts if found]


def hours_of(parts: Iterable[Span]) -> set[int]:
    """The hours of whole spans."""
    return {hour for since, until in parts for hour in range(since // HOUR, -(-until // HOUR))}


def condition(shape: pa.Schema, columns: Sequence[str], unit: str, parts: Sequence[Span]) -> str:
    """SQL that is true for rows of which one of the columns is in the spans. `unit` is that of
    columns with text."""
    return " OR ".join(
        f'("{name}" >= {moment(shape, name, unit, since)}'
        f' AND "{name}" < {moment(shape, name, unit, until)})'
        for name in columns
        for since, until in parts
    )


def moment(shape: pa.Schema, name: str, unit: str, at: int) -> str:
    """A time in SQL, to compare a column with."""
    if pa.types.is_timestamp(shape.field(name).type):
        return f"from_micros({at})"
    return f"'{named(at, unit)}'"
