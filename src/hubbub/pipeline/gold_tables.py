"""What a gold table is: a pure function of other tables, and what the runner must know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hubbub.domain.analytics import question_of
from hubbub.pipeline.bronze import recent
from hubbub.pipeline.history import History
from hubbub.pipeline.state import Partition

Grain = Literal["hour", "day", "all"]


@dataclass(frozen=True)
class GoldTable:
    """`grain` says what has to be computed again when sources change.

    hour: the output has a column `hour`; a row depends only on source rows of its hour, unless the
    table is kept up (`ByArrow.update`).
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

Narrow = Callable[[Mapping[str, pa.Table]], Callable[[pa.Table], pa.Table]]
"""The sources that are read before, then a part of this one, give what matters of that part."""

Update = Callable[[History], Mapping[str, Mapping[Partition, pa.Table]]]
"""What was and what changed give the partitions that are not what they were: by table, since some
are kept together."""


@dataclass(frozen=True)
class ByArrow:
    """A partition of a table, made with Arrow from files, in one of Spark's tasks."""

    columns: Mapping[str, tuple[str, ...]]
    """What is read, by source. Of a table by the hour nobody needs the hour: it is the same in all
    rows."""
    compute: Compute
    """Pure; sources and the partition give the rows, without the hour or day that it is."""
    narrow: Mapping[str, Narrow] = field(default_factory=dict)
    """For large sources of a table that is made as a whole: what matters of some hundred thousand
    rows, so that there are never more of them in memory. Leaving it out gives the same table."""
    recent_hours: int | None = None
    """How many hours up to the newest of a source matter; files of older ones are not opened."""
    update: Update | None = None
    """For tables over all time that are kept up. Rows of such a table may depend on any hour, also
    if they lie in one; `compute` gives all of them at once, with their hours."""
    kept_with: str | None = None
    """The table whose update gives this one's rows as well."""

    @property
    def is_kept(self) -> bool:
        return self.update is not None or self.kept_with is not None

    def transform(
        self, schema: StructType, grain: Grain, sources: Mapping[str, DataFrame]
    ) -> DataFrame:
        """The same for all hours or days of some small tables, here."""
        tables = {name: self._recent(frame.toArrow()) for name, frame in sources.items()}
        wanted = to_arrow_schema(schema, timezone="UTC")
        parts = [wanted.empty_table()]
        for partition in [""] if self.is_kept else _partitions(grain, tables.values()):
            some = {name: _of(table, partition) for name, table in tables.items()}
            rows = self.rows(some, partition)
            if partition:
                rows = rows.append_column(grain, pa.repeat(partition, len(rows)))
            parts.append(rows.select(wanted.names).cast(wanted))
        spark = next(iter(sources.values())).sparkSession
        return spark.createDataFrame(pa.concat_tables(parts).combine_chunks(), schema)

    def _recent(self, table: pa.Table) -> pa.Table:
        if not self.recent_hours or not len(table):
            return table
        hours = recent(set(table["hour"].to_pylist()), self.recent_hours)
        return table.filter(pc.is_in(table["hour"], pa.array(sorted(hours))))

    def rows(self, sources: Mapping[str, pa.Table], partition: Partition) -> pa.Table:
        chosen = {name: sources[name].select(list(some)) for name, some in self.columns.items()}
        return self.compute(chosen, partition)


def arrow_table(
    name: str,
    schema: StructType,
    columns: Mapping[str, tuple[str, ...]],
    compute: Compute,
    key: tuple[str, ...],
    narrow: Mapping[str, Narrow] | None = None,
    recent_hours: int | None = None,
    update: Update | None = None,
    kept_with: str | None = None,
) -> GoldTable:
    """A table that Arrow makes. Its last column says by what: the hour, the day, or as a whole."""
    arrow = ByArrow(columns, compute, narrow or {}, recent_hours, update, kept_with)
    grains: dict[str, Grain] = {"hour": "hour", "day": "day"}
    grain = grains.get(schema.names[-1], "all")
    return GoldTable(
        name=name,
        question=question_of(name),
        schema=schema,
        sources=tuple(columns),
        grain=grain,
        transform=partial(arrow.transform, schema, grain),
        key=key,
        arrow=arrow,
    )


def _partitions(grain: Grain, tables: Iterable[pa.Table]) -> list[Partition]:
    if grain == "all":
        return [""]
    length = len("2026-11-15") if grain == "day" else None
    return sorted({hour[:length] for table in tables for hour in table["hour"].to_pylist()})


def _of(table: pa.Table, partition: Partition) -> pa.Table:
    return table.filter(pc.starts_with(table["hour"], partition)) if partition else table
