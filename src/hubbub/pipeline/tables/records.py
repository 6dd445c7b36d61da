"""Converts rows of small tables to structs and back: times as microseconds since 1970, maps as
dictionaries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec
import pyarrow as pa

from hubbub.pipeline.columns import TIME, WHOLE

Record = TypeVar("Record", bound=msgspec.Struct)


def table_of(records: Iterable[msgspec.Struct], shape: pa.Schema) -> pa.Table:
    """Converts records to a table with the fields of the schema; other fields are dropped."""
    rows = [
        {
            name: list(value.items()) if isinstance(value, dict) else value
            for name, value in msgspec.structs.asdict(one).items()
        }
        for one in records
    ]
    return pa.Table.from_pylist(rows, _plain(shape)).cast(shape)


def records_of(rows: pa.Table, kind: type[Record]) -> list[Record]:
    """A null field, as in tables of an earlier version, gets its default."""
    plain = rows.cast(_plain(rows.schema)).to_pylist(maps_as_pydicts="strict")
    return [
        msgspec.convert({name: value for name, value in row.items() if value is not None}, kind)
        for row in plain
    ]


def _plain(shape: pa.Schema) -> pa.Schema:
    return pa.schema([(one.name, WHOLE if one.type == TIME else one.type) for one in shape])
