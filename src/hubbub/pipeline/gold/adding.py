"""Adding rows up by keys with Arrow: what tables by the hour are made of, within one hour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.gold.columns import SLOT_SECONDS

Integers = npt.NDArray[np.int64]

_SECOND = 1_000_000
_SLOTS_OF_AN_HOUR = 3600 // SLOT_SECONDS
_HALF = 2**31


class Groups:
    """Rows by what they have in common; nothing is a key like any other."""

    def __init__(self, rows: pa.Table, keys: Sequence[str]) -> None:
        combined = np.zeros(len(rows), np.int64)
        for key in keys:
            codes = _whole(rows[key]).dictionary_encode(null_encoding="encode")
            combined = combined * max(len(codes.dictionary), 1) + codes.indices.to_numpy()
        _, first, ids = np.unique(combined, return_index=True, return_inverse=True)
        self.ids: Integers = ids.astype(np.int64)
        self.keys: pa.Table = rows.select(list(keys)).take(pa.array(first))

    def __len__(self) -> int:
        return len(self.keys)

    def added(self, columns: Mapping[str, tuple[Any, str]]) -> pa.Table:
        """The keys, and beside them each column after a function of Arrow's, such as `sum`."""
        values = pa.table({"_": self.ids, **{name: each for name, (each, _) in columns.items()}})
        found = values.group_by("_", use_threads=False).aggregate(
            [(name, function) for name, (_, function) in columns.items()]
        )
        found = found.take(pc.sort_indices(found["_"]))
        together = self.keys
        for name, (_, function) in columns.items():
            together = together.append_column(name, found[f"{name}_{function}"])
        return together

    def histograms(self, buckets: pa.ChunkedArray) -> pa.MapArray:
        """The maps from bucket to count added up, in the order of the groups."""
        maps = _whole(buckets)
        ends = maps.offsets.to_numpy().astype(np.int64)
        span = slice(int(ends[0]), int(ends[-1])) if len(ends) else slice(0, 0)
        row = np.repeat(self.ids, np.diff(ends))
        bucket = maps.keys[span].to_numpy().astype(np.int64)
        entries = pa.table({"_": (row << 32) + (bucket + _HALF), "n": maps.items[span]})
        found = entries.group_by("_", use_threads=False).aggregate([("n", "sum")]).sort_by("_")
        key = found["_"].to_numpy()
        starts = np.searchsorted(key >> 32, np.arange(len(self) + 1))
        return pa.MapArray.from_arrays(
            pa.array(starts, pa.int32()),
            pa.array((key & (2**32 - 1)) - _HALF, pa.int32()),
            _whole(found["n_sum"]),
        )

    def active_slots(self, time: pa.ChunkedArray) -> Integers:
        """Numbers with a bit for each five minutes of the hour in which a group has rows."""
        place = micros(time) // (_SECOND * SLOT_SECONDS) % _SLOTS_OF_AN_HOUR
        pairs = np.unique(self.ids * _SLOTS_OF_AN_HOUR + place)
        bits = np.zeros(len(self), np.int64)
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


def who(messages: pa.Table) -> pa.ChunkedArray:
    """Who wrote a message: the sender that it names, else the user who published it."""
    return pc.coalesce(messages["sender"], messages["user"])


def named(hub: Any, name: Any) -> pa.ChunkedArray:
    """Names that are unique within a hub, made unique among all; null if there is none."""
    return pc.binary_join_element_wise(hub, name, "\0")


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


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
