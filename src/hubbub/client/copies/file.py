"""The file of a local copy: pending changes, and the last known document of the hub. All functions
except `CopyFile`'s run inside a transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hubbub.client.copies.changes import SavedChange
from hubbub.client.errors import CopyMismatch
from hubbub.client.local_file import FileLock, FileThread
from hubbub.domain.errors import HubbubError

FORMAT = 1
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS hubbub_copy (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        format INTEGER NOT NULL,
        hub TEXT NOT NULL,
        channel TEXT NOT NULL,
        user TEXT,
        producer TEXT NOT NULL DEFAULT '',
        sequence INTEGER NOT NULL DEFAULT 0,
        epoch TEXT,
        version INTEGER,
        document BLOB
    )""",
    """CREATE TABLE IF NOT EXISTS hubbub_copy_changes (
        place INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        change BLOB NOT NULL,
        code TEXT,
        message TEXT
    )""",
)
_decode = msgspec.json.Decoder(SavedChange).decode


class Rejection(msgspec.Struct, frozen=True):
    """A change that had no effect, and the reason; `ops` is its JSON Patch as JSON."""

    id: str
    ops: bytes
    code: str
    message: str


class SavedCopy(msgspec.Struct, frozen=True):
    """The content left by an earlier run. `document` is None if none was known."""

    producer: str = ""
    sequence: int = 0
    epoch: str = ""
    version: int = 0
    document: bytes | None = None
    changes: tuple[SavedChange, ...] = ()
    rejected: tuple[Rejection, ...] = ()


class CopyFile:
    """A file is used by one process at a time."""

    def __init__(self, path: Path, hub: str, channel: str) -> None:
        self._path = path
        self._place = (hub, channel)
        self._lock: FileLock | None = None
        self._thread = FileThread(path)

    async def open(self) -> SavedCopy:
        """Raises `FileInUse`, `FileUnusable` or `CopyMismatch`."""
        self._lock = FileLock(self._path)
        try:
            return await self._thread.open(lambda file: _open(file, *self._place))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._thread.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def save(self, change: SavedChange) -> asyncio.Future[None]:
        """The future completes when the change is on disk."""
        return self._thread.write(lambda file: _save(file, change))

    def forget(self, change_id: str, producer: str, sequence: int) -> asyncio.Future[None]:
        return self._thread.write(lambda file: _forget(file, change_id, producer, sequence))

    def reject(self, change_id: str, error: HubbubError) -> asyncio.Future[None]:
        """Keeps the change for the application, which has not seen the rejection yet."""
        return self._thread.write(lambda file: _reject(file, change_id, error))

    def forget_rejected(self) -> asyncio.Future[None]:
        return self._thread.write(_forget_rejected)

    def save_document(
        self, epoch: str, version: int, document: bytes, changes: Iterable[SavedChange]
    ) -> asyncio.Future[None]:
        """Saves the hub's document, and the pending changes rebased on it."""
        standing = tuple(changes)
        return self._thread.write(
            lambda file: _save_document(file, epoch, version, document, standing)
        )

    def used_by(self, user: str) -> asyncio.Future[None]:
        """Records the user who owns the changes, the first time. Raises `CopyMismatch`."""
        return self._thread.write(lambda file: _used_by(file, user))


def _open(file: sqlite3.Connection, hub: str, channel: str) -> SavedCopy:
    for statement in _SCHEMA:
        file.execute(statement)
    file.execute(
        "INSERT INTO hubbub_copy (one, format, hub, channel) VALUES (1, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (FORMAT, hub, channel),
    )
    found = file.execute("SELECT format, hub, channel FROM hubbub_copy").fetchone()
    if found[0] != FORMAT:
        raise CopyMismatch(
            f"the copy has format {found[0]}, this version knows {FORMAT}; use a newer version"
        )
    if found[1:] != (hub, channel):
        raise CopyMismatch(
            f"the file holds a copy of {found[2]!r} of hub {found[1]!r}, not of {channel!r} of hub "
            f"{hub!r}; use a file for each document"
        )
    return _read(file)


def _read(file: sqlite3.Connection) -> SavedCopy:
    producer, sequence, epoch, version, document = file.execute(
        "SELECT producer, sequence, epoch, version, document FROM hubbub_copy"
    ).fetchone()
    rows = file.execute(
        "SELECT change, code, message FROM hubbub_copy_changes ORDER BY place"
    ).fetchall()
    read = [(_decode(change), code, message) for change, code, message in rows]
    return SavedCopy(
        producer,
        sequence,
        epoch or "",
        version or 0,
        document,
        tuple(change for change, code, _ in read if code is None),
        tuple(
            Rejection(change.id, bytes(change.ops), code, message)
            for change, code, message in read
            if code is not None
        ),
    )


def _save(file: sqlite3.Connection, change: SavedChange) -> None:
    file.execute(
        "INSERT INTO hubbub_copy_changes (id, change) VALUES (?, ?)"
        " ON CONFLICT (id) DO UPDATE SET change = excluded.change",
        (change.id, msgspec.json.encode(change)),
    )


def _forget(file: sqlite3.Connection, change_id: str, producer: str, sequence: int) -> None:
    file.execute("DELETE FROM hubbub_copy_changes WHERE id = ? AND code IS NULL", (change_id,))
    file.execute("UPDATE hubbub_copy SET producer = ?, sequence = ?", (producer, sequence))


def _reject(file: sqlite3.Connection, change_id: str, error: HubbubError) -> None:
    file.execute(
        "UPDATE hubbub_copy_changes SET code = ?, message = ? WHERE id = ?",
        (error.code, error.message, change_id),
    )


def _forget_rejected(file: sqlite3.Connection) -> None:
    file.execute("DELETE FROM hubbub_copy_changes WHERE code IS NOT NULL")


def _save_document(
    file: sqlite3.Connection,
    epoch: str,
    version: int,
    document: bytes,
    changes: tuple[SavedChange, ...],
) -> None:
    file.execute(
        "UPDATE hubbub_copy SET epoch = ?, version = ?, document = ?", (epoch, version, document)
    )
    file.executemany(
        "UPDATE hubbub_copy_changes SET change = ? WHERE id = ?",
        [(msgspec.json.encode(change), change.id) for change in changes],
    )


def _used_by(file: sqlite3.Connection, user: str) -> None:
    file.execute("UPDATE hubbub_copy SET user = ? WHERE user IS NULL", (user,))
    ((known,),) = file.execute("SELECT user FROM hubbub_copy").fetchall()
    if known != user:
        raise CopyMismatch(
            f"the copy is that of {known or 'an anonymous client'!r}, not of "
            f"{user or 'an anonymous client'!r}; use a file for each user"
        )
