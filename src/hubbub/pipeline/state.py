"""What is committed: one file that names every segment taken in and every file of every table.

Replacing that file is the commit. Whatever it does not name is not there.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from hubbub.pipeline.errors import WarehouseUnreadable

LAYOUT: Final = 3
"""Raised when tables made by older code have to be made again."""

Partition = str
"""An hour, a day, or the empty word for a table that has no partitions."""


class SegmentState(msgspec.Struct, omit_defaults=True):
    """A segment that was dealt with, one way or another."""

    seen_at: int
    """When it was first looked at, in microseconds since 1970. A rebuild measures by the same
    time what comes from the future, so that it decides the same."""
    size: int
    modified: int
    """In nanoseconds. A refused file that changed is looked at again."""
    rows: int = 0
    hours: list[str] = []
    fingerprint: str = ""
    refused: str = ""
    """Why the whole segment was refused; empty if it was taken."""
    duplicate_of: str = ""
    unfit: dict[str, int] = {}
    """Records that were refused, by reason."""


class State(msgspec.Struct, omit_defaults=True):
    layout: int = LAYOUT
    round: int = 0
    committed_at: int = 0
    watermark: int = 0
    """The latest time of any event taken in. What comes for an hour before its hour is late."""
    segments: dict[str, SegmentState] = {}
    tables: dict[str, dict[Partition, list[str]]] = {}
    """The files of each table by partition, as names in the partition's folder."""
    pending: dict[str, list[Partition]] = {}
    """Partitions of silver tables that changed since the gold tables were computed."""
    rebuilding: bool = False
    """The silver tables were made again from nothing, and the gold tables have to be."""

    def quarantined(self) -> dict[str, int]:
        """Records refused so far, by reason. A segment refused as a whole counts as one."""
        counts: Counter[str] = Counter()
        for segment in self.segments.values():
            counts.update(segment.unfit)
            if segment.refused:
                counts[segment.refused] += 1
        return dict(counts)


def load(path: Path) -> State:
    """Raises `WarehouseUnreadable`."""
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return State()
    except msgspec.MsgspecError as error:
        raise WarehouseUnreadable(
            f"{path} is damaged ({error}); remove it and run `hubbub pipeline run --full`"
        ) from error
    if state.layout > LAYOUT:
        raise WarehouseUnreadable(
            f"{path} was written by a newer Hubbub (layout {state.layout}, this one knows"
            f" {LAYOUT}); use that one, or another --warehouse"
        )
    return state


def store(path: Path, state: State) -> None:
    """The commit: all or nothing, and on disk when it returns."""
    draft = path.with_name(f".{path.name}.new")
    descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(msgspec.json.encode(state))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
