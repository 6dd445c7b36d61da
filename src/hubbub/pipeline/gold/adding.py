"""Columns and rows of Arrow that several gold tables are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name
from hubbub.pipeline.gold.columns import SLOT_SECONDS
from hubbub.pipeline.grouping import Groups, Integers, by_hour, named, whole

_SECOND = 1_000_000
_SLOTS_OF_AN_HOUR = 3600 // SLOT_SECONDS


def active_slots(groups: Groups, time: pa.ChunkedArray) -> Integers:
    """Numbers with a bit for each five minutes of the hour in which a group has rows."""
    place = micros(time) // (_SECOND * SLOT_SECONDS) % _SLOTS_OF_AN_HOUR
    pairs = np.unique(groups.ids * _SLOTS_OF_AN_HOUR + place)
    bits = np.zeros(len(groups), np.int64)
    np.bitwise_or.at(bits, pairs // _SLOTS_OF_AN_HOUR, 1 << pairs % _SLOTS_OF_AN_HOUR)
    return bits


def slots(time: pa.ChunkedArray) -> Integers:
    """The beginnings of the five minutes, in seconds since 1970."""
    seconds = micros(time) // _SECOND
    return seconds - seconds % SLOT_SECONDS


def micros(time: pa.ChunkedArray) -> Integers:
    """Times, none of them unknown, as microseconds since 1970."""
    found: Integers = time.cast(pa.int64()).to_numpy()
    return found


def times(seconds: Any) -> pa.ChunkedArray:
    """Seconds since 1970 as times."""
    return pc.cast(pc.multiply(seconds, _SECOND), pa.timestamp("us", "UTC"))


def hour_seconds(hour: str) -> int:
    """When an hour began, in seconds since 1970."""
    return int(datetime.strptime(f"{hour}+0000", "%Y-%m-%dT%H%z").timestamp())


def hours_of(time: Any) -> pa.Array:
    """The hours in which times lie."""
    indexes = whole(pc.divide(time.cast(pa.int64()), HOUR_MICROSECONDS)).dictionary_encode()
    names = pa.array([hour_name(index) for index in indexes.dictionary.to_pylist()], pa.string())
    return names.take(indexes.indices)


def who(messages: pa.Table) -> pa.ChunkedArray:
    """Who wrote a message: the sender that it names, else the user who published it."""
    return pc.coalesce(messages["sender"], messages["user"])


def at_places(rows: pa.Table, places: Any, names: Mapping[str, str]) -> pa.Table:
    """Columns of `rows` under new names, at places that may be nowhere (null)."""
    return pa.table({new: rows[old].take(places) for old, new in names.items()})


def others(a: Any, b: Any) -> Any:
    """Where two names differ; nothing is a name like any other."""
    return pc.not_equal(pc.fill_null(a, "\0"), pc.fill_null(b, "\0"))


def known(numbers: Any) -> Any:
    """0 for what is not known."""
    return pc.fill_null(numbers, 0)


def together(*parts: pa.Table) -> pa.Table:
    """All rows; what a part does not have is null there."""
    return pa.concat_tables(parts, promote_options="permissive")


def merged(hours: Iterable[str], *parts: pa.Table) -> dict[str, pa.Table]:
    """The rows of each of these hours; it may have none."""
    found = [by_hour(part) for part in parts]
    nothing = parts[0].slice(0, 0)
    return {
        hour: together(nothing, *(part[hour] for part in found if hour in part)) for hour in hours
    }


class Concerned:
    """Those of whom anything changed, by hub and name."""

    def __init__(self, *changed: tuple[pa.Table, str]) -> None:
        """Each with the column that names them."""
        self._names = _unique([rows[column] for rows, column in changed])
        self._pairs = _unique([named(rows["hub"], rows[column]) for rows, column in changed])

    def of(self, rows: pa.Table, column: str) -> pa.Table:
        """Their rows. First by name alone, which leaves few to be looked at more closely."""
        some = rows.filter(pc.is_in(rows[column], self._names))
        return some.filter(pc.is_in(named(some["hub"], some[column]), self._pairs))

    def others(self, rows: pa.Table, column: str) -> pa.Table:
        """The rows of all others; nobody's are not theirs either."""
        theirs = pc.is_in(named(rows["hub"], rows[column]), self._pairs)
        return rows.filter(pc.invert(theirs))


def _unique(columns: Iterable[Any]) -> pa.Array:
    return pc.unique(pa.concat_arrays([whole(column) for column in columns])).drop_null()
