"""Gold tables made by Arrow in Spark's tasks: all of an hour's in one, or a table as a whole.

An hour's rows depend on nothing but that hour's files. So each file is read once, and no plan has
to be made and compiled for each table. Tables over all time are made from the small ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hubbub.pipeline.drafting import write_rows
from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.state import Partition
from hubbub.pipeline.tables import GoldTable


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
    sources = {
        name: _read(name, schemas[name], files, chosen) for name, files in task.files.items()
    }
    for table in chosen:
        assert table.arrow is not None
        rows = table.arrow.rows(sources, task.partition)
        wanted = to_arrow_schema(table.schema, timezone="UTC")
        if task.partition:
            wanted = wanted.remove(len(wanted) - 1)
        rows = rows.select(wanted.names).cast(wanted)
        sources[table.name] = rows
        write_rows(task.tables[table.name], rows)


def _read(
    source: str, schema: StructType, files: Sequence[Path], tables: Sequence[GoldTable]
) -> pa.Table:
    """Only the columns that these tables look at."""
    names = {
        name
        for table in tables
        if table.arrow is not None
        for name in table.arrow.columns.get(source, ())
    }
    columns = sorted(names)
    every = to_arrow_schema(schema, timezone="UTC")
    wanted = pa.schema([every.field(name) for name in columns])
    parts = [wanted.empty_table()]
    for path in files:
        with pq.ParquetFile(path) as file:
            rows = file.read(columns=columns, use_threads=False)
        if "hour" in columns:
            hour = path.parent.name.removeprefix("hour=")
            rows = rows.append_column("hour", pa.repeat(hour, len(rows)))
        parts.append(rows.select(columns).cast(wanted))
    return pa.concat_tables(parts)
