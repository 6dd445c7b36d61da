"""Sealing: converts closed segments to Parquet files, once each.

Runs in a separate process (`python -m hubbub.journal.sealing FOLDER DAYS [ARCHIVE]`), started by
the hub after each segment if Arrow is installed, and by the pipeline before it reads. With an
ARCHIVE, sealed segments are pushed there. With DAYS greater than 0, older segments are deleted,
once they are in the archive. All steps may be interrupted at any point: the next run completes
them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from pathlib import Path
from typing import Final

from hubbub.domain.errors import HubbubError
from hubbub.files import locked, sync
from hubbub.journal.folder import SEALED, JournalFolder
from hubbub.journal.records import NotASegment

logger = logging.getLogger(__name__)

ROTATION_SECONDS: Final = 5.0
"""The time limit for a running hub to close its segment."""

_POLL_SECONDS = 0.02


def seal_all(
    journal_path: Path, rotation_seconds: float = ROTATION_SECONDS, *, live: bool = True
) -> list[Path]:
    """Seals all events recorded up to now; returns the new sealed segments.

    Asks running hubs to close their segments first (unless `live=False`); segments left open by a
    crash are recovered. Idempotent, and safe beside other sealers and hubs. Raises `OSError`, and
    `ImportError` if Arrow is not installed.
    """
    folder = JournalFolder(journal_path)
    if not folder.path.exists():
        return []
    folder.make()
    if live:
        _rotate(folder, rotation_seconds)
    with locked(folder.path / ".sealing.lock"):  # one sealer at a time; the others wait
        folder.recover()
        _sweep(folder)
        sealed = [_seal(folder, raw) for raw in folder.closed_segments()]
    return [path for path in sealed if path is not None]


def _rotate(folder: JournalFolder, seconds: float) -> None:
    waiting = folder.request_rotation()
    deadline = time.monotonic() + seconds
    while any(request.exists() for request in waiting):
        if time.monotonic() > deadline:
            for request in waiting:
                request.unlink(missing_ok=True)
            logger.warning("a hub did not close its segment in time; its newest events will follow")
            return
        time.sleep(_POLL_SECONDS)


def _seal(folder: JournalFolder, raw: Path) -> Path | None:
    """Returns None if only the raw file was left of an already sealed segment, or if the file is
    not a segment."""
    from hubbub.journal.parquet import write_segment

    target = folder.sealed / f"{raw.stem}{SEALED}"
    if target.exists() or target.name in folder.replaced():
        raw.unlink()
        return None
    draft = folder.sealed / f".{target.name}"
    try:
        write_segment(raw, draft)
    except NotASegment:
        logger.warning("%s is no segment; it stays where it is", raw)
        draft.unlink(missing_ok=True)
        return None
    draft.rename(target)
    sync(folder.sealed)
    raw.unlink()
    return target


def _sweep(folder: JournalFolder) -> None:
    """Deletes drafts of killed sealers."""
    for draft in folder.sealed.glob(f".*{SEALED}"):
        draft.unlink(missing_ok=True)


def main() -> None:
    with contextlib.suppress(OSError):
        os.nice(10)
    path, days, *archive = sys.argv[1:]
    folder = Path(path)
    seal_all(folder, live=False)
    if archive and not _push(folder, archive[0]):
        return
    if float(days):
        _prune(folder, float(days) * 86_400)


def _push(path: Path, url: str) -> bool:
    """Returns whether the push succeeded; if not, the next run repeats it."""
    from hubbub.journal.archive import Archive

    try:
        Archive(url).push(path)
    except HubbubError as error:
        logger.warning("%s", error)
        return False
    return True


def _prune(path: Path, seconds: float) -> None:
    from hubbub.journal.retention import prune
    from hubbub.journal.upkeep import UpkeepBusy

    with contextlib.suppress(UpkeepBusy):  # next time
        prune(path, seconds)


if __name__ == "__main__":
    main()
