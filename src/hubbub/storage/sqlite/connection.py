"""Opens a SQLite database file: its lock and its schema."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.storage.sql.schema import SQLITE, Migration, load_migrations, refuse_newer
from hubbub.storage.sqlite.copies import copy_before_upgrade
from hubbub.storage.sqlite.errors import describe
from hubbub.storage.sqlite.inspection import inspect, open_read_only, require_present

_CHECKPOINT_PAGES = 4000
_WAL_BYTES_KEPT = 64 * 1024 * 1024
_LOCK_POLL_SECONDS = 0.02
_MARK = b"This folder holds a Hubbub store.\n"


def lock_file(path: Path, patience_seconds: float) -> int:
    """Takes the exclusive lock of the database, held until the returned descriptor is closed or the
    process ends. Waits a little for a process that is about to end."""
    lock_path = path.with_name(path.name + ".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable.because(
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
                raise StoreUnavailable.because(
                    f"another hub process is using {path} (it holds {lock_path.name}); stop it"
                    " first, or give each hub a data folder of its own"
                ) from None
            time.sleep(_LOCK_POLL_SECONDS)


def connect_writer(path: Path, max_bytes: int | None) -> sqlite3.Connection:
    """Opens or creates the file and migrates its schema. Needs the lock."""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
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


def connect_trusted_writer(
    path: Path, max_bytes: int | None, lock: int, check_seconds: float
) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    """Like `connect_writer`, but first checks the file for damage, and copies it before an upgrade.
    Also returns notes for the operator."""
    require_present(path, used_before=os.fstat(lock).st_size > 0)
    version, complete = inspect(path, check_seconds)
    notes = []
    if not complete:
        notes.append(
            f"{path} is too large to be checked for damage within {check_seconds:g} seconds;"
            " every backup checks all of it"
        )
    newest = load_migrations(SQLITE)[-1].version
    kept = None
    if 0 < version < newest:
        kept = copy_before_upgrade(path, version, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
    try:
        connection = connect_writer(path, max_bytes)
    except BaseException:
        if kept is not None:
            kept.unlink()  # nothing was changed
        raise
    if kept is not None:
        notes.append(
            f"upgraded {path} from schema version {version} to {newest}; as it was before, it is"
            f" kept in {kept}"
        )
    os.pwrite(lock, _MARK, 0)
    return connection, tuple(notes)


def connect_reader(path: Path) -> sqlite3.Connection:
    """Opens a second, read-only connection to a database that a writer has open."""
    try:
        connection = open_read_only(path)
        connection.execute("SELECT count(*) FROM partitions")
    except sqlite3.Error as error:
        raise describe(error, path) from error
    return connection


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration]) -> None:
    """Applies the missing migrations, all or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_versions"
            " (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)"
        )
        (current,) = connection.execute(
            "SELECT coalesce(max(version), 0) FROM schema_versions"
        ).fetchone()
        refuse_newer(path, current, migrations[-1].version)
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
