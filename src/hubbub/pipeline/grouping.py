"""Grouping of rows by key columns, with Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_HALF = 2**31
_TOO_MANY = 2**62
"""More combinations of values than a 64-bit number can distinguish."""


class Groups:
    """Rows grouped by key columns. `null` is a valid key."""

    def __init__(self, rows: pa.Table, keys: Sequence[str]) -> None:
        combined, different = np.zeros(len(rows), np.int64), 1
        for key in keys:
            codes = whole(rows[key]).dictionary_encode(null_encoding="encode")
            values = max(len(codes.dictionary), 1)
            if different * values >= _TOO_MANY:
                combined, different = _numbered(combined)
            combined = combined * values + codes.indices.to_numpy()
            different *= values
        self.ids: Integers
        self.ids, groups = _numbered(combined)
        first = np.empty(groups, np.int64)
        first[self.ids[::-1]] = np.arange(len(rows))[::-1]
        self.keys: pa.Table = rows.select(list(keys)).take(pa.array(first))

    def __len__(self) -> int:
        return len(self.keys)

    def added(self, columns: Mapping[str, tuple[Any, str]]) -> pa.Table:
        """The keys with aggregated columns; each column names an Arrow aggregation, such as
        `sum`."""
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
        """Merges the maps from bucket to count, in the order of the groups."""
        maps = whole(buckets)
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
            whole(found["n_sum"]),
        )


def _numbered(values: Integers) -> tuple[Integers, int]:
    """Numbers the distinct values from 0 in order of appearance; returns the numbers and their
    count."""
    codes = pa.array(values).dictionary_encode()
    return codes.indices.to_numpy().astype(np.int64), len(codes.dictionary)


def whole(column: Any) -> Any:
    """The column in one chunk."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def changes(values: npt.NDArray[np.generic]) -> Flags:
    """Marks values that differ from the preceding one, and the first value."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found


def summed(places: Integers, values: Integers, count: int) -> Integers:
    """The sum of the values at each position from 0, for `count` positions."""
    total = np.zeros(count, np.int64)
    np.add.at(total, places, values)
    return total


def named(*names: Any) -> Any:
    """Combines nested names into one that is unique overall; null if any is null."""
    return pc.binary_join_element_wise(*names, "\0")
