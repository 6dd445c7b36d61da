"""Bronze: the journal's sealed segments as Spark reads them, and what makes a record unfit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from hubbub.domain import journal
from hubbub.domain.journal import JournalEvent
from hubbub.pipeline.inspecting import SUFFIX, Segment

NEWER_VERSION: Final = "newer_version"
UNKNOWN_KIND: Final = "unknown_kind"
INCOMPLETE: Final = "incomplete"
BAD_TIME: Final = "bad_time"
FUTURE: Final = "future"

HOUR_MICROSECONDS: Final = 3_600_000_000
_LAST_TIME: Final = 253_402_300_799_999_999
"""The end of the year 9999, which is as far as times are written the usual way."""

_TYPES: Final[dict[str, DataType]] = {
    "str": StringType(),
    "int": LongType(),
    "bool": BooleanType(),
    "bytes": BinaryType(),
    "float": DoubleType(),
    "dict[str, str]": MapType(StringType(), StringType()),
    "dict[int, int]": MapType(IntegerType(), LongType()),
}

EVENTS: Final = StructType(
    [
        StructField("schema_version", IntegerType()),
        StructField("offset", LongType()),
        *(
            StructField(name, _TYPES[kind.removesuffix(" | None")])
            for name, kind in JournalEvent.__annotations__.items()
        ),
    ]
)
"""As segments are written. A column that an older segment does not have reads as null."""

_NEEDS: Final = {
    journal.PUBLISHED: ("channel", "message_id"),
    journal.DELIVERED: ("channel",),
    journal.SESSION_OPENED: ("session",),
    journal.SESSION_CLOSED: ("session",),
    journal.SUBSCRIBED: ("channel", "session"),
    journal.UNSUBSCRIBED: ("channel", "session"),
}
"""What an event of a kind cannot be without."""


def read_events(spark: SparkSession, segments: Iterable[Segment]) -> DataFrame:
    """The events of these segments, with the name of their segment."""
    name = F.col("_metadata.file_name")
    return (
        spark.read.schema(EVENTS)
        .parquet(*(str(segment.path) for segment in segments))
        .withColumn("segment", F.left(name, F.length(name) - len(SUFFIX)))
    )


def verdict(limits: Mapping[str, int]) -> Column:
    """Why a record cannot be taken, as a word; null if it can. `limits`: segments that need to be
    checked for events from the future, with the latest time that is believed."""
    kind, at = F.col("kind"), F.col("at")
    incomplete = F.col("hub").isNull()
    for needy, columns in _NEEDS.items():
        for column in columns:
            incomplete = incomplete | ((kind == needy) & F.col(column).isNull())
    decided = (
        F.when(F.col("schema_version") > journal.SCHEMA_VERSION, NEWER_VERSION)
        .when(kind.isNull() | at.isNull() | F.col("offset").isNull(), INCOMPLETE)
        .when(~kind.isin(*sorted(journal.KINDS)), UNKNOWN_KIND)
        .when((at < 0) | (at > _LAST_TIME), BAD_TIME)
        .when(incomplete, INCOMPLETE)
    )
    for segment, limit in limits.items():
        decided = decided.when((F.col("segment") == segment) & (at > limit), FUTURE)
    return decided


def hour_name(index: int) -> str:
    """The partition of an hour that is counted from 1970."""
    return datetime.fromtimestamp(index * 3600, UTC).strftime("%Y-%m-%dT%H")
