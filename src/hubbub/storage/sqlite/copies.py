"""Consistent copies of a SQLite store that is in use."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.files import sync
from hubbub.storage.sql.epochs import NextEpochs
from hubbub.storage.sqlite.errors import describe
from hubbub.storage.sqlite.inspection import check_thoroughly, open_read_only, read_version

Progress = Callable[[float], None]
"""Receives the completed share, from 0 to 1."""

_STEP_PAGES = 1000
_WITH_EPOCH = {"channels": "name", "documents": "channel", "notification_channels": "name"}
"""Tables with an epoch, and the column with the channel's name."""
_OF_THE_COPY = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
)


def copy_database(source: Path, target: Path, progress: Progress | None = None) -> None:
    """Copies the database to `target`, a new file that only its owner may read.

    The source is read in one transaction, in steps: its writer is not blocked, and later commits
    are not in the copy. When this returns, the copy is synced and consists of one file without a
    log. Raises `StoreUnavailable` and removes the copy.
    """
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise StoreUnavailable.because(
            f"cannot write the copy {target} ({error.strerror})"
        ) from error
    try:
        with closing(open_read_only(source)) as original:
            original.execute("BEGIN")
            read_version(original, source)
            _copy(original, target, progress)
    except BaseException as error:
        for leftover in (target, target.with_name(f"{target.name}-journal")):
            leftover.unlink(missing_ok=True)
        if isinstance(error, sqlite3.Error):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            raise describe(error, target if code in _OF_THE_COPY else source) from error
        raise


def _copy(original: sqlite3.Connection, target: Path, progress: Progress | None) -> None:
    def report(_status: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(1 - remaining / total if total else 1.0)

    with closing(sqlite3.connect(target, isolation_level=None)) as copy:
        copy.execute("PRAGMA synchronous = OFF")
        original.backup(copy, pages=_STEP_PAGES, progress=report, sleep=0)
        copy.execute("PRAGMA journal_mode = DELETE")
    sync(target)


def require_whole(path: Path) -> int:
    """Checks every page and index of an unused database; returns its schema version. Raises
    `StoreUnavailable`."""
    try:
        with closing(open_read_only(path)) as connection:
            version = read_version(connection, path)
            check_thoroughly(connection, path)
            return version
    except sqlite3.Error as error:
        raise describe(error, path) from error


def begin_anew(path: Path) -> None:
    """Prepares a restored copy for use.

    Clients may have seen messages that the copy lacks: new epochs invalidate their serials. Durable
    subscriptions keep their positions. Session keys are deleted, since they may have been used
    since.
    """
    epochs = NextEpochs()
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.create_function("next_epoch", 3, epochs.epoch)
            connection.create_function("next_cursor", 3, epochs.cursor)
            connection.execute("BEGIN IMMEDIATE")
            for table, channel in _WITH_EPOCH.items():
                if _has_table(connection, table):
                    new = f"next_epoch(hub, {channel}, epoch)"
                    connection.execute(f"UPDATE {table} SET epoch = {new}")  # noqa: S608
            if _has_table(connection, "cursors"):
                connection.execute("UPDATE cursors SET state = next_cursor(hub, channel, state)")
            connection.execute("DELETE FROM sessions")
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise describe(error, path) from error


class LeftOut(msgspec.Struct, frozen=True):
    """Counts of secrets omitted from a copy."""

    webhooks: int = 0
    """Webhooks that sign or encrypt: without their secrets they would send in plain text."""
    headers: int = 0
    """Routes to services and auth providers whose headers were removed."""


def leave_out_secrets(path: Path) -> LeftOut:
    """Removes every secret from an unused copy, so that no page contains one, not even a free page:
    secrets of webhooks, headers of routes and auth providers, and snapshots of sessions, which a
    restored hub could not use. Raises `StoreUnavailable`."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")
            left_out = LeftOut(_drop_webhooks(connection), _drop_headers(connection))
            connection.execute("DELETE FROM sessions")
            connection.execute("COMMIT")
            connection.execute("VACUUM")
    except sqlite3.Error as error:
        raise describe(error, path) from error
    sync(path)
    return left_out


def _drop_webhooks(connection: sqlite3.Connection) -> int:
    """Deletes all webhooks with their cursors. Pending confirmations of subscribers are requested
    again."""
    if not _has_table(connection, "webhooks"):
        return 0
    dropped = connection.execute(
        "DELETE FROM webhooks"
        " WHERE secret IS NOT NULL OR encryption_key IS NOT NULL OR state = 'pending'"
    ).rowcount
    connection.execute(
        "DELETE FROM cursors"
        " WHERE owner = 'webhook' AND (hub, name) NOT IN (SELECT hub, id FROM webhooks)"
    )
    connection.execute("UPDATE webhooks SET pending = NULL")
    return dropped


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    """False for a table that an older schema lacks."""
    which = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(which, (table,)).fetchone() is not None


def _drop_headers(connection: sqlite3.Connection) -> int:
    return connection.execute(
        "UPDATE settings SET value = CAST(json_remove(CAST(value AS TEXT), '$.headers') AS BLOB)"
        " WHERE json_type(CAST(value AS TEXT), '$.headers') = 'object'"
    ).rowcount


def copy_before_upgrade(path: Path, version: int, stamp: str) -> Path:
    """Copies the database before its schema changes. Returns the path of the copy."""
    folder = path.parent / "before-upgrade"
    target = folder / f"{path.stem}-version-{version}-{stamp}{path.suffix}"
    draft = folder / f".{target.name}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        copy_database(path, draft)
        draft.rename(target)
    except (OSError, StoreUnavailable) as error:
        reason = str(error) if isinstance(error, StoreUnavailable) else error.strerror
        raise StoreUnavailable.because(
            f"{path} has to be upgraded from schema version {version}, but no copy of it can be"
            f" kept first: {reason}"
        ) from error
    return target
