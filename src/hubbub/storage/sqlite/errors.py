"""Maps failures of a SQLite database to errors of the store, with remedies for operators."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hubbub.domain.errors import STORE_AWAY, STORE_FULL, StoreUnavailable

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
    """Names the failure, the file and a remedy, in place of the driver's exception."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    remedy = _REMEDIES.get(code, "failed")
    told = STORE_FULL if code == sqlite3.SQLITE_FULL else STORE_AWAY
    return StoreUnavailable(told, f"the database {path} {remedy} ({error})")
