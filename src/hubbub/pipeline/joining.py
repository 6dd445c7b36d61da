"""Brings new events of sessions and subscriptions together with the rows that they belong to.

Runs in Spark's tasks: first by the hour of the rows that are there, then by bucket of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hubbub.pipeline import pairing
from hubbub.pipeline.bronze import HOUR_MICROSECONDS, hour_name
from hubbub.pipeline.drafting import write_rows
from hubbub.pipeline.grouping import named

_BEGINNING = {"sessions": "opened_at", "subscriptions": "started_at"}


class Parting(msgspec.Struct, frozen=True):
    """One task: of these rows of an hour, set apart those that have to be made again."""

    table: str
    files: tuple[Path, ...]
    """Of the rows."""
    retracted: frozenset[str]
    """Segments whose events go."""
    events: tuple[Path, ...] = ()
    """New events, for the keys of the rows that are wanted."""
    keys: frozenset[str] = frozenset()
    """Further keys that are wanted."""
    staying: Path = Path()
    """The file for the rows that stay."""
    parts: Path = Path()
    """The folder for what the others were made of."""
    file: str = ""
    buckets: int = 1


class Pairing(msgspec.Struct, frozen=True):
    """One task: make rows of these events, into files of this name below a folder."""

    table: str
    events: tuple[Path, ...]
    into: Path
    file: str


def retracted_keys(task: Parting) -> set[str]:
    """The keys of rows to which retracted segments gave something."""
    rows = _read(task.files)
    parts = pairing.parts_of_rows(task.table, rows)
    gone = parts.filter(pc.is_in(parts["segment"], pa.array(sorted(task.retracted))))
    return set(_keys(task.table, gone).to_pylist())


def set_apart(task: Parting) -> bool:
    """Is there any that has to be made again?"""
    wanted = _new_keys(task.table, task.events)
    if task.keys:
        wanted = pa.concat_arrays([wanted, pa.array(sorted(task.keys), pa.string())])
    keys = _keys(task.table, _read(task.files, pairing.KEYS[task.table]))
    found = pc.is_in(keys, wanted)
    if not pc.any(found).as_py():
        return False
    rows = _read(task.files)
    parts = pairing.parts_of_rows(task.table, rows.filter(found))
    gone = pc.is_in(parts["segment"], pa.array(sorted(task.retracted), pa.string()))
    for bucket, some in pairing.in_buckets(parts.filter(pc.invert(gone)), task.buckets):
        write_rows(task.parts / bucket / task.file, some)
    write_rows(task.staying, rows.filter(pc.invert(found)))
    return True


def pair(task: Pairing) -> None:
    rows = pairing.paired(task.table, _read(task.events))
    began = rows[_BEGINNING[task.table]].cast(pa.int64())
    indexes = pc.floor(pc.divide(began.cast(pa.float64()), HOUR_MICROSECONDS)).cast(pa.int64())
    for index in pc.unique(indexes).to_pylist():
        path = task.into / f"hour={hour_name(index)}" / task.file
        write_rows(path, rows.filter(pc.equal(indexes, index)))


@lru_cache(maxsize=2)
def _new_keys(table: str, events: tuple[Path, ...]) -> pa.Array:
    """Of all new events. Tasks of one process want the same, for one hour after the other."""
    parts = [_keys(table, _read([path], pairing.KEYS[table])).unique() for path in events]
    return pa.concat_arrays([pa.array([], pa.string()), *parts]).unique()


def _keys(table: str, rows: pa.Table) -> pa.ChunkedArray:
    return named(*(rows[name] for name in pairing.KEYS[table]))


def _read(files: Sequence[Path], columns: Sequence[str] | None = None) -> pa.Table:
    """All columns, or only these."""
    chosen = None if columns is None else list(columns)
    parts = []
    for path in files:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            parts.append(file.read(columns=chosen, use_threads=False))
    return pa.concat_tables(parts)
