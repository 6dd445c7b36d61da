"""Durations as mergeable histograms: from five minutes to days, from channels to hubs.

A histogram is a map from bucket to count. Bucket b holds durations of at least 2**(b/8) and less
than 2**((b+1)/8) microseconds, bucket 0 also everything shorter (`domain/journal.py`). A percentile
computed from it is at most 4.5 % off, and merging adds no error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hubbub.pipeline.columns import REAL, schema, with_columns
from hubbub.pipeline.grouping import Groups, Reals

PER_OCTAVE: Final = 8
FRACTIONS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def sums(prefix: str) -> pa.Schema:
    """The columns that can be added up."""
    names = {"whole": "min max count sum", "real": "squares", "buckets": "buckets"}
    return schema(
        *(f"{kind} {prefix}_{name}" for kind, named in names.items() for name in named.split())
    )


def fields(prefix: str) -> pa.Schema:
    """The columns of a view with durations: readable statistics first, then the sums."""
    least, *others = sums(prefix)
    shown = [pa.field(f"{prefix}_{name}", REAL) for name in ("mean", "stddev", *FRACTIONS)]
    return pa.schema([least, *shown, *others])


def of_each(rows: pa.Table, duration: str, prefix: str) -> pa.Table:
    """Converts each row's duration to sums over one value; null stays null."""
    value = rows[duration].combine_chunks()
    is_known = pc.is_valid(value)
    real = pc.cast(value, pa.float64())
    bucket = np.floor(np.log2(np.maximum(pc.fill_null(value, 1).to_numpy(), 1)) * PER_OCTAVE)
    ends = np.concatenate(([0], np.cumsum(is_known.to_numpy(zero_copy_only=False))))
    buckets = pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()),
        pa.array(bucket, pa.float64()).filter(is_known).cast(pa.int32()),
        pa.repeat(1, int(ends[-1])),
    )
    sums = {
        "count": is_known.cast(pa.int64()),
        "min": value,
        "max": value,
        "sum": value,
        "squares": pc.multiply(real, real),
        "buckets": buckets,
    }
    return with_columns(rows, **{f"{prefix}_{name}": column for name, column in sums.items()})


def added(
    rows: pa.Table, groups: Groups, prefix: str, totals: Mapping[str, Any] | None = None
) -> pa.Table:
    """Sums of the rows by group; `totals` are further columns to sum."""
    columns: dict[str, tuple[Any, str]] = {
        f"{prefix}_min": (rows[f"{prefix}_min"], "min"),
        f"{prefix}_max": (rows[f"{prefix}_max"], "max"),
    }
    for name in ("count", "sum", "squares"):
        columns[f"{prefix}_{name}"] = (rows[f"{prefix}_{name}"], "sum")
    for name, column in (totals or {}).items():
        columns[name] = (column, "sum")
    buckets = groups.histograms(rows[f"{prefix}_buckets"])
    return groups.added(columns).append_column(f"{prefix}_buckets", buckets)


def described(rows: pa.Table, prefix: str) -> pa.Table:
    """Adds mean, deviation and percentiles, computed from the sums."""
    count = _reals(rows[f"{prefix}_count"])
    with np.errstate(invalid="ignore", divide="ignore"):
        count = np.where(count == 0, np.nan, count)
        mean = _reals(rows[f"{prefix}_sum"]) / count
        variance = _reals(rows[f"{prefix}_squares"]) / count - mean * mean
    shown = {"mean": mean, "stddev": np.sqrt(np.where(variance < 0, 0.0, variance))}
    buckets = rows[f"{prefix}_buckets"].combine_chunks()
    low, high = _reals(rows[f"{prefix}_min"]), _reals(rows[f"{prefix}_max"])
    for name, fraction in FRACTIONS.items():
        middle = _middles(buckets, fraction)
        within = np.fmin(np.fmax(middle, low), high)
        shown[name] = np.where(np.isnan(middle), np.nan, within)
    columns = {f"{prefix}_{name}": pa.array(each, from_pandas=True) for name, each in shown.items()}
    return with_columns(rows, **columns)


def _middles(buckets: pa.MapArray, fraction: float) -> Reals:
    """The middle of the bucket that contains a percentile. Buckets must be sorted."""
    ends = buckets.offsets.to_numpy().astype(np.int64)
    span = slice(int(ends[0]), int(ends[-1]))
    key, counts = buckets.keys[span].to_numpy(), buckets.items[span].to_numpy()
    starts, stops = ends[:-1] - ends[0], ends[1:] - ends[0]
    seen = np.concatenate(([0], np.cumsum(counts)))
    before = seen[starts]
    wanted = before + np.ceil((seen[stops] - before) * fraction)
    place = np.searchsorted(seen[1:], wanted.astype(np.int64), side="left")
    place = np.maximum(place, starts)
    found = np.full(len(starts), np.nan)
    some = stops > starts
    found[some] = 2.0 ** ((key[place[some]] + 0.5) / PER_OCTAVE)
    return found


def _reals(column: pa.ChunkedArray) -> Reals:
    """NaN for null."""
    found: Reals = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return found
