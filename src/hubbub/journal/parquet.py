"""Sealed segments: events as columns in a Parquet file.

Imports Arrow, which is large: the hub's main process never imports this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.domain.journal import SCHEMA_VERSION, JournalEvent
from hubbub.files import sync
from hubbub.journal.records import read_events

ROW_GROUP: Final = 65_536

_TYPES: Final = {
    "str": pa.string(),
    "int": pa.int64(),
    "bool": pa.bool_(),
    "bytes": pa.binary(),
    "float": pa.float64(),
    "dict[str, str]": pa.map_(pa.string(), pa.string()),
    "dict[int, int]": pa.map_(pa.int32(), pa.int64()),
}


def _arrow_type(annotation: str) -> pa.DataType:
    return _TYPES[annotation.removesuffix(" | None")]


FIELDS: Final = JournalEvent.__struct_fields__
SCHEMA: Final = pa.schema(
    [
        pa.field("schema_version", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        *(
            pa.field(
                name,
                _arrow_type(JournalEvent.__annotations__[name]),
                nullable=name not in ("kind", "at", "hub", "node"),
            )
            for name in FIELDS
        ),
    ]
)
"""The columns of a sealed segment: `schema_version`, `offset`, then the fields of an event."""


def batch_of(events: Sequence[JournalEvent], offset: int) -> pa.RecordBatch:
    """The events as columns; `offset` is the position of the first one in its segment."""
    count = len(events)
    columns: list[pa.Array] = [
        pa.array([SCHEMA_VERSION] * count, pa.int32()),
        pa.array(range(offset, offset + count), pa.int64()),
    ]
    for name in FIELDS:
        values = list(map(attrgetter(name), events))
        kind = SCHEMA.field(name).type
        if pa.types.is_map(kind):
            values = [None if value is None else list(value.items()) for value in values]
        columns.append(pa.array(values, kind))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def write_events(path: Path, events: Iterable[JournalEvent]) -> int:
    """Writes a sealed segment and syncs it; returns the number of events. The caller writes to a
    name that begins with a dot, and renames the file."""
    waiting = iter(events)
    offset = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        while group := list(islice(waiting, ROW_GROUP)):
            writer.write_batch(batch_of(group, offset), row_group_size=ROW_GROUP)
            offset += len(group)
    sync(path)
    return offset


def write_segment(raw: Path, path: Path) -> int:
    """Converts a closed segment to a sealed one."""
    return write_events(path, read_events(raw))


def read_sealed(path: Path) -> Iterator[JournalEvent]:
    """The events of a sealed segment, even if its version has fewer or more columns."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=4096):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                yield _event(row)


def _event(row: dict[str, Any]) -> JournalEvent:
    given = {name: row[name] for name in FIELDS if row.get(name) is not None}
    return JournalEvent(**given)
