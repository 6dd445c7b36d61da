"""What a table that is kept up is made of: its rows as they were, and its sources before and after.

Runs in Spark's tasks. A task reads what it asks for and nothing else: the files of what did not
change are most of a warehouse, and mostly stay closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.pipeline.grouping import Groups
from hubbub.pipeline.state import Partition

Files = Mapping[Partition, Sequence[Path]]


class SourceFiles(msgspec.Struct, frozen=True):
    """The files of one source."""

    now: Files
    """All of them, by partition."""
    changed: frozenset[Partition]
    """Partitions that are not what they were; some may be gone."""
    before: Files = {}
    """As the changed ones were. Of silver tables nobody knows: they were committed before."""


class History:
    """Reads what was and what is."""

    def __init__(
        self,
        own: Mapping[str, tuple[pa.Schema, Files]],
        sources: Mapping[str, tuple[pa.Schema, SourceFiles]],
    ) -> None:
        self._own = own
        self._sources = sources

    def own_partitions(self, table: str) -> set[Partition]:
        return set(self._own[table][1])

    def own(
        self,
        table: str,
        partitions: Iterable[Partition] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows of a table as they were before this run, all or of these partitions."""
        schema, files = self._own[table]
        return _read(schema, files, files if partitions is None else partitions, columns)

    def partitions(self, source: str) -> set[Partition]:
        return set(self._sources[source][1].now)

    def changed(self, source: str) -> frozenset[Partition]:
        return self._sources[source][1].changed

    def rows(
        self,
        source: str,
        partitions: Iterable[Partition] | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """As they are now, all or of these partitions."""
        schema, files = self._sources[source]
        return _read(schema, files.now, files.now if partitions is None else partitions, columns)

    def before(self, source: str) -> pa.Table:
        """The changed partitions of a gold table as they were."""
        schema, files = self._sources[source]
        return _read(schema, files.before, files.before, None)

    def now(self, source: str) -> pa.Table:
        """The changed partitions as they are now."""
        return self.rows(source, self.changed(source))

    def rest(self, source: str, columns: Sequence[str] | None = None) -> pa.Table:
        """What did not change."""
        return self.rows(source, self.partitions(source) - self.changed(source), columns)

    def differing(self, source: str) -> tuple[pa.Table, pa.Table]:
        """The rows that are gone, and those that are new; one that changed is both."""
        return differing(self.before(source), self.now(source))


def differing(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that only one has, and those that only the other has; equal ones are counted."""
    groups = Groups(pa.concat_tables([before, after]), before.column_names)
    old, new = groups.ids[: len(before)], groups.ids[len(before) :]
    other = np.bincount(old, minlength=len(groups)) != np.bincount(new, minlength=len(groups))
    return before.filter(pa.array(other[old])), after.filter(pa.array(other[new]))


def read_file(path: Path, wanted: pa.Schema) -> pa.Table:
    """These columns; the hour is the name of the folder."""
    with pq.ParquetFile(path) as file:
        names = [name for name in wanted.names if name != "hour"]
        rows = file.read(columns=names, use_threads=False)
    if "hour" in wanted.names:
        hour = path.parent.name.removeprefix("hour=")
        rows = rows.append_column("hour", pa.repeat(hour, len(rows)))
    return rows.select(wanted.names).cast(wanted)


def _read(
    schema: pa.Schema,
    files: Files,
    partitions: Iterable[Partition],
    columns: Sequence[str] | None,
) -> pa.Table:
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    parts = [
        read_file(path, wanted)
        for partition in sorted(partitions)
        for path in files.get(partition, ())
    ]
    return pa.concat_tables([wanted.empty_table(), *parts])
