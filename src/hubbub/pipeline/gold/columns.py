"""Columns that several gold tables are made of."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SLOT_SECONDS = 300
"""Things that change over time are counted in slots of five minutes."""

ALL_HUBS = "*"
"""The name of the sum of all hubs, which no hub can have."""

TEXT, WHOLE, REAL = StringType(), LongType(), DoubleType()
FLAG, TIME = BooleanType(), TimestampType()


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def with_fields(first: StructType, *more: Iterable[StructField]) -> StructType:
    return StructType([*first.fields, *(field for each in more for field in each)])


def shaped(frame: DataFrame, wanted: StructType) -> DataFrame:
    """Exactly the columns of the stated schema, in its order and with its types."""
    return frame.select(*(F.col(each.name).cast(each.dataType).alias(each.name) for each in wanted))


def hour_time(hour: Column) -> Column:
    """The partition column as a time."""
    return F.to_timestamp(hour, "yyyy-MM-dd'T'HH")


def total(column: str | Column) -> Column:
    """A sum that is 0 where there is nothing to add."""
    return F.coalesce(F.sum(column), F.lit(0))


def recent_hours(frame: DataFrame, hours: int) -> DataFrame:
    """The partitions of the last hours that `frame` has. The newest is looked up at once, so that
    the others are not even opened."""
    row = frame.agg(F.max("hour")).first()
    if row is None or row[0] is None:
        return frame
    newest = datetime.strptime(row[0], "%Y-%m-%dT%H")
    oldest = newest - timedelta(hours=hours)
    return frame.where(F.col("hour") > f"{oldest:%Y-%m-%dT%H}")
