"""Sealing: closed segments become Parquet files, once each.

Runs in a process of its own (`python -m hubbub.journal.sealing FOLDER DAYS [ARCHIVE]`), started by
the hub after each segment if Arrow is installed, and by the pipeline before it reads. With an
ARCHIVE, sealed segments are pushed there. With DAYS over 0, segments that are older go, once they
are in the archive. All steps can be cut short at any point: the next run completes them.
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
"""How long a hub that writes here may take to close its segment."""

_POLL_SECONDS = 0.02


def seal_all(
    journal_path: Path, rotation_seconds: float = ROTATION_SECONDS, *, live: bool = True
) -> list[Path]:
    """Seal everything that happened up to now; answers the new sealed segments.

    Hubs that write here are asked to close their segment first (not with `live=False`); segments
    that a crash left open are recovered. Safe beside other sealers and hubs, and to repeat. Raises
    `OSError`, and `ImportError` where Arrow is not installed.
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
            logger.warning("a hub did not close its segment in time; its newest events come later")
            return
        time.sleep(_POLL_SECONDS)


def _seal(folder: JournalFolder, raw: Path) -> Path | None:
    """None if it was sealed before and only the raw file was left, or if it is no segment."""
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
    """Drop drafts of sealers that were killed."""
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
    """Whether it worked; else the next run does it."""
    from hubbub.journal.archive import Archive

    try:
        Archive(url).push(path)
    except HubbubError as error:
        logger.warning("%s", error.message)
        return False
    return True


def _prune(path: Path, seconds: float) -> None:
    from hubbub.journal.retention import prune
    from hubbub.journal.upkeep import UpkeepBusy

    with contextlib.suppress(UpkeepBusy):  # next time
        prune(path, seconds)


if __name__ == "__main__":
    main()
