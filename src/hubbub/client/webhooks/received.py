"""Which requests a receiver has handled already, so that a repeat has no effect."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Protocol

import msgspec

from hubbub.client.local_file import clear_errors, open_file, transaction

_SCHEMA = """CREATE TABLE IF NOT EXISTS hubbub_received (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE
)"""


class Turn(msgspec.Struct, frozen=True):
    """`repeat`: it was handled before. `transaction`: what is done here is kept together with the
    fact that it was done."""

    repeat: bool
    transaction: sqlite3.Connection | None = None


class Received(Protocol):
    """The keys of handled requests. One request is handled at a time: a second one with the same
    key waits, and is a repeat then."""

    def turn(self, key: str) -> AbstractContextManager[Turn]:
        """The key is known afterwards, unless the work raised an error. Nothing is a repeat of
        what has no key."""

    def close(self) -> None: ...


class RecentKeys:
    """The last ones, in memory: a repeat after a restart is not noticed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: OrderedDict[str, None] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def turn(self, key: str) -> Iterator[Turn]:
        with self._lock:
            yield Turn(key in self._keys)
            if key:
                self._keys[key] = None
            if len(self._keys) > self._limit:
                self._keys.popitem(last=False)

    def close(self) -> None:
        """There is nothing to close."""


class KeysFile:
    """The last ones, in a SQLite file, committed with the application's work: exactly once."""

    def __init__(self, file: str | PathLike[str], limit: int) -> None:
        """Raises `FileUnusable`."""
        self._path = Path(file)
        self._limit = limit
        self._lock = Lock()
        with clear_errors(self._path):
            self._connection = open_file(self._path)
            with transaction(self._connection):
                self._connection.execute(_SCHEMA)

    @contextmanager
    def turn(self, key: str) -> Iterator[Turn]:
        connection = self._connection
        with self._lock, clear_errors(self._path), transaction(connection):
            query = "SELECT 1 FROM hubbub_received WHERE key = ?"
            repeat = connection.execute(query, (key,)).fetchone() is not None
            yield Turn(repeat, connection)
            if key and not repeat:
                added = connection.execute("INSERT INTO hubbub_received (key) VALUES (?)", (key,))
                oldest = (added.lastrowid or 0) - self._limit
                connection.execute("DELETE FROM hubbub_received WHERE id <= ?", (oldest,))

    def close(self) -> None:
        self._connection.close()
