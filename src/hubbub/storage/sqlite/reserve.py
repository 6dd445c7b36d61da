"""Reserved disk space, so that a hub on a full disk can start and delete data."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from hubbub.domain.errors import STORE_FULL, StoreUnavailable
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.transactions import Result, StoreCall, TransactionalSql, Transactions
from hubbub.storage.sql.writes import Writes

_SHARE_OF_DISK = 16
_LEAST_BYTES = 512 * 1024
_HARDLY_ANY_BYTES = 64 * 1024
_LOG_WORTH_A_TRUNCATION = 64 * 1024

_MAKING_ROOM = ("anonymise_", "delete_", "discard_", "erase_", "expire_", "forget_")
"""Name prefixes of methods that free space."""
_SMALL = frozenset(
    (
        "acquire_partitions",
        "count_beat",
        "hold_sessions",
        "pass_lane",
        "rename_producers",
        "take_user_off_record",
        "unmark_restore",
    )
)
_ADMINISTRATION = frozenset(("append_audit", "put_settings", "save_revocation", "switch_hub"))
"""Administrative methods; they leave half of the reserve to deletions."""


class Reserve:
    """A file of `most_bytes` beside the database, smaller on a small disk. It is emptied when the
    disk is full. From then on only deletions and administration may write, until there is room for
    the file again.

    An empty file tells the next process that the disk was full. Without a file (a tiny disk,
    `most_bytes` of 0, an unwritable disk) nothing is reserved.
    """

    def __init__(self, database: Path, most_bytes: int) -> None:
        self._path = database.with_name(f"{database.name}.reserve")
        self._log = database.with_name(f"{database.name}-wal")
        self._most_bytes = most_bytes
        self.released = False

    def open(self) -> None:
        """Reserves the space. On an almost full disk, releases the existing reserve."""
        with contextlib.suppress(OSError):
            if not self._most_bytes:
                self._path.unlink(missing_ok=True)
                return
            held = self._path.stat().st_size if self._path.exists() else None
            self.released = held == 0
            if held and self._free() < _LEAST_BYTES:
                self.release()
            elif not self.released:
                # A disk that is nearly full already is not filled up by the reserve.
                self._take(min(self._wanted(), (self._free() + (held or 0)) // 4), held or 0)

    def release(self) -> None:
        """Releases the space for deletions."""
        self.released = True
        with contextlib.suppress(OSError), self._path.open("wb"):
            pass  # emptied

    def is_needed(self, error: Exception | None) -> bool:
        """Whether a batch failed because the disk is full. A database that reached its configured
        size gains nothing from the reserve. If there is no room for the log's index, SQLite reports
        an I/O error."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if not self._most_bytes or code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return False
        with contextlib.suppress(OSError):
            full = code == sqlite3.SQLITE_FULL
            return self._free() < (self._wanted() // 2 if full else _HARDLY_ANY_BYTES)
        return False

    def take_again(self, connection: sqlite3.Connection) -> None:
        """Reserves the space again if enough is free for other writes, too. Free pages inside the
        database count, since they are reused first."""
        with contextlib.suppress(OSError, sqlite3.Error):  # there is no room yet
            self._truncate_log(connection)
            (pages,) = connection.execute("PRAGMA freelist_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            free, wanted = self._free(), self._wanted()
            margin = wanted // 4
            if free >= wanted - margin and free + pages * page_bytes >= wanted + margin:
                self.released = not self._take(min(wanted, free - margin))

    def bound_log(self, connection: sqlite3.Connection) -> None:
        """Checkpoints the log before it outgrows the reserve."""
        if self._most_bytes:
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
            (pages,) = connection.execute("PRAGMA wal_autocheckpoint").fetchone()
            most = max(1, self._wanted() // 2 // page_bytes)
            connection.execute(f"PRAGMA wal_autocheckpoint = {min(pages, most)}")

    def admits(self, method: str) -> bool:
        """Whether a method may write while the reserve is released."""
        if method in _ADMINISTRATION:
            return self._free() > self._wanted() // 2
        return method in _SMALL or method.startswith(_MAKING_ROOM)

    def _truncate_log(self, connection: sqlite3.Connection) -> None:
        if self._log.exists() and self._log.stat().st_size > _LOG_WORTH_A_TRUNCATION:
            (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
            connection.execute("PRAGMA busy_timeout = 0")  # a reader may still need the log
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                connection.execute(f"PRAGMA busy_timeout = {patience}")

    def _take(self, size: int, held: int = 0) -> bool:
        if size < min(_LEAST_BYTES, self._most_bytes) // 4:
            return False
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if size < held:
                os.ftruncate(descriptor, max(size, min(held, self._wanted())))
            elif size > held:
                os.posix_fallocate(descriptor, 0, size)
        except OSError:
            os.ftruncate(descriptor, held)
            return False
        finally:
            os.close(descriptor)
        return True

    def _wanted(self) -> int:
        disk = os.statvfs(self._path.parent)
        share = disk.f_blocks * disk.f_frsize // _SHARE_OF_DISK
        return min(self._most_bytes, max(_LEAST_BYTES, share))

    def _free(self) -> int:
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize


class SparingTransactions(Transactions):
    """Refuses operations that would store more. Operations that change nothing, such as a repeated
    put, succeed."""

    def __init__(
        self,
        connection: TransactionalSql,
        target: Writes | Reads,
        sqlite: sqlite3.Connection,
        reserve: Reserve,
    ) -> None:
        super().__init__(connection, target)
        self._sqlite = sqlite
        self._reserve = reserve

    async def _run_one(self, call: StoreCall) -> Result:
        if self._reserve.admits(call.method):
            return await super()._run_one(call)
        changes = self._sqlite.total_changes
        await self._connection.execute("SAVEPOINT spared")
        result = await super()._run_one(call)
        if self._sqlite.total_changes != changes:
            await self._connection.execute("ROLLBACK TO spared")
            result = StoreUnavailable(
                STORE_FULL,
                "the disk of the database is full: free disk space, or shorten retention; what"
                " deletes and administers works with what was kept in reserve",
            )
        await self._connection.execute("RELEASE spared")
        return result
