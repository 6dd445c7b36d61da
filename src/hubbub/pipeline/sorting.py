"""Sorts the events of segments into silver rows by table and hour. Runs in Spark's tasks.

Events that stand for themselves become rows here. Those that make a row together, and those that
are unfit, are only put aside as they are: they are few, and Spark makes something of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import StructField, TimestampType

from hubbub.pipeline import pairing, silver
from hubbub.pipeline.bronze import Source, batches, hour_indexes, hour_name, verdict
from hubbub.pipeline.drafting import GrowingFile
from hubbub.pipeline.schemas import SILVER

UNFIT: Final = "unfit"
VERDICT: Final = "verdict"
_HOUR_INDEX: Final = "hour_index"
_FULL: Final = 65_536
"""Rows that are written at once, as a row group."""
_TIME: Final = pa.timestamp("us", "UTC")


class Sorting(msgspec.Struct, frozen=True):
    """One task: these segments, into files of this name below these folders."""

    sources: tuple[Source, ...]
    into: Mapping[str, Path]
    """By table, and `unfit` for what is refused. What has no folder is left out."""
    file: str
    hours: frozenset[str] | None = None
    """Only these."""
    buckets: int = 1
    """For events that make rows together."""


def sort_segments(task: Sorting) -> None:
    """Writes the files, and answers nothing: what is there is what there was."""
    files = _Files(task)
    for source in task.sources:
        for events in batches(source):
            name = pa.repeat(source.name, len(events))
            _sort(events.append_column("segment", name), source, task, files)
    files.close()


def _sort(events: pa.Table, source: Source, task: Sorting, files: _Files) -> None:
    if not source.fit:
        reasons = verdict(events, source.limit)
        if UNFIT in task.into:
            unfit = events.append_column(VERDICT, reasons).filter(pc.is_valid(reasons))
            files.add(UNFIT, "", unfit)
        events = events.filter(pc.is_null(reasons))
    events = events.append_column(_HOUR_INDEX, hour_indexes(events))
    for table, kinds in silver.KINDS.items():
        if table in task.into:
            fields = [field for field in SILVER[table].fields if field.name != "hour"]
            _add_by_hour(table, *_rows(events, kinds, fields), task, files)
    for table, kinds in pairing.KINDS.items():
        if table in task.into:
            rows, _ = _rows(events, kinds, pairing.ASIDE.fields)
            for bucket, some in pairing.in_buckets(rows, task.buckets):
                files.add(table, bucket, some)


def _rows(
    events: pa.Table, kinds: Sequence[str], fields: Sequence[StructField]
) -> tuple[pa.Table, pa.ChunkedArray]:
    """The rows of events of these kinds, and their hours."""
    wanted = pc.is_in(events["kind"], pa.array(kinds))
    chosen = events.select([*(field.name for field in fields), _HOUR_INDEX]).filter(wanted)
    columns = {
        field.name: chosen[field.name].cast(_TIME)
        if isinstance(field.dataType, TimestampType)
        else chosen[field.name]
        for field in fields
    }
    return pa.table(columns), chosen[_HOUR_INDEX]


def _add_by_hour(
    table: str, rows: pa.Table, indexes: pa.ChunkedArray, task: Sorting, files: _Files
) -> None:
    """The hour is the name of the folder."""
    for index in pc.unique(indexes).to_pylist():
        hour = hour_name(index)
        if task.hours is None or hour in task.hours:
            files.add(table, f"hour={hour}", rows.filter(pc.equal(indexes, index)))


class _Files:
    """The files of one task, which grow by row groups. A file has its name once it is whole."""

    def __init__(self, task: Sorting) -> None:
        self._task = task
        self._waiting: dict[Path, list[pa.Table]] = defaultdict(list)
        self._growing: dict[Path, GrowingFile] = {}

    def add(self, table: str, folder: str, rows: pa.Table) -> None:
        if not len(rows):
            return
        path = self._task.into[table] / folder / self._task.file
        waiting = self._waiting[path]
        waiting.append(rows)
        if sum(map(len, waiting)) >= _FULL:
            self._write(path)

    def close(self) -> None:
        for path in list(self._waiting):
            self._write(path)
        for file in self._growing.values():
            file.close()

    def _write(self, path: Path) -> None:
        rows = pa.concat_tables(self._waiting.pop(path))
        if path not in self._growing:
            self._growing[path] = GrowingFile(path, rows.schema)
        self._growing[path].add(rows)


def has_repeats(files: Sequence[Path]) -> bool:
    """Is a message in these files of one hour twice?"""
    keys = ["hub", "message_id"]
    ids = pa.concat_tables(
        pq.read_table(path, columns=keys, use_threads=False, partitioning=None) for path in files
    )
    different = ids.group_by(keys, use_threads=False).aggregate([])
    return len(different) < len(ids)
