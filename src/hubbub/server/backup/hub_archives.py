"""Reads one hub of an archive in slices while the server runs.

The archive is unpacked into the data folder and checked before a row is read. All work happens in a
separate thread: unpacking, checking and reading mostly run in calls that release the interpreter
lock.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from hubbub.domain.errors import ArchiveRefused, StoreUnavailable
from hubbub.ports.archives import RestoredRows
from hubbub.ports.storage.administration import Revocation
from hubbub.ports.storage.restoring import Value
from hubbub.server.backup import archive
from hubbub.server.backup.archive import BackupError, Manifest
from hubbub.server.backup.restore import check_version
from hubbub.server.data_folder import DATABASE, SECRETS
from hubbub.storage.sql.hub_tables import HubTable, hub_tables
from hubbub.storage.sql.restored_rows import RowConversion
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sqlite.connection import migrate
from hubbub.storage.sqlite.copies import require_whole
from hubbub.storage.sqlite.inspection import open_read_only

_FOLDER = ".hub-restore"
_SLICE_ROWS = 500
_SLICE_BYTES = 256 * 1024
_MOST_NAMED = 10
_ROOM_LEFT_BYTES = 256 << 20
"""Disk space that unpacking must leave free."""
_MOST_VALUE_BYTES = 64 << 20
"""The largest row or value that is read into the memory of the server."""
_COMPUTING = re.compile(r"\b(CHECK|VIRTUAL)\b", re.IGNORECASE)

T = TypeVar("T")


class UnpackedArchives:
    """Implements `hubbub.ports.archives.Archives`; one archive is open at a time."""

    def __init__(self, data: Path) -> None:
        self._folder = data / _FOLDER

    async def open(self, path: str, source: str, target: str) -> UnpackedHub:
        thread = ThreadPoolExecutor(1, "hub-restore")
        try:
            work = thread.submit(_unpack, Path(path), self._folder)
            manifest, connection = await asyncio.wrap_future(work)
            hub = UnpackedHub(thread, connection, manifest, self._folder, source, target)
            await hub.require_rows()
        except BaseException:
            thread.submit(_remove, self._folder)
            thread.shutdown(wait=False)
            raise
        return hub

    async def clear(self) -> None:
        await asyncio.to_thread(_remove, self._folder)


def _unpack(path: Path, folder: Path) -> tuple[Manifest, sqlite3.Connection]:
    """Raises `ArchiveRefused` and removes the unpacked files."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArchiveRefused(f"{path} is no file; name the archive of a backup")
        manifest = archive.read_manifest(path)
        check_version(path, manifest)
        _remove(folder)
        folder.mkdir(mode=0o700)
        _require_room(path, manifest, folder)
        archive.unpack(path, folder, lambda _work, _share: None)
        (folder / SECRETS).unlink(missing_ok=True)
        database = folder / DATABASE
        _require_plain_tables(path, database)
        require_whole(database)
        return manifest, _open(database)
    except (BackupError, StoreUnavailable) as error:
        _remove(folder)
        raise ArchiveRefused(str(error)) from error
    except sqlite3.Error as error:
        _remove(folder)
        raise ArchiveRefused(f"the database in {path} cannot be read ({error})") from error
    except (OSError, ValueError) as error:
        _remove(folder)
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArchiveRefused(f"the archive {path} cannot be read: {reason}") from error


def _require_room(path: Path, manifest: Manifest, folder: Path) -> None:
    """Checks the free space, since the store of all hubs is on the same disk."""
    needed = sum(entry.bytes for entry in manifest.files.values())
    free = shutil.disk_usage(folder).free
    if needed > free - _ROOM_LEFT_BYTES:
        raise BackupError(
            f"there is no room to unpack {path}: it needs {needed} bytes and {_ROOM_LEFT_BYTES} for"
            f" the store, and {free} are free in {folder.parent}"
        )


def _require_plain_tables(path: Path, database: Path) -> None:
    """Rejects whatever computes something when it is read or checked, which might never end or
    take all memory: views, foreign triggers and indexes, virtual tables, generated columns and
    constraints."""
    own = {each for migration in load_migrations(SQLITE) for each in migration.statements}
    with closing(open_read_only(database)) as connection:
        for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            if kind == "table" and sql not in own:
                columns = connection.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,))
                plain = not any(hidden for (hidden,) in columns) and not _COMPUTING.search(sql)
            else:
                plain = sql is None or sql in own
            if not plain:
                raise BackupError(f"{path} holds {name!r}, which is no table of Hubbub")


def _open(database: Path) -> sqlite3.Connection:
    """Migrates the schema and reserves new ids. After a crash, the copy is deleted."""
    connection = sqlite3.connect(database, isolation_level=None)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA journal_mode = MEMORY")
    migrate(connection, database, load_migrations(SQLITE))
    for table in hub_tables().values():
        if table.counted:
            connection.execute(
                f"CREATE TABLE {_ids(table.name)} (old INTEGER PRIMARY KEY, new INTEGER NOT NULL)"
            )
    return connection


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _ids(table: str) -> str:
    return f"restored_{table}"


class UnpackedHub:
    """Implements `hubbub.ports.archives.HubArchive`."""

    def __init__(
        self,
        thread: ThreadPoolExecutor,
        connection: sqlite3.Connection,
        manifest: Manifest,
        folder: Path,
        source: str,
        target: str,
    ) -> None:
        self.created = manifest.created
        self.version = manifest.hubbub
        self.with_secrets = manifest.left_out is None
        self._thread = thread
        self._connection = connection
        self._folder = folder
        self._source = source
        self._target = target
        self._conversion = RowConversion(source, target)
        self._slices = self._read()

    async def _run(self, work: Callable[[], T]) -> T:
        """Raises `ArchiveRefused`."""
        try:
            return await asyncio.wrap_future(self._thread.submit(work))
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise ArchiveRefused(f"a row of the archive cannot be read: {error}") from error

    async def require_rows(self) -> None:
        """Raises `ArchiveRefused` if the archive contains no rows of the hub."""
        hubs = await self._run(self._hubs)
        if self._source not in hubs:
            named = ", ".join(map(repr, sorted(hubs)[:_MOST_NAMED]))
            more = f" and {len(hubs) - _MOST_NAMED} more" if len(hubs) > _MOST_NAMED else ""
            raise ArchiveRefused(
                f"the archive holds no hub {self._source!r}; it holds {named or 'none'}{more}"
            )

    def _hubs(self) -> set[str]:
        found: set[str] = set()
        for table in hub_tables().values():
            if table.of_hub:
                rows = self._connection.execute(f"SELECT DISTINCT hub FROM {table.name}")  # noqa: S608
                found.update(str(hub) for (hub,) in rows if not str(hub).startswith("#"))
        return found

    async def count(self) -> Mapping[str, int]:
        return await self._run(self._count)

    def _count(self) -> dict[str, int]:
        counts = {}
        for table in hub_tables().values():
            if table.of_hub:
                rows = f"{table.name} WHERE hub = ?"
            else:
                column, parent = table.owner
                rows = (
                    f"{parent} CROSS JOIN {table.name} ON {table.name}.{column} = {parent}.id"
                    f" WHERE {parent}.hub = ?"
                )
            count = f"SELECT count(*) FROM {rows}"  # noqa: S608
            ((counts[table.name],),) = self._connection.execute(count, (self._source,))
        return counts

    async def next_rows(self) -> RestoredRows | None:
        return await self._run(lambda: next(self._slices, None))

    def _read(self) -> Generator[RestoredRows]:
        for table in hub_tables().values():
            rows: list[Sequence[Value]] = []
            ids: list[int] = []
            size = 0
            for old, *values in self._rows_of(table):
                row = self._conversion.convert(table, values)
                if row is None:
                    continue
                rows.append(row)
                ids += [old] if table.counted else []
                size += sum(len(value) for value in row if isinstance(value, str | bytes))
                if len(rows) >= _SLICE_ROWS or size >= _SLICE_BYTES:
                    yield RestoredRows(table.name, rows, ids)
                    rows, ids, size = [], [], 0
            if rows:
                yield RestoredRows(table.name, rows, ids)

    def _rows_of(self, table: HubTable) -> sqlite3.Cursor:
        """Rows as (old id or NULL, columns); foreign keys are mapped to new ids."""
        old = "id" if table.counted else "NULL"
        if table.of_hub:
            columns = ", ".join(table.columns)
            return self._connection.execute(
                f"SELECT {old}, {columns} FROM {table.name} WHERE hub = ?",  # noqa: S608
                (self._source,),
            )
        owner, parent = table.owner
        joins = f"{_ids(parent)} AS {owner}_ids CROSS JOIN {table.name} AS rows"
        joins += f" ON rows.{owner} = {owner}_ids.old"
        for column, other in table.parents.items():
            if column != owner:
                joins += f" LEFT JOIN {_ids(other)} AS {column}_ids ON {column}_ids.old = {column}"
        columns = ", ".join(
            f"{column}_ids.new" if column in table.parents else f"rows.{column}"
            for column in table.columns
        )
        return self._connection.execute(f"SELECT {old}, {columns} FROM {joins}")  # noqa: S608

    async def map_ids(self, table: str, old: Sequence[int], new: Sequence[int]) -> None:
        pairs = list(zip(old, new, strict=True))
        statement = f"INSERT INTO {_ids(table)} VALUES (?, ?)"  # noqa: S608
        await self._run(lambda: self._connection.executemany(statement, pairs))

    async def revocations(self) -> Sequence[Revocation]:
        return await self._run(self._revocations)

    def _revocations(self) -> list[Revocation]:
        """Tokens of a hub are useless in a hub of another name."""
        if self._source != self._target:
            return []
        columns = Revocation.__struct_fields__
        rows = self._connection.execute(
            f"SELECT {', '.join(columns)} FROM revocations WHERE hub = ?",  # noqa: S608
            (self._source,),
        )
        return [msgspec.convert(dict(zip(columns, row, strict=True)), Revocation) for row in rows]

    async def close(self) -> None:
        await self._run(self._end)
        self._thread.shutdown(wait=False)

    def _end(self) -> None:
        self._slices.close()
        self._connection.close()
        _remove(self._folder)
