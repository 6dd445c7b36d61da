"""Gold tables made by Arrow in Spark's tasks: all of an hour's in one, or a table as a whole.

An hour's rows depend on nothing but that hour's files. So each file is read once, and no plan has
to be made and compiled for each table. Tables over all time are made from the small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hubbub.pipeline.drafting import write_partition, write_rows
from hubbub.pipeline.gold_tables import GoldTable, Narrow
from hubbub.pipeline.grouping import by_hour
from hubbub.pipeline.history import read_file
from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.state import Partition

Keep = Callable[[pa.Table], pa.Table]
_NARROWED_ROWS: Final = 500_000


class Making(msgspec.Struct, frozen=True):
    """One task: this partition of these tables."""

    partition: Partition
    tables: Mapping[str, Path]
    """The file to write, by table in an order in which sources come first."""
    files: Mapping[str, Sequence[Path]]
    """To read, by source, for those that are not made here."""


def make(task: Making, known: Mapping[str, GoldTable]) -> None:
    """Writes the files; a table without rows has none."""
    chosen = [known[name] for name in task.tables]
    schemas = {**SILVER, **{name: table.schema for name, table in known.items()}}
    narrow = {} if task.partition else _narrow(chosen)
    sources: dict[str, pa.Table] = {}
    for name, files in task.files.items():
        keep = narrow[name](sources) if name in narrow else None
        sources[name] = _read(name, schemas[name], files, chosen, keep)
    for table in chosen:
        assert table.arrow is not None
        rows = table.arrow.rows(sources, task.partition)
        wanted = to_arrow_schema(table.schema, timezone="UTC")
        if task.partition:
            wanted = wanted.remove(len(wanted) - 1)
        rows = rows.select(wanted.names).cast(wanted)
        sources[table.name] = rows
        _write(task.tables[table.name], rows)


def _write(path: Path, rows: pa.Table) -> None:
    """Rows that say their hour are the whole of a table that lies in hours."""
    if rows.column_names[-1] != "hour":
        write_rows(path, rows)
        return
    for hour, some in by_hour(rows).items():
        write_partition(path.parent, path.name, hour, some)


def _narrow(tables: Sequence[GoldTable]) -> Mapping[str, Narrow]:
    (table,) = tables
    return table.arrow.narrow if table.arrow else {}


def _read(
    source: str,
    schema: StructType,
    files: Sequence[Path],
    tables: Sequence[GoldTable],
    keep: Keep | None = None,
) -> pa.Table:
    """Only the columns that these tables look at, and the rows that matter to them."""
    names = {
        name
        for table in tables
        if table.arrow is not None
        for name in table.arrow.columns.get(source, ())
    }
    every = to_arrow_schema(schema, timezone="UTC")
    wanted = pa.schema([every.field(name) for name in sorted(names)])
    parts = (read_file(path, wanted) for path in files)
    if keep:
        parts = (keep(some) for some in _gathered(parts))
    return pa.concat_tables([wanted.empty_table(), *parts])


def _gathered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for part in parts:
        waiting.append(part)
        if sum(map(len, waiting)) >= _NARROWED_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
