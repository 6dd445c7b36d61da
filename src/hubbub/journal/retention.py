"""Retention: deletes sealed segments whose newest event is too old."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from hubbub.files import sync
from hubbub.journal.folder import JournalFolder
from hubbub.journal.sealed import SegmentUnreadable, newest
from hubbub.journal.upkeep import GRACE_SECONDS, alone, remove_replaced


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    segments: tuple[str, ...]
    bytes: int
    kept: int
    skipped: tuple[str, ...]
    """Unreadable segments, each with the reason. They are kept."""


def prune(
    journal: Path, older_than_seconds: float, *, dry_run: bool = False, now: float | None = None
) -> Pruned:
    """Deletes segments whose events are all older. Tables computed from them stay. Raises
    `UpkeepBusy` and `OSError`."""
    folder = JournalFolder(journal)
    limit = int(((time.time() if now is None else now) - older_than_seconds) * 1e6)
    old: list[Path] = []
    skipped: list[str] = []
    size = 0
    with alone(journal):
        found = folder.sealed_segments()
        for path in found:
            try:
                latest = newest(path)
            except SegmentUnreadable as error:
                skipped.append(error.message)
                continue
            if latest is not None and latest < limit:
                old.append(path)
                size += path.stat().st_size
        if not dry_run:
            remove_replaced(folder, GRACE_SECONDS)
            for path in old:
                path.unlink(missing_ok=True)
            if old:
                sync(folder.sealed)
    return Pruned(
        segments=tuple(path.name for path in old),
        bytes=size,
        kept=len(found) - len(old),
        skipped=tuple(skipped),
    )
