"""Compaction: merges many small sealed segments into few, with the same events in the same
order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from hubbub.journal.folder import JournalFolder
from hubbub.journal.sealed import SegmentUnreadable, batches, newest, write_batches
from hubbub.journal.upkeep import (
    GRACE_SECONDS,
    alone,
    draft_name,
    remove_replaced,
    replace,
)

SMALL_BYTES: Final = 32 * 1024 * 1024
TARGET_BYTES: Final = 128 * 1024 * 1024
_DAY: Final = 86_400_000_000


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """`before` small segments were merged into `after`; `removed` old files were deleted."""

    before: int
    after: int
    events: int
    removed: int
    skipped: tuple[str, ...]
    """Unreadable segments, each with the reason."""


def compact(
    journal: Path,
    *,
    small_bytes: int = SMALL_BYTES,
    target_bytes: int = TARGET_BYTES,
    grace_seconds: float = GRACE_SECONDS,
    dry_run: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Compacted:
    """Merges the small segments of each day. Old files are kept for `grace_seconds`, for current
    readers; a later run deletes them. Raises `UpkeepBusy` and `OSError`."""
    folder = JournalFolder(journal)
    before = after = events = 0
    with alone(journal):
        groups, skipped = _groups(folder, small_bytes, target_bytes)
        for number, group in enumerate(groups):
            progress(number / len(groups))
            before, after = before + len(group), after + 1
            if not dry_run:
                events += _merge(folder, group)
        removed = [] if dry_run else remove_replaced(folder, grace_seconds)
    progress(1.0)
    return Compacted(
        before=before, after=after, events=events, removed=len(removed), skipped=tuple(skipped)
    )


def _groups(
    folder: JournalFolder, small_bytes: int, target_bytes: int
) -> tuple[list[list[Path]], list[str]]:
    """Groups of small segments to merge. A group never spans two days, since retention deletes
    whole segments."""
    days: dict[int, list[tuple[int, Path]]] = {}
    skipped = []
    for path in folder.sealed_segments():
        if path.stat().st_size >= small_bytes:
            continue
        try:
            latest = newest(path) or 0
        except SegmentUnreadable as error:
            skipped.append(error.message)
            continue
        days.setdefault(latest // _DAY, []).append((latest, path))
    groups = []
    for _, found in sorted(days.items()):
        group: list[Path] = []
        size = 0
        for _, path in sorted(found):
            if group and size + path.stat().st_size > target_bytes:
                groups.append(group)
                group, size = [], 0
            group.append(path)
            size += path.stat().st_size
        groups.append(group)
    return [group for group in groups if len(group) > 1], skipped


def _merge(folder: JournalFolder, group: list[Path]) -> int:
    name = draft_name()
    target = folder.sealed / name
    try:
        events = write_batches(target, _all_batches(group))
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    replace(folder, "compaction", [path.name for path in group], [name])
    return events


def _all_batches(group: list[Path]) -> Iterator[pa.RecordBatch]:
    for path in group:
        yield from batches(path)
