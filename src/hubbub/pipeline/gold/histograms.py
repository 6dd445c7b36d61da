"""Histograms of durations that can be added up: hours to days, channels to hubs.

A histogram is a map from bucket to count. Bucket b holds durations of at least 2**(b/8) and less
than 2**((b+1)/8) microseconds, bucket 0 also everything shorter (`domain/journal.py`). A percentile
read from it is at most 4.5 % off, and adding histograms loses nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
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


def bucket_of(duration: Column) -> Column:
    """The bucket of one duration in microseconds."""
    return F.floor(F.log2(F.greatest(duration, F.lit(1))) * PER_OCTAVE).cast("int")


def of_each(frame: DataFrame, duration: str, prefix: str) -> DataFrame:
    """A row's own duration as the sums of one; nothing where it is null."""
    value = F.col(duration)
    known = value.isNotNull()
    return frame.withColumns(
        {
            f"{prefix}_count": known.cast("long"),
            f"{prefix}_min": value,
            f"{prefix}_max": value,
            f"{prefix}_sum": value,
            f"{prefix}_squares": value.cast("double") * value,
            f"{prefix}_buckets": F.when(
                known, F.create_map(bucket_of(value), F.lit(1).cast("long"))
            ),
        }
    )


def added(
    frame: DataFrame,
    keys: Sequence[str],
    prefix: str,
    totals: Mapping[str, Column] | None = None,
    bits: Mapping[str, Column] | None = None,
) -> DataFrame:
    """The rows of `frame` added up by `keys`; `totals` are further columns to sum up, `bits` those
    of which every bit that is set in a row is set in the sum.

    Each entry of a histogram becomes a row, and the first of them carries the rest of its row:
    one pass over the data, and nothing for which Spark would have to leave for Python."""
    totals, bits = totals or {}, bits or {}
    summed = [f"{prefix}_count", f"{prefix}_sum", f"{prefix}_squares", *totals]
    low, high = f"{prefix}_min", f"{prefix}_max"
    exploded = frame.select(
        *keys,
        low,
        high,
        *summed[:3],
        *(column.alias(name) for name, column in (*totals.items(), *bits.items())),
        F.posexplode_outer(f"{prefix}_buckets").alias("_place", "_bucket", "_entries"),
    )
    first = F.coalesce(F.col("_place"), F.lit(0)) == 0
    by_bucket = exploded.groupBy(*keys, "_bucket").agg(
        F.min(low).alias(low),
        F.max(high).alias(high),
        *(F.sum(F.when(first, F.col(name))).alias(name) for name in summed),
        *(F.bit_or(name).alias(name) for name in bits),
        F.sum("_entries").alias("_entries"),
    )
    entry = F.when(F.col("_bucket").isNotNull(), F.struct("_bucket", "_entries"))
    return by_bucket.groupBy(*keys).agg(
        F.min(low).alias(low),
        F.max(high).alias(high),
        *(F.sum(name).alias(name) for name in summed),
        *(F.bit_or(name).alias(name) for name in bits),
        F.map_from_entries(F.array_sort(F.collect_list(entry))).alias(f"{prefix}_buckets"),
    )


def described(frame: DataFrame, prefix: str) -> DataFrame:
    """With mean, deviation and percentiles computed from the sums."""
    count = F.col(f"{prefix}_count")
    mean = F.col(f"{prefix}_sum") / F.nullif(count, F.lit(0))
    variance = F.col(f"{prefix}_squares") / F.nullif(count, F.lit(0)) - mean * mean
    shown = {
        f"{prefix}_mean": mean,
        f"{prefix}_stddev": F.sqrt(F.when(variance < 0, 0.0).otherwise(variance)),
    }
    for name, fraction in FRACTIONS.items():
        shown[f"{prefix}_{name}"] = percentile(prefix, fraction)
    return frame.withColumns(shown)


def percentile(prefix: str, fraction: float) -> Column:
    """The middle of the bucket in which it lies, but never outside of what was seen."""
    entries = F.array_sort(F.map_entries(f"{prefix}_buckets"))
    total = F.aggregate(entries, F.lit(0).cast("long"), lambda sum_, each: sum_ + each["value"])
    wanted = F.ceil(total * fraction)
    start = F.struct(F.lit(0).cast("long").alias("seen"), F.lit(None).cast("int").alias("bucket"))

    def step(found: Column, each: Column) -> Column:
        seen = found["seen"] + each["value"]
        reached = found["bucket"].isNull() & (seen >= wanted)
        return F.struct(
            seen.alias("seen"),
            F.when(reached, each["key"]).otherwise(found["bucket"]).alias("bucket"),
        )

    bucket = F.aggregate(entries, start, step, lambda found: found["bucket"])
    middle = F.pow(F.lit(2.0), (bucket + 0.5) / PER_OCTAVE)
    low, high = F.col(f"{prefix}_min"), F.col(f"{prefix}_max")
    return F.when(bucket.isNotNull(), F.least(F.greatest(middle, low), high))
