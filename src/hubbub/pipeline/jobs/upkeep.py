"""Upkeep of the tables: joining small files, removing old versions and old rows. Without Spark.

Each is a round of its own, so that it excludes others, and readers see it as a whole.
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
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.rounds import TABLE, Rounds, last_done, versions
from hubbub.pipeline.tables.snapshot import Snapshot
from hubbub.pipeline.tables.staging import TARGET_BYTES, drop_scratch

_TYPE: Final = 'Timestamp(Microsecond, Some("UTC"))'
_CHECKED_ROWS: Final = 65_536
Progress = Callable[[float], None]
"""Told the share of the tables that are done."""
PILE: Final = 64
"""Small files of a table, after which a round joins them: some rounds' worth of each task's."""


class Upkeep(msgspec.Struct, frozen=True, kw_only=True):
    """What was done."""

    tables: int = 0
    files: int = 0
    """That were removed, of versions that are read no longer."""
    rows: int = 0


class Trace(msgspec.Struct, frozen=True):
    """Rows of a file in which a user's id occurs."""

    file: str
    column: str
    rows: int


def piled_up(snapshot: Snapshot) -> list[str]:
    """The tables with many files that are far smaller than they should be."""
    return [
        table
        for table in TABLES
        if sum(file.size < TARGET_BYTES // 4 for file in snapshot.files(table)) >= PILE
    ]


def _silent(share: float) -> None:
    """Where nobody looks."""


def compact(
    warehouse: Location,
    now: Callable[[], int],
    tables: Collection[str] = tuple(TABLES),
    progress: Progress = _silent,
) -> Upkeep:
    """Joins files that are smaller than 64 MB. Rows stay as they are."""

    def work(delta: DeltaTable) -> int:
        if delta.metadata().name not in tables:
            return 0
        return int(delta.optimize.compact(target_size=TARGET_BYTES)["numFilesRemoved"])

    removed = _each(warehouse, now, work, progress)
    return Upkeep(tables=len(removed), files=sum(removed))


def prune(
    warehouse: Location, before: int, now: Callable[[], int], progress: Progress = _silent
) -> Upkeep:
    """Removes rows of events before a time, in microseconds since 1970, from all tables but those
    about segments and rounds, and totals of whole months. Old versions hold them until they are
    vacuumed."""
    moment = datetime.fromtimestamp(max(before, 0) / 1e6, UTC)
    month = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)

    def work(delta: DeltaTable) -> int:
        time = TABLES[str(delta.metadata().name)].time
        if time is None:
            return 0
        since = f"{month if time == 'month' else moment:%Y-%m-%dT%H:%M:%S.%fZ}"
        found = delta.delete(f"{time} < arrow_cast('{since}', '{_TYPE}')")
        return int(found.get("num_deleted_rows") or 0)

    removed = _each(warehouse, now, work, progress)
    return Upkeep(tables=len(removed), rows=sum(removed))


def vacuum(
    warehouse: Location, retention_hours: int, now: Callable[[], int], progress: Progress = _silent
) -> Upkeep:
    """Removes files that the versions of the last hours do not name, and what killed rounds left.
    With 0 hours only the last version can be read afterwards."""

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
) -> list[int]:
    """What the work says of the tables that it changed, of which it says more than 0. Raises
    `PipelineError` where there are no tables."""
    if last_done(warehouse) is None:
        raise PipelineError(
            f"there are no tables in {warehouse} yet; make them with `hubbub pipeline run`"
        )
    rounds = Rounds(warehouse)
    with rounds.running(now):
        tables, found = list(versions(warehouse)), []
        for number, table in enumerate(tables):
            progress(number / len(tables))
            found.append(work(DeltaTable(str(warehouse / table))))
        progress(1.0)
        latest = rounds.done.latest if rounds.done else None
        rounds.finish(finished=now(), latest=latest, versions=versions(warehouse))
    return [count for count in found if count]


# -- is anything left of a user? ------------------------------------------------------------------


def traces(warehouse: Location, hub: str, user: str) -> tuple[int, list[Trace]]:
    """Reads every data file there is, of old versions too: how many, and where a field of a row
    of the hub is the user's id, address or own channel. Words that others wrote do not count."""
    address = str(Jid(user, hub))
    names = [user, address, user_channel(user), user_notifications(user)]
    count = 0
    found: list[Trace] = []
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
) -> Iterator[Trace]:
    """Where a text is one of the names, or begins with `session`."""
    quoted = [json.dumps(each, ensure_ascii=False) for each in names]
    quoted.append(json.dumps(session, ensure_ascii=False)[:-1])
    totals: dict[str, int] = {}
    for batch in file.iter_batches(_CHECKED_ROWS, use_threads=False):
        rows = pa.Table.from_batches([batch])
        if "hub" in rows.column_names:
            rows = rows.filter(pc.equal(rows["hub"], hub))
        for column in sorted({*rows.column_names} - {"term"}):
            hits = sum(
                _count(pc.is_in(values, pa.array(names))) + _count(pc.starts_with(values, session))
                for values in _texts(rows[column].combine_chunks())
            )
            if column == "record":
                hits += sum(_count(pc.match_substring(rows[column], each)) for each in quoted)
            totals[column] = totals.get(column, 0) + hits
    return (Trace(name, column, hits) for column, hits in totals.items() if hits)


def _count(hits: pa.Array) -> int:
    return pc.sum(hits).as_py() or 0


def _texts(values: pa.Array) -> Iterator[pa.Array]:
    """All texts of a column, also those inside of maps, lists and structs."""
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
