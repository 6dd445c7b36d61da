"""Histograms of durations that can be added up: hours to days, channels to hubs.

A histogram is a map from bucket to count. Bucket b holds durations of at least 2**(b/8) and less
than 2**((b+1)/8) microseconds, bucket 0 also everything shorter (`domain/journal.py`). A percentile
read from it is at most 4.5 % off, and adding histograms loses nothing more. `spreads.py` does it.
"""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StructField,
)

BUCKETS: DataType = MapType(IntegerType(), LongType())
PER_OCTAVE = 8
FRACTIONS = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def fields(prefix: str) -> list[StructField]:
    """The columns of a table that shows durations: for people first, then what can be added up."""
    doubles = ("mean", "stddev", *FRACTIONS)
    return [
        StructField(f"{prefix}_min", LongType()),
        *(StructField(f"{prefix}_{name}", DoubleType()) for name in doubles),
        StructField(f"{prefix}_max", LongType()),
        StructField(f"{prefix}_count", LongType()),
        StructField(f"{prefix}_sum", LongType()),
        StructField(f"{prefix}_squares", DoubleType()),
        StructField(f"{prefix}_buckets", BUCKETS),
    ]
