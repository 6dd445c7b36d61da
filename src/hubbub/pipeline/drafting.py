"""Parquet files as tasks write them: under their name only once they are whole."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from hubbub.pipeline.state import Partition

_UNLIKE: Final = frozenset(
    (
        "message_id",
        "refers_to",
        "answer_id",
        "question_id",
        "thread",
        "payload",
        "at",
        "published_at",
        "asked_at",
        "answered_at",
        "first_at",
        "last_at",
        "began",
        "since",
        "response_time",
        "offset",
        "serial",
        "sequence",
        "place",
    )
)
"""Columns whose values hardly repeat: to look for repetitions would be lost time."""
_ROW_GROUP: Final = 131_072


class GrowingFile:
    """A file to which rows are added."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = path
        self._draft = path.with_name(f".{path.name}.new")
        self._writer = pq.ParquetWriter(
            self._draft,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in schema.names if name not in _UNLIKE],
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        )

    def add(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=_ROW_GROUP)

    def close(self) -> None:
        self._writer.close()
        self._draft.rename(self._path)


def write_rows(path: Path, rows: pa.Table) -> None:
    """A file with these rows; none if there are none."""
    if len(rows):
        file = GrowingFile(path, rows.schema)
        file.add(rows)
        file.close()


def write_partition(folder: Path, file: str, partition: Partition, rows: pa.Table) -> None:
    """The last column of a table by the hour is the name of the folder."""
    if partition:
        column = rows.column_names[-1]
        folder, rows = folder / f"{column}={partition}", rows.drop_columns([column])
    write_rows(folder / file, rows)
