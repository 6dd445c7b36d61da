"""What a gold table is: a pure function of other tables, and what the runner must know of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hubbub.domain.analytics import question_of
from hubbub.pipeline.state import Partition

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
    arrow: ByArrow | None = None
    """How it is made without a plan of Spark's, for tables that are."""


Compute = Callable[[Mapping[str, pa.Table], Partition], pa.Table]


@dataclass(frozen=True)
class ByArrow:
    """A partition of a table, made with Arrow from files, in one of Spark's tasks."""

    columns: Mapping[str, tuple[str, ...]]
    """What is read, by source. Of a table by the hour nobody needs the hour: it is the same in all
    rows."""
    compute: Compute
    """Pure; sources and the partition give the rows, without the hour."""

    def transform(self, schema: StructType, sources: Mapping[str, DataFrame]) -> DataFrame:
        """The same for all hours of some small tables, here."""
        tables = {name: frame.toArrow() for name, frame in sources.items()}
        wanted = to_arrow_schema(schema, timezone="UTC")
        parts = [wanted.empty_table()]
        if "hour" not in wanted.names:
            parts.append(self.rows(tables, "").select(wanted.names).cast(wanted))
            tables = {}
        hours = {hour for table in tables.values() for hour in table["hour"].to_pylist()}
        for hour in sorted(hours):
            rows = self.rows({name: _of_hour(table, hour) for name, table in tables.items()}, hour)
            shaped = rows.append_column("hour", pa.repeat(hour, len(rows)))
            parts.append(shaped.select(wanted.names).cast(wanted))
        spark = next(iter(sources.values())).sparkSession
        return spark.createDataFrame(pa.concat_tables(parts).combine_chunks(), schema)

    def rows(self, sources: Mapping[str, pa.Table], partition: Partition) -> pa.Table:
        chosen = {name: sources[name].select(list(some)) for name, some in self.columns.items()}
        return self.compute(chosen, partition)


def arrow_table(
    name: str,
    schema: StructType,
    columns: Mapping[str, tuple[str, ...]],
    compute: Compute,
    key: tuple[str, ...],
) -> GoldTable:
    """A table that Arrow makes: by the hour if it has one, else as a whole."""
    arrow = ByArrow(columns, compute)
    return GoldTable(
        name=name,
        question=question_of(name),
        schema=schema,
        sources=tuple(columns),
        grain="hour" if "hour" in schema.names else "all",
        transform=partial(arrow.transform, schema),
        key=key,
        arrow=arrow,
    )


def _of_hour(table: pa.Table, hour: str) -> pa.Table:
    return table.filter(pc.equal(table["hour"], hour))


def day_of_hour(hour: Column) -> Column:
    """The day of a partition's hour; cheaper than from a timestamp."""
    return F.substring(hour, 1, 10)
