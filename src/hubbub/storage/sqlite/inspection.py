"""The checks of a database file before a hub opens it: present, undamaged, of Hubbub, and not of a
newer version."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable
from hubbub.storage.sql.schema import SQLITE, load_migrations, refuse_newer
from hubbub.storage.sqlite.errors import describe


def require_present(path: Path, used_before: bool) -> None:
    """Refuse to begin with an empty store where there was one."""
    if path.exists() and path.stat().st_size:
        return
    log = path.with_name(f"{path.name}-wal")
    state = "is empty" if path.exists() else "is missing"
    if log.exists() and log.stat().st_size:
        raise StoreUnavailable(
            f"{path} {state} but {log.name} holds changes to it: put the file back or restore a"
            f" backup; to begin with an empty store, move {log.name} away"
        )
    if used_before:
        raise StoreUnavailable(
            f"{path} {state}, though this folder held a store: put the file back or restore a"
            f" backup; to begin with an empty store, remove {path.name}.lock"
        )


def inspect(path: Path, check_seconds: float) -> tuple[int, bool]:
    """The schema version of the database (0: it is empty) and whether there was time to look at
    all of it. Changes nothing. Raises `StoreUnavailable` for what cannot be trusted."""
    if not path.exists():
        return 0, True
    try:
        with closing(open_read_only(path)) as connection:
            version = read_version(connection, path)
            return version, check(connection, path, check_seconds)
    except sqlite3.Error as error:
        raise describe(error, path) from error


def hubs_in(path: Path) -> set[str] | None:
    """The hubs that somebody declared or changed; None where nobody can tell."""
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
    """Raises `StoreUnavailable` for a foreign database and for one of a newer Hubbub."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if "schema_versions" not in tables:
        if tables:
            raise StoreUnavailable(
                f"{path} is a database of another program: choose another data folder"
            )
        return 0
    (version,) = connection.execute("SELECT max(version) FROM schema_versions").fetchone()
    refuse_newer(path, version or 0, load_migrations(SQLITE)[-1].version)
    return version or 0


def check(connection: sqlite3.Connection, path: Path, seconds: float) -> bool:
    """Look for damage; False if the time ran out before all of it was seen."""
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
    """Every page and every index, however long it takes."""
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    _require_ok(found, path)


def _require_ok(found: str, path: Path) -> None:
    if found != "ok":
        reason = " ".join(found.replace("*** in database main ***", "").split())
        raise StoreUnavailable(
            f"the database {path} is damaged: move it away and restore a backup ({reason})"
        )
