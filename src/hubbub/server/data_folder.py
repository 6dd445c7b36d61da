"""The data folder: its content, and its atomic changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hubbub.files import locked
from hubbub.server.secrets import FILE_NAME as SECRETS
from hubbub.storage.sqlite.connection import lock_file

__all__ = [
    "DATABASE",
    "JOURNAL",
    "SECRETS",
    "exclusive",
    "hand_over",
    "occupied",
    "stamp",
    "taken",
]

DATABASE = "hubbub.db"
JOURNAL = "journal"
_NOT_DATA = frozenset((f"{DATABASE}.lock", "lost+found", JOURNAL, "warehouse"))
"""Entries that a restore ignores and keeps."""


def stamp() -> str:
    """The time, in a sortable form for file names."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")


def occupied(data: Path) -> bool:
    """Whether the folder contains data. Hidden files are the server's own drafts."""
    return any(
        entry.name not in _NOT_DATA and not entry.name.startswith(".") for entry in data.iterdir()
    )


@contextmanager
def taken(data: Path) -> Iterator[None]:
    """Excludes every hub from the folder. Raises `StoreUnavailable` if one is using it."""
    lock = lock_file(data / DATABASE, patience_seconds=0)
    try:
        hand_over(data, data / f"{DATABASE}.lock")
        yield
    finally:
        os.close(lock)


def hand_over(data: Path, *paths: Path) -> None:
    """Changes the owner of files created by root to the folder's owner, under whom the hub runs."""
    if os.geteuid() == 0:
        owner = data.stat()
        for path in paths:
            os.chown(path, owner.st_uid, owner.st_gid)


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Creates a folder for this process alone. Raises `BlockingIOError` if another process uses it;
    the folder of a dead process is taken over."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with locked(folder, wait=False):
        yield
