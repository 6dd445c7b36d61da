"""Columns that several gold tables are made of."""

from __future__ import annotations

from collections.abc import Iterable

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
