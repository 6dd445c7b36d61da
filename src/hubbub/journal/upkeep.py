"""Common parts of journal maintenance: mutual exclusion, and replacement of segments."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from hubbub.domain.errors import Conflict
from hubbub.domain.replacements import REWRITTEN, Reason, Replacement, is_rewritten
from hubbub.files import locked, sync, write_private
from hubbub.journal.folder import SEALED, JournalFolder, new_name
from hubbub.journal.foreign_times import parse_time

LOCK: Final = ".upkeep.lock"
GRACE_SECONDS: Final = 3600.0
"""How long the files of replaced segments are kept for current readers."""


class UpkeepBusy(Conflict):
    """Another import, compaction, pruning or erasure is running in the same journal."""

    code = "upkeep_busy"
    retry = True


@contextlib.contextmanager
def alone(journal: Path) -> Iterator[None]:
    """Excludes other maintenance of the journal. Raises `UpkeepBusy`."""
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(journal / LOCK, wait=False))
        except BlockingIOError:
            raise UpkeepBusy(
                f"another import, compaction, pruning or erasure works in {journal}; "
                "try again when it is done"
            ) from None
        yield


def draft_name() -> str:
    """A new name for a segment that replaces others."""
    return f"{new_name(REWRITTEN, time.time())}{SEALED}"


def replace(
    folder: JournalFolder, reason: Reason, replaced: Sequence[str], by: Sequence[str]
) -> Path:
    """Writes an entry of the manifest, which switches from the old segments to the new ones. The
    new ones must be on disk under their names. Returns the entry's path."""
    folder.manifest.mkdir(mode=0o700, exist_ok=True)
    sync(folder.sealed)
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    entry = Replacement(now, reason, tuple(replaced), tuple(by))
    draft = folder.manifest / f".{secrets.token_hex(8)}"
    write_private(draft, msgspec.json.format(msgspec.json.encode(entry), indent=1) + b"\n")
    numbers = [int(path.stem) for path in folder.manifest.glob("[0-9]*.json")]
    number = max(numbers, default=0) + 1
    while True:
        target = folder.manifest / f"{number:08d}.json"
        try:
            os.link(draft, target)  # unlike a rename, it never takes another's place
            break
        except FileExistsError:
            number += 1
    draft.unlink()
    sync(folder.manifest)
    return target


def remove_replaced(folder: JournalFolder, grace_seconds: float) -> list[str]:
    """Deletes the files of segments replaced longer ago than the grace period, and rewritten ones
    without an entry, left by an interrupted writer. Only inside `alone`. Returns the names."""
    now = time.time()
    manifest = folder.replacements()
    old = {
        name
        for entry in manifest
        if now - parse_time(entry.at) / 1e6 >= grace_seconds
        for name in entry.replaced
    }
    named = {name for entry in manifest for name in entry.by}
    removed = []
    for path in sorted(folder.sealed.glob(f"*{SEALED}")):
        orphan = is_rewritten(path.name) and path.name not in named
        if path.name in old or orphan:
            path.unlink(missing_ok=True)
            removed.append(path.name)
    if removed:
        sync(folder.sealed)
    return removed


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
