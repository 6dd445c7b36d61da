"""What a gold table is: a pure function of other tables, and what the runner must know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

Grain = Literal["hour", "day", "all"]


@dataclass(frozen=True)
class GoldTable:
    """`grain` says what has to be computed again when sources change.

    hour: the output has a column `hour`; a row depends only on source rows of its hour.
    day: the output has a column `day`; a row depends only on source rows of its day's hours.
    all: everything, so its sources should be small, such as other gold tables.
    """

    name: str
    question: str
    """One sentence: what it answers."""
    schema: StructType
    """Of the output, `hour` or `day` included, in this order."""
    sources: tuple[str, ...]
    """Silver or gold tables that it reads."""
    grain: Grain
    transform: Callable[[Mapping[str, DataFrame]], DataFrame]
    """Pure. Its sources hold only the hours or days in question."""
    key: tuple[str, ...]
    """Columns that identify a row."""


def hour_of(time: Column) -> Column:
    """The hour of a timestamp, as tables are partitioned by it: `2026-11-15T22`, in UTC."""
    return F.date_format(time, "yyyy-MM-dd'T'HH")


def day_of(time: Column) -> Column:
    """The day of a timestamp, as tables are partitioned by it: `2026-11-15`, in UTC."""
    return F.date_format(time, "yyyy-MM-dd")


def day_of_hour(hour: Column) -> Column:
    """The day of a partition's hour; cheaper than from a timestamp."""
    return F.substring(hour, 1, 10)
