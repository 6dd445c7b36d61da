"""Reads and rewrites sealed segments as columns, including those of older versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hubbub.domain.errors import Unavailable
from hubbub.domain.journal import SCHEMA_VERSION
from hubbub.files import sync
from hubbub.journal.parquet import ROW_GROUP, SCHEMA

LENIENT: Final = pa.schema([pa.field(field.name, field.type) for field in SCHEMA])
"""The current columns, all nullable: other writers may omit some."""
_BATCH: Final = 16_384


class SegmentUnreadable(Unavailable):
    """A sealed segment is damaged, or was written by a newer version."""

    code = "segment_unreadable"
    retry = False


def open_sealed(path: Path) -> pq.ParquetFile:
    """Raises `SegmentUnreadable`, and `FileNotFoundError`."""
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise SegmentUnreadable(
            f"{path.name} is damaged ({error}); restore it, or move it out of the journal"
        ) from None


def newest(path: Path) -> int | None:
    """The time of the newest event, from the file's statistics if present."""
    return _extreme(path, "max", max)


def oldest(path: Path) -> int | None:
    return _extreme(path, "min", min)


def _extreme(path: Path, which: str, choose: Any) -> int | None:
    with open_sealed(path) as file:
        column = file.schema_arrow.get_field_index("at")
        if column < 0 or not file.metadata.num_rows:
            return None
        groups = range(file.metadata.num_row_groups)
        found = [file.metadata.row_group(group).column(column).statistics for group in groups]
        if all(each is not None and each.has_min_max for each in found):
            return int(choose(getattr(each, which) for each in found))
        times = file.read(["at"])["at"].to_pylist()
        return int(choose(times))


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """All rows with the current columns; columns missing in an older segment are null. Raises
    `SegmentUnreadable`, also for a segment of a newer version, whose additional columns would be
    lost."""
    with open_sealed(path) as file:
        unknown = set(file.schema_arrow.names) - set(SCHEMA.names)
        if unknown:
            raise SegmentUnreadable(
                f"{path.name} has columns that this version does not know"
                f" ({', '.join(sorted(unknown))}); use the version that wrote it"
            )
        for batch in file.iter_batches(batch_size=_BATCH):
            yield complete(batch, path)


def complete(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    there = set(batch.schema.names)
    try:
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in there
            else pa.nulls(batch.num_rows, field.type)
            for field in SCHEMA
        ]
    except pa.ArrowException as error:
        raise SegmentUnreadable(f"{path.name} has a column of a wrong type: {error}") from None
    return pa.RecordBatch.from_arrays(columns, schema=LENIENT)


def write_batches(path: Path, parts: Iterable[pa.RecordBatch]) -> int:
    """Writes a segment with new offsets and syncs it; returns the number of events."""
    offset = 0
    waiting: list[pa.RecordBatch] = []
    with pq.ParquetWriter(path, LENIENT, compression="zstd") as writer:

        def flush() -> None:
            nonlocal offset
            rows = sum(part.num_rows for part in waiting)
            if rows:
                numbered = _numbered(pa.Table.from_batches(waiting), offset)
                writer.write_table(numbered, row_group_size=ROW_GROUP)
            offset += rows
            waiting.clear()

        for part in parts:
            waiting.append(part)
            if sum(each.num_rows for each in waiting) >= ROW_GROUP:
                flush()
        flush()
    sync(path)
    return offset


def _numbered(table: pa.Table, offset: int) -> pa.Table:
    rows = len(table)
    columns = {
        "schema_version": pa.array([SCHEMA_VERSION] * rows, pa.int32()),
        "offset": pa.array(range(offset, offset + rows), pa.int64()),
    }
    return pa.Table.from_arrays(
        [columns.get(field.name, table[field.name]) for field in LENIENT], schema=LENIENT
    )


def find(paths: Sequence[Path], columns: Sequence[str], wanted: Any) -> pa.Table:
    """The given columns of rows that fulfil a condition, from all these segments."""
    if not paths:
        return LENIENT.empty_table().select(columns)
    for path in paths:
        open_sealed(path).close()
    dataset = ds.dataset([str(path) for path in paths], schema=LENIENT, format="parquet")
    return dataset.to_table(columns=list(columns), filter=wanted)


def moment(microseconds: int) -> str:
    """Formats a time for people."""
    time = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
