"""Keys of handled requests, so that repeats have no effect."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from os import PathLike
from pathlib import Path
from threading import Lock

import msgspec

from hubbub.client.local_file import clear_errors, open_file, transaction

_SCHEMA = """CREATE TABLE IF NOT EXISTS hubbub_received (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE
)"""
_IN_MEMORY = ":memory:"


class Turn(msgspec.Struct, frozen=True):
    """`repeat`: the request was handled before. `transaction`: commits the application's work
    together with the request's key."""

    repeat: bool
    transaction: sqlite3.Connection | None = None


class ReceivedKeys:
    """The last keys, at most `limit`. With a `file`, the keys are in that SQLite database and
    committed with the application's work: exactly once. Without, a repeat after a restart is not
    recognized."""

    def __init__(self, file: str | PathLike[str] | None, limit: int) -> None:
        """Raises `FileUnusable`."""
        self._path = Path(_IN_MEMORY if file is None else file)
        self._shares_transaction = file is not None
        self._limit = limit
        self._lock = Lock()
        with clear_errors(self._path):
            self._connection = open_file(self._path)
            with transaction(self._connection):
                self._connection.execute(_SCHEMA)

    @contextmanager
    def turn(self, key: str) -> Iterator[Turn]:
        """Handles one request at a time: a second one with the same key waits, and is then a
        repeat. The key is recorded afterwards, unless the work raised an error; an empty key is
        never recorded."""
        connection = self._connection
        errors = clear_errors(self._path) if self._shares_transaction else nullcontext()
        with self._lock, errors, transaction(connection):
            query = "SELECT 1 FROM hubbub_received WHERE key = ?"
            repeat = connection.execute(query, (key,)).fetchone() is not None
            yield Turn(repeat, connection if self._shares_transaction else None)
            if key and not repeat:
                added = connection.execute("INSERT INTO hubbub_received (key) VALUES (?)", (key,))
                oldest = (added.lastrowid or 0) - self._limit
                connection.execute("DELETE FROM hubbub_received WHERE id <= ?", (oldest,))

    def close(self) -> None:
        self._connection.close()
