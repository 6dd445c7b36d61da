"""Files that tasks write; a commit makes them visible. Runs in Spark's tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.files import sync
from hubbub.pipeline.catalogue import DROPPED, SCRATCH, TABLES
from hubbub.pipeline.partitions import hours_in
from hubbub.pipeline.tables.location import Location

TARGET_BYTES: Final = 64 * 2**20
"""The size at which a data file is closed and the next one begun."""
_ROW_GROUP: Final = 131_072
_WAITING_ROWS: Final = 65_536
_COMPRESSED: Final = 6
"""An estimate of Arrow bytes per Parquet byte, used only to decide when a file ends."""
_UNIQUE: Final = frozenset(
    (
        *("message_id", "refers_to", "question_id", "thread", "payload", "at", "published_at"),
        *("asked_at", "first_at", "last_at", "began", "response_time", "offset", "serial"),
        *("sequence", "place"),
    )
)
"""Columns with mostly distinct values, for which dictionary encoding would waste time."""


class StagedFile(msgspec.Struct, frozen=True):
    """A file that is not committed yet. `path` is relative to the table."""

    table: str
    path: str
    size: int
    rows: int
    stats: str
    hours: dict[str, list[int]] = {}
    """The hours in which the file has rows, by the columns that assign rows to partitions."""


class Stage:
    """The files of one task: several tables in parallel, each in files of a reasonable size.

    `name` is unique to the round, the task and the attempt.
    """

    def __init__(self, warehouse: str, name: str) -> None:
        self._warehouse = Location(warehouse)
        self._name = name
        self._waiting: dict[str, list[pa.Table]] = {}
        self._files: dict[str, _StagedFile] = {}
        self._closed: list[StagedFile] = []

    def add(self, table: str, rows: pa.Table) -> None:
        if not len(rows):
            return
        waiting = self._waiting.setdefault(table, [])
        waiting.append(rows)
        if sum(map(len, waiting)) >= _WAITING_ROWS:
            self._write(table)

    def close(self) -> list[StagedFile]:
        """Returns the complete files, which are on disk."""
        for table in list(self._waiting):
            self._write(table)
        for table in list(self._files):
            self._close(table)
        return self._closed

    def _write(self, table: str) -> None:
        rows = pa.concat_tables(self._waiting.pop(table))
        if table not in self._files:
            number = sum(file.table == table for file in self._closed)
            self._files[table] = _StagedFile(
                self._warehouse, table, f"{self._name}-{number}.parquet"
            )
        file = self._files[table]
        file.write(rows)
        if file.arrow_bytes >= TARGET_BYTES * _COMPRESSED:
            self._close(table)

    def _close(self, table: str) -> None:
        self._closed.append(self._files.pop(table).close())


class _StagedFile:
    def __init__(self, warehouse: Location, table: str, name: str) -> None:
        self._table = {**TABLES, **SCRATCH}[table]
        self._name = name
        self._fs, folder = (warehouse / table).open()
        if warehouse.is_local:
            self._fs.create_dir(folder, recursive=True)
        self._path = f"{folder}/{name}"
        self._is_local = warehouse.is_local
        self._stream = self._fs.open_output_stream(self._path)
        self._written: list[pq.FileMetaData] = []
        self._writer = pq.ParquetWriter(
            self._stream,
            self._table.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in self._table.schema.names if name not in _UNIQUE],
            write_page_checksum=True,
            store_schema=False,
            metadata_collector=self._written,
        )
        self.arrow_bytes = 0
        self._hours: dict[str, set[int]] = {name: set() for name in self._table.by}

    def write(self, rows: pa.Table) -> None:
        rows = rows.select(self._table.schema.names).cast(self._table.schema)
        self._writer.write_table(rows, row_group_size=_ROW_GROUP)
        self.arrow_bytes += rows.nbytes
        for name, hours in self._hours.items():
            hours |= hours_in(rows[name])

    def close(self) -> StagedFile:
        self._writer.close()
        self._stream.close()
        if self._is_local:
            sync(self._path)
        size = self._fs.get_file_info(self._path).size
        [metadata] = self._written
        stats = _stats(metadata, (*self._table.by, "segment"))
        hours = {name: sorted(found) for name, found in self._hours.items()}
        return StagedFile(self._table.name, self._name, size, metadata.num_rows, stats, hours)


def _stats(metadata: pq.FileMetaData, columns: Sequence[str]) -> str:
    """Statistics in Delta's format: minimum and maximum of the columns by which files are
    skipped."""
    known = {name: found for name in columns if (found := bounds(metadata, name))}
    said = {
        "numRecords": metadata.num_rows,
        "minValues": {name: _said(least) for name, (least, _) in known.items()},
        "maxValues": {name: _said(greatest) for name, (_, greatest) in known.items()},
        "nullCount": {},
    }
    return json.dumps(said)


def bounds(metadata: pq.FileMetaData, column: str) -> tuple[Any, Any] | None:
    """Minimum and maximum of a column in a Parquet file; None if the file lacks the column or its
    statistics."""
    paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    groups = range(metadata.num_row_groups if column in paths else 0)
    found = [metadata.row_group(one).column(paths.index(column)).statistics for one in groups]
    if not found or not all(one is not None and one.has_min_max for one in found):
        return None
    return min(one.min for one in found), max(one.max for one in found)


def _said(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:%Y-%m-%dT%H:%M:%S.%f}Z"


def drop_scratch(warehouse: Location) -> None:
    """Deletes scratch files, including those of killed rounds. The caller holds the round."""
    _delete(warehouse, SCRATCH)


def drop_old_tables(warehouse: Location) -> None:
    """Deletes tables that earlier versions made. The caller has committed a round without them."""
    _delete(warehouse, DROPPED)


def _delete(warehouse: Location, tables: Iterable[str]) -> None:
    for table in tables:
        files, folder = (warehouse / table).open()
        files.delete_dir_contents(folder, missing_dir_ok=True)
