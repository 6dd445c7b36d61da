"""Tables that are kept up: made from what they were and what changed, not again as a whole.

Runs in Spark's tasks. Leaving it out gives the same tables, only later.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from hubbub.pipeline.drafting import write_partition
from hubbub.pipeline.gold_tables import GoldTable
from hubbub.pipeline.history import Files, History, SourceFiles
from hubbub.pipeline.schemas import SILVER
from hubbub.pipeline.state import Partition


class Keeping(msgspec.Struct, frozen=True):
    """One task: bring a table, and those that are kept with it, up to date."""

    table: str
    own: Mapping[str, Files]
    sources: Mapping[str, SourceFiles]
    into: Mapping[str, Path]
    """The folder of each table's drafts."""
    file: str


def keep_up(task: Keeping, known: Mapping[str, GoldTable]) -> dict[str, frozenset[Partition]]:
    """Writes the partitions that are not what they were, and says which, by table."""
    arrow = known[task.table].arrow
    assert arrow is not None
    assert arrow.update is not None
    schemas = {**SILVER, **{name: table.schema for name, table in known.items()}}
    every = {name: to_arrow_schema(schema, timezone="UTC") for name, schema in schemas.items()}
    history = History(
        {name: (every[name], files) for name, files in task.own.items()},
        {
            name: (pa.schema([every[name].field(one) for one in columns]), task.sources[name])
            for name, columns in arrow.columns.items()
        },
    )
    replaced = {}
    for name, partitions in arrow.update(history).items():
        for partition, rows in partitions.items():
            rows = rows.select(every[name].names).cast(every[name])
            write_partition(task.into[name], task.file, partition, rows)
        replaced[name] = frozenset(partitions)
    return replaced
