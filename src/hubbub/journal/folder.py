"""The journal's folder: which files it holds, and what becomes of a segment.

    open/{segment}.hbj        being written; its writer holds a lock on it
    open/{segment}.rotate     somebody asks the writer to close it
    closed/{segment}.hbj      complete, waits to be sealed
    sealed/{segment}.parquet  never changes again
    manifest/                 which sealed segments were replaced by others

A segment's name is used once: `{node}-{UTC time}-{8 random hex digits}`.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from hubbub.domain.replacements import Replacement, current
from hubbub.files import sync
from hubbub.journal.records import MAGIC, NotASegment, good_bytes

logger = logging.getLogger(__name__)

RAW: Final = ".hbj"
SEALED: Final = ".parquet"
_REQUEST: Final = ".rotate"
_UNFIT = re.compile(r"[^A-Za-z0-9_.]+")


_decode = msgspec.json.Decoder(Replacement).decode


class JournalFolder:
    """Paths of the folder, and transitions of segments. Blocking."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.open = path / "open"
        self.closed = path / "closed"
        self.sealed = path / "sealed"
        self.manifest = path / "manifest"

    def make(self) -> None:
        """Raises `OSError`."""
        for folder in (self.path, self.open, self.closed, self.sealed):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, node: str, now: float) -> tuple[Path, int]:
        """Creates a locked open segment; returns its path and descriptor. Raises `OSError`."""
        path = self.open / f"{new_name(node, now)}{RAW}"
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, MAGIC)
            sync(self.open)
        except OSError:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            raise
        return path, descriptor

    def close(self, path: Path, descriptor: int) -> None:
        """Closes a segment: syncs and moves it; an empty segment is deleted. The lock is released
        last, so that nobody takes the segment for one left by a crash."""
        if os.fstat(descriptor).st_size > len(MAGIC):
            os.fsync(descriptor)
            path.rename(self.closed / path.name)
            sync(self.closed)
        else:
            path.unlink(missing_ok=True)
        sync(self.open)
        self.request_of(path).unlink(missing_ok=True)
        os.close(descriptor)

    def recover(self) -> list[Path]:
        """Closes open segments of dead writers, truncated after their last complete record. Returns
        the newly closed segments."""
        found = []
        for path in sorted(self.open.glob(f"*{RAW}")):
            with _locked(path) as descriptor:
                if descriptor is not None and self._cut(path, descriptor):
                    found.append(self.closed / path.name)
        return found

    def _cut(self, path: Path, descriptor: int) -> bool:
        """Returns whether any record is left."""
        try:
            good, size = good_bytes(path), os.fstat(descriptor).st_size
        except NotASegment:
            good, size = len(MAGIC), 0
        if good <= len(MAGIC):
            path.unlink()
            return False
        if good < size:
            logger.warning("cut %d bytes of a torn record off %s", size - good, path.name)
            os.ftruncate(descriptor, good)
        os.fsync(descriptor)
        path.rename(self.closed / path.name)
        self.request_of(path).unlink(missing_ok=True)
        sync(self.open)
        sync(self.closed)
        return True

    # -- asking a writer in another process -----------------------------------------------------

    @staticmethod
    def request_of(path: Path) -> Path:
        return path.with_suffix(_REQUEST)

    def request_rotation(self) -> list[Path]:
        """Asks the writers of open segments to close them. Returns the request files; each is
        deleted once it is fulfilled."""
        requests = [self.request_of(path) for path in self.live_segments()]
        for request in requests:
            request.touch(mode=0o600)
        return requests

    def live_segments(self) -> list[Path]:
        """The open segments with a live writer."""
        live = []
        for path in sorted(self.open.glob(f"*{RAW}")):
            with _locked(path) as descriptor:
                if descriptor is None and path.exists():
                    live.append(path)
        return live

    # -- looking --------------------------------------------------------------------------------

    def closed_segments(self) -> list[Path]:
        return sorted(self.closed.glob(f"*{RAW}"))

    def sealed_segments(self) -> list[Path]:
        """The current sealed segments, as of one moment: without those that a manifest replaced,
        and without those that wait for their entry in it."""
        manifest = None
        names: list[str] = []
        while manifest != (now := self.replacements()):
            manifest = now
            found = (path.name for path in self.sealed.glob(f"*{SEALED}"))
            names = [name for name in current(found, manifest) if name[0] not in "._"]
        return [self.sealed / name for name in names]

    def replacements(self) -> list[Replacement]:
        """All entries of the manifest, oldest first."""
        return [_decode(path.read_bytes()) for path in sorted(self.manifest.glob("*.json"))]

    def replaced(self) -> set[str]:
        """File names of replaced sealed segments."""
        return {name for entry in self.replacements() for name in entry.replaced}


def new_name(node: str, now: float) -> str:
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{_UNFIT.sub('_', node) or '_'}-{stamp}-{secrets.token_hex(4)}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Locks the file; yields None if its writer lives or it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor if path.exists() else None
    finally:
        os.close(descriptor)
