"""Failures of a SQLite database as errors of the store, with remedies for operators."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hubbub.domain.errors import StoreUnavailable

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
