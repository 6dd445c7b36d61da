"""Checks of a database file before a hub opens it: it exists, is undamaged, belongs to Hubbub, and
is not of a newer version."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.storage.sql.schema import SQLITE, load_migrations, refuse_newer
from hubbub.storage.sqlite.errors import describe


def require_present(path: Path, used_before: bool) -> None:
    """Refuses to start with an empty store if the file existed before."""
    if path.exists() and path.stat().st_size:
        return
    log = path.with_name(f"{path.name}-wal")
    state = "is empty" if path.exists() else "is missing"
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable.because(
            f"{path} {state} but {log.name} holds changes to it: put the file back or restore a"
            f" backup; to begin with an empty store, move {log.name} away"
        )
    if used_before:
        raise StoreUnavailable.because(
            f"{path} {state}, though this folder held a store: put the file back or restore a"
            f" backup; to begin with an empty store, remove {path.name}.lock"
        )


def inspect(path: Path, check_seconds: float) -> tuple[int, bool]:
    """Returns the schema version of the database (0: empty) and whether the time sufficed to check
    all of it. Read-only. Raises `StoreUnavailable` if the file cannot be trusted."""
    if not path.exists():
        return 0, True
    try:
        with closing(open_read_only(path)) as connection:
            version = read_version(connection, path)
            return version, check(connection, path, check_seconds)
    except sqlite3.Error as error:
        raise describe(error, path) from error


def hubs_in(path: Path) -> set[str] | None:
    """The hubs that were declared or changed; None if that cannot be determined."""
    if not path.exists():
        return None
    try:
        with closing(open_read_only(path)) as connection:
            rows = connection.execute("SELECT DISTINCT hub FROM settings").fetchall()
    except sqlite3.Error:
        return None
    return {hub for (hub,) in rows}


def open_read_only(path: Path) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, cached_statements=256)


def read_version(connection: sqlite3.Connection, path: Path) -> int:
    """Raises `StoreUnavailable` for a foreign database and for one of a newer version of Hubbub."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "schema_versions" not in tables:
        if tables:
            raise StoreUnavailable.because(
                f"{path} is a database of another program: choose another data folder"
            )
        return 0
    (version,) = connection.execute("SELECT max(version) FROM schema_versions").fetchone()
    refuse_newer(path, version or 0, load_migrations(SQLITE)[-1].version)
    return version or 0


def check(connection: sqlite3.Connection, path: Path, seconds: float) -> bool:
    """Checks for damage; returns False if the time ran out before the end."""
    if not seconds:
        return False
    alarm = threading.Timer(seconds, connection.interrupt)
    alarm.start()
    try:
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return False
        raise
    finally:
        alarm.cancel()
        alarm.join()
    _require_ok(found, path)
    return True


def check_thoroughly(connection: sqlite3.Connection, path: Path) -> None:
    """Checks every page and index, without a time limit."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    _require_ok(found, path)


def _require_ok(found: str, path: Path) -> None:
    if found != "ok":
        reason = " ".join(found.replace("*** in database main ***", "").split())
        raise StoreUnavailable.because(
            f"the database {path} is damaged: move it away and restore a backup ({reason})"
        )
