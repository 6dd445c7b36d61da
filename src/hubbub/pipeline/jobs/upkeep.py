"""Maintenance of the tables without Spark: compaction, vacuuming, and deletion of old rows.

Each is a round of its own, so that it excludes other rounds and is atomic for readers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyarrow import fs

from hubbub.domain.commands.jids import Jid
from hubbub.domain.names import user_channel, user_notifications
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import PipelineError
from hubbub.pipeline.models import MODELS
from hubbub.pipeline.partitions import named
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import TABLE, RoundLock, last_done, versions
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.tables.staging import TARGET_BYTES, drop_scratch

_TYPE: Final = 'Timestamp(Microsecond, Some("UTC"))'
_CHECKED_ROWS: Final = 65_536
Progress = Callable[[float], None]
"""Receives the share of completed tables."""
PILE: Final = 64
"""A round compacts a table with more small files than this, the output of several rounds."""


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a maintenance run."""

    tables: int = 0
    files: int = 0
    """Deleted files of versions that can no longer be read."""
    rows: int = 0


class RowsOfUser(msgspec.Struct, frozen=True):
    """Rows of a file that contain a user's id."""

    file: str
    column: str
    rows: int


def piled_up(snapshot: Snapshot) -> list[str]:
    """The tables with many files far below the target size."""
    return [
        table
        for table in TABLES
        if sum(file.size < TARGET_BYTES // 4 for file in snapshot.files(table)) >= PILE
    ]


def _silent(share: float) -> None:
    """Default progress callback: does nothing."""


def compact(
    warehouse: Location,
    now: Callable[[], int],
    tables: Collection[str] = tuple(TABLES),
    progress: Progress = _silent,
) -> Upkeep:
    """Merges files smaller than 64 MB. Rows stay unchanged."""

    def work(delta: DeltaTable) -> int:
        if delta.metadata().name not in tables:
            return 0
        return int(delta.optimize.compact(target_size=TARGET_BYTES)["numFilesRemoved"])

    removed = _each(warehouse, now, work, progress)
    return Upkeep(tables=len(removed), files=sum(removed))


def prune(
    warehouse: Location, before: int, now: Callable[[], int], progress: Progress = _silent
) -> Upkeep:
    """Deletes rows of events before a time, in microseconds since 1970, from all tables except
    segments and rounds; totals by whole months. The next round makes tables over all time again.
    Old versions contain the rows until they are vacuumed."""
    at = max(before, 0)
    moment = datetime.fromtimestamp(at / 1e6, UTC)

    def work(delta: DeltaTable) -> int:
        table = TABLES[str(delta.metadata().name)]
        if table.time is None:
            return 0
        since = f"arrow_cast('{moment:%Y-%m-%dT%H:%M:%S.%fZ}', '{_TYPE}')"
        if pa.types.is_string(table.schema.field(table.time).type):
            since = f"'{named(at, table.time)}'"
        found = delta.delete(f"{table.time} < {since}")
        return int(found.get("num_deleted_rows") or 0)

    removed = _each(warehouse, now, work, progress, whole_tables_again=True)
    return Upkeep(tables=len(removed), rows=sum(removed))


def vacuum(
    warehouse: Location, retention_hours: int, now: Callable[[], int], progress: Progress = _silent
) -> Upkeep:
    """Deletes files that no version of the last hours uses, and files of killed rounds. With 0
    hours, only the current version can be read afterwards."""

    def work(delta: DeltaTable) -> int:
        drop_scratch(warehouse)
        vacuum = partial(delta.vacuum, dry_run=False, enforce_retention_duration=False, full=True)
        return len(vacuum(retention_hours))

    removed = _each(warehouse, now, work, progress)
    of_rounds = work(DeltaTable(str(warehouse / TABLE)))
    return Upkeep(tables=len(removed), files=sum(removed) + of_rounds)


def _each(
    warehouse: Location,
    now: Callable[[], int],
    work: Callable[[DeltaTable], int],
    progress: Progress,
    whole_tables_again: bool = False,
) -> list[int]:
    """Returns the positive results of `work` per table. Raises `PipelineError` if there are no
    tables."""
    if last_done(warehouse) is None:
        raise PipelineError(
            f"there are no tables in {warehouse} yet; make them with `hubbub pipeline run`"
        )
    rounds = RoundLock(warehouse)
    with rounds.running(now):
        tables, found = list(versions(warehouse)), []
        for number, table in enumerate(tables):
            progress(number / len(tables))
            found.append(work(DeltaTable(str(warehouse / table))))
        progress(1.0)
        latest = rounds.done.latest if rounds.done else None
        models = rounds.done.models if rounds.done else {}
        if whole_tables_again:
            models = {name: number if MODELS[name].unit else 0 for name, number in models.items()}
        rounds.finish(finished=now(), latest=latest, versions=versions(warehouse), models=models)
    return [count for count in found if count]


# -- is anything left of a user? ------------------------------------------------------------------


def traces(warehouse: Location, hub: str, user: str) -> tuple[int, list[RowsOfUser]]:
    """Reads all data files, including those of old versions; returns their number, and the rows of
    the hub in which a field is the user's id, address or own channel. Free text is not searched."""
    address = str(Jid(user, hub))
    names = [user, address, user_channel(user), user_notifications(user)]
    count = 0
    found: list[RowsOfUser] = []
    for table in TABLES:
        files, folder = (warehouse / table).open()
        infos = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        for info in infos:
            if info.is_file and info.extension == "parquet":
                count += 1
                with pq.ParquetFile(files.open_input_file(info.path)) as file:
                    found += _found(file, f"{table}/{info.base_name}", hub, names, f"{address}/")
    return count, found


def _found(
    file: pq.ParquetFile, name: str, hub: str, names: list[str], session: str
) -> Iterator[RowsOfUser]:
    """Finds texts that equal one of the names, or begin with `session`."""
    quoted = [json.dumps(each, ensure_ascii=False) for each in names]
    quoted.append(json.dumps(session, ensure_ascii=False)[:-1])
    totals: dict[str, int] = {}
    for batch in file.iter_batches(_CHECKED_ROWS, use_threads=False):
        rows = pa.Table.from_batches([batch])
        if "hub" in rows.column_names:
            rows = rows.filter(pc.equal(rows["hub"], hub))
        if name.startswith("trending/"):
            rows = rows.filter(pc.not_equal(rows["kind"], "term"))
        for column in sorted({*rows.column_names} - {"term"}):
            hits = sum(
                _count(pc.is_in(values, pa.array(names))) + _count(pc.starts_with(values, session))
                for values in _texts(rows[column].combine_chunks())
            )
            if column == "record":
                hits += sum(_count(pc.match_substring(rows[column], each)) for each in quoted)
            totals[column] = totals.get(column, 0) + hits
    return (RowsOfUser(name, column, hits) for column, hits in totals.items() if hits)


def _count(hits: pa.Array) -> int:
    return pc.sum(hits).as_py() or 0


def _texts(values: pa.Array) -> Iterator[pa.Array]:
    """All texts of a column, including those inside maps, lists and structs."""
    kind = values.type
    if pa.types.is_string(kind):
        yield values
    elif pa.types.is_map(kind):
        yield from _texts(values.keys)
        yield from _texts(values.items)
    elif pa.types.is_list(kind):
        yield from _texts(values.flatten())
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _texts(part)
