"""Commits of a Delta table: adds staged files and removes others atomically.

Runs on the driver. Raises `CommitRefused` if another writer was faster.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.errors import CommitRefused
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.staging import StagedFile

_STATISTICS: Final = "delta.dataSkippingStatsColumns"
APPLICATION: Final = "hubbub"
"""The application name under which rounds are recorded as transactions of the tables."""


def version_of(warehouse: Location, table: str) -> int | None:
    """None if the table does not exist."""
    try:
        return DeltaTable(str(warehouse / table)).version()
    except TableNotFoundError:
        return None


def commit(
    warehouse: Location,
    table: str,
    number: int,
    added: Sequence[StagedFile],
    removed: Iterable[str] = (),
    base: int | None = None,
) -> int:
    """Returns the version with round `number`; idempotent.

    `base` is the version on which the round was computed; None: any. Raises `CommitRefused` if the
    table has another version by now.
    """
    delta = _opened(warehouse, table, number, base)
    if _committed(delta, number):
        return delta.version()
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(path, True, now, None, {}) for path in removed
    ]
    actions += [AddAction(file.path, file.size, {}, now, True, file.stats) for file in added]
    if not actions:
        return delta.version()
    try:
        delta.create_write_transaction(
            actions,
            "append",
            delta.schema(),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(APPLICATION, number)], max_commit_retries=0
            ),
        )
    except (CommitFailedError, OSError) as error:
        # An object store may have written the log entry although its answer was lost.
        there = DeltaTable(str(warehouse / table))
        if _committed(there, number):
            return there.version()
        if isinstance(error, CommitFailedError):
            raise _refused(table) from error
        raise
    delta.update_incremental()
    return delta.version()


def _committed(delta: DeltaTable, number: int) -> bool:
    return (delta.transaction_version(APPLICATION) or 0) >= number


def _refused(table: str) -> CommitRefused:
    return CommitRefused(f"another pipeline wrote the table {table} meanwhile; run again")


def restore(warehouse: Location, table: str, version: int | None) -> int | None:
    """Reverts the commits of an unfinished round. `None`: the table did not exist before."""
    now = version_of(warehouse, table)
    if now is None or now == version:
        return now
    delta = DeltaTable(str(warehouse / table))
    delta.restore(0 if version is None else version)
    delta.update_incremental()
    return delta.version()


def _opened(warehouse: Location, table: str, number: int, base: int | None) -> DeltaTable:
    """Opens the table with all columns of the catalogue; creates it if necessary."""
    place, wanted = warehouse / table, TABLES[table].schema
    columns = dict.fromkeys((*TABLES[table].by, "segment"))
    described = {_STATISTICS: ",".join(name for name in columns if name in wanted.names)}
    try:
        delta = DeltaTable(str(place))
    except TableNotFoundError:
        if place.is_local:
            place.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return DeltaTable.create(str(place), wanted, name=table, configuration=described)
    if base is not None and delta.version() != base and not _committed(delta, number):
        raise _refused(table)
    known = {field.name for field in delta.schema().fields}
    fields: list[Field] = Schema.from_arrow(wanted).fields
    if new := [field for field in fields if field.name not in known]:
        delta.alter.add_columns(new)
        delta.update_incremental()
    if delta.metadata().configuration.get(_STATISTICS) != described[_STATISTICS]:
        delta.alter.set_table_properties(described)
        delta.update_incremental()
    return delta
