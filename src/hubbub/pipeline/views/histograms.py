"""Histograms of durations that can be added up: five minutes to days, channels to hubs.

A histogram is a map from bucket to count. Bucket b holds durations of at least 2**(b/8) and less
than 2**((b+1)/8) microseconds, bucket 0 also everything shorter (`domain/journal.py`). A percentile
read from it is at most 4.5 % off, and adding histograms loses nothing more. `spreads.py` does it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

BUCKETS: Final = pa.map_(pa.int32(), pa.int64())
PER_OCTAVE: Final = 8
FRACTIONS: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def sums(prefix: str) -> pa.Schema:
    """The columns that can be added up."""
    return pa.schema(
        [
            (f"{prefix}_min", pa.int64()),
            (f"{prefix}_max", pa.int64()),
            (f"{prefix}_count", pa.int64()),
            (f"{prefix}_sum", pa.int64()),
            (f"{prefix}_squares", pa.float64()),
            (f"{prefix}_buckets", BUCKETS),
        ]
    )


def fields(prefix: str) -> pa.Schema:
    """The columns of a view that shows durations: for people first, then what can be added up."""
    doubles = ("mean", "stddev", *FRACTIONS)
    return pa.schema(
        [
            (f"{prefix}_min", pa.int64()),
            *((f"{prefix}_{name}", pa.float64()) for name in doubles),
            (f"{prefix}_max", pa.int64()),
            (f"{prefix}_count", pa.int64()),
            (f"{prefix}_sum", pa.int64()),
            (f"{prefix}_squares", pa.float64()),
            (f"{prefix}_buckets", BUCKETS),
        ]
    )
