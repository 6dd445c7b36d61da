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


def slot_of(time: Column) -> Column:
    """The beginning of the five minutes, in seconds since 1970: cheaper to group by than a time."""
    seconds = F.unix_seconds(time)
    return seconds - F.pmod(seconds, F.lit(SLOT_SECONDS))


def hour_time(hour: Column) -> Column:
    """The partition column as a time."""
    return F.to_timestamp(hour, "yyyy-MM-dd'T'HH")


def total(column: str | Column) -> Column:
    """A sum that is 0 where there is nothing to add."""
    return F.coalesce(F.sum(column), F.lit(0))


def who() -> Column:
    """Who wrote a message: the sender that it names, else the user who published it."""
    return F.coalesce(F.col("sender"), F.col("user"))


def slot_bit(time: Column) -> Column:
    """A number with one bit set: that of the five minutes of the hour."""
    place = F.floor(F.minute(time) / (SLOT_SECONDS // 60)).cast("int")
    return F.call_function("shiftleft", F.lit(1).cast("long"), place)


def recent_hours(frame: DataFrame, hours: int) -> DataFrame:
    """The partitions of the last hours that `frame` has. The newest is looked up at once, so that
    the others are not even opened."""
    row = frame.agg(F.max("hour")).first()
    if row is None or row[0] is None:
        return frame
    newest = datetime.strptime(row[0], "%Y-%m-%dT%H")
    oldest = newest - timedelta(hours=hours)
    return frame.where(F.col("hour") > f"{oldest:%Y-%m-%dT%H}")
