"""Opening a SQLite database file: its lock, its schema, and what its failures mean to a user."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.storage.schema import SQLITE, Migration, load_migrations

_CHECKPOINT_PAGES = 4000
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_LOCK_POLL_SECONDS = 0.02


def lock_file(path: Path, patience_seconds: float) -> int:
    """Make this process the only one that works on the database, until it closes the answered
    descriptor or ends. Waits a little, for one that is just about to end."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"cannot write in the folder {path.parent} ({error.strerror}); make it a folder that"
            " the hub's user may write to, or choose another for the data"
        ) from error
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                raise StoreUnavailable(
                    f"another hub process is using {path} (it holds {lock_path.name}); stop it"
                    " first, or give each hub a data folder of its own"
                ) from None
            time.sleep(_LOCK_POLL_SECONDS)


def connect_writer(path: Path, max_bytes: int | None) -> sqlite3.Connection:
    """Open or create the file and bring its schema up to date. Needs the lock."""
    try:
        connection = sqlite3.connect(path, isolation_level=None, cached_statements=256)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES_KEPT}")
        if max_bytes is not None:
            page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max(1, max_bytes // page_bytes)}")
        migrate(connection, path, load_migrations(SQLITE))
    except sqlite3.Error as error:
        raise describe(error, path) from error
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a second, read-only way into a database that a writer has open."""
    try:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=256)
        connection.execute("SELECT count(*) FROM partitions")
    except sqlite3.Error as error:
        raise describe(error, path) from error
    return connection


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Apply the migrations that are still missing, all or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_versions"
            " (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)"
        )
        (current,) = connection.execute(
            "SELECT coalesce(max(version), 0) FROM schema_versions"
        ).fetchone()
        newest = migrations[-1].version
        if current > newest:
            raise StoreUnavailable(
                f"{path} has schema version {current}, written by a newer Hubbub; this one knows"
                f" versions up to {newest}: run the newer Hubbub, or restore a backup from before"
            )
        for migration in migrations[current:]:
            for statement in migration.statements:
                connection.execute(statement)
            connection.execute(
                "INSERT INTO schema_versions VALUES (?, ?)",
                (migration.version, int(time.time() * 1000)),
            )
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


_REMEDIES = {
    sqlite3.SQLITE_FULL: "is full: free disk space, shorten retention or raise the size limit",
    sqlite3.SQLITE_CORRUPT: "is damaged: move it away and restore a backup",
    sqlite3.SQLITE_NOTADB: "is not a Hubbub database: move it away or choose another data folder",
    sqlite3.SQLITE_READONLY: "cannot be written: check its permissions and the file system",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check that the hub's user may read and write it",
    sqlite3.SQLITE_PERM: "cannot be opened: check that the hub's user may read and write it",
    sqlite3.SQLITE_IOERR: "failed to read or write: check the disk and the system's log",
    sqlite3.SQLITE_BUSY: "is in use by another program: stop that program",
    sqlite3.SQLITE_LOCKED: "is in use by another program: stop that program",
}


def describe(error: sqlite3.Error, path: Path) -> StoreUnavailable:
    """The failure with the file and a remedy, in place of the driver's exception."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    remedy = _REMEDIES.get(code, "failed")
    return StoreUnavailable(f"the database {path} {remedy} ({error})")
