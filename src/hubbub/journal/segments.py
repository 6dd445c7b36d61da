"""The thread that writes segments: everything about the journal that can wait for a disk.

Batches come through a queue, in order. Each is answered on the event loop: synced, or failed and
not in the file. A segment is closed by its size, its age, on request, and at the end.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import queue
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Final

import msgspec

from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import MAGIC
from hubbub.ports.clock import Clock

logger = logging.getLogger(__name__)

WAKE_SECONDS: Final = 0.2
SYNC_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 1.0
"""How often the disk's free space is looked at."""


class SegmentOptions(msgspec.Struct, frozen=True):
    segment_bytes: int = 64 * 1024 * 1024
    segment_seconds: float = 300.0
    min_free_bytes: int = 0


class Batch(msgspec.Struct, gc=False, eq=False):
    """Events as the body of one record. `urgent`: somebody waits until it is synced."""

    head: bytes
    """What stands before the body in the file: made by who hands it over, since every turn that
    this thread takes from the event loop's costs more than the checksum itself."""
    body: bytes
    count: int
    marks: dict[tuple[str, str], tuple[str, int]]
    """By hub and channel: the epoch and the serial up to which stored messages are in here."""
    urgent: bool = False


class Command(msgspec.Struct, frozen=True):
    """Something else to do, in turn."""

    ends: bool = False


ROTATE: Final = Command()
END: Final = Command(ends=True)


class SegmentThread(Thread):
    """`synced`, `failed`, `asked` and `closed` are called on this thread."""

    def __init__(
        self,
        folder: JournalFolder,
        node: str,
        clock: Clock,
        options: SegmentOptions,
        *,
        synced: Callable[[list[Batch]], None],
        failed: Callable[[Batch, str], None],
        asked: Callable[[], None],
        closed: Callable[[], None],
    ) -> None:
        """`asked`: somebody wants the segment closed; answer with `ROTATE`. `closed`: there may be
        something to seal."""
        super().__init__(name="journal", daemon=True)
        self.queue: queue.SimpleQueue[Batch | Command] = queue.SimpleQueue()
        self.taken_bytes = 0
        """Of all batches that are out of the queue."""
        self.written_bytes = 0
        self.open_segments = 0
        self.closed_segments = 0
        self._folder = folder
        self._node = node
        self._clock = clock
        self._options = options
        self._most = options.segment_bytes
        self._looked_at = -WAKE_SECONDS
        self._synced = synced
        self._failed = failed
        self._asked = asked
        self._closed = closed
        self._path: Path | None = None
        self._descriptor = -1
        self._size = 0
        self._begun = 0.0
        self._unsynced: list[Batch] = []
        self._sync_at = 0.0
        self._request_told = False
        self._look_at = 0.0
        self._full = False
        self._trouble: str | None = None

    def run(self) -> None:
        self._recover()
        while True:
            try:
                item = self.queue.get(timeout=WAKE_SECONDS)
            except queue.Empty:
                item = None
            if isinstance(item, Batch):
                self._write(item)
                self.taken_bytes += len(item.body)
            elif item is not None:
                self._close()
                if item.ends:
                    return
            self._look_around(idle=item is None)

    def _look_around(self, idle: bool) -> None:
        """Now and then, whether there is much to do or nothing."""
        now = self._clock.monotonic()
        urgent = bool(self._unsynced) and self._unsynced[-1].urgent
        soon = now < self._looked_at + WAKE_SECONDS
        if soon and not (idle or urgent) and self._size < self._most:
            return
        self._looked_at = now
        if self._unsynced and (now >= self._sync_at or urgent):
            self._sync()
        if self._path is None:
            return
        age = now - self._begun
        if self._size >= self._most or age >= self._options.segment_seconds:
            self._close()
        elif not self._request_told and self._folder.request_of(self._path).exists():
            self._request_told = True
            self._asked()

    # -- writing --------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        try:
            self._make_room()
            self._append(batch.head, batch.body)
        except OSError as error:
            self._complain(error)
            self._failed(batch, "disk")
            return
        if self._trouble is not None:
            logger.warning("the journal can be written again")
            self._trouble = None
        self._unsynced.append(batch)

    def _make_room(self) -> None:
        """A segment to write to, on a disk with space. Raises `OSError`."""
        if self._path is None:
            self._folder.make()
            self._path, self._descriptor = self._folder.create(self._node, self._clock.now())
            self._size = len(MAGIC)
            self._begun = self._clock.monotonic()
            self._request_told = False
            self.open_segments = 1
        now = self._clock.monotonic()
        if self._options.min_free_bytes and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            disk = os.fstatvfs(self._descriptor)
            self._full = disk.f_bavail * disk.f_frsize < self._options.min_free_bytes
        if self._full:
            raise OSError(errno.ENOSPC, "the disk is nearly full")

    def _append(self, *parts: bytes) -> None:
        """All of it or nothing. Raises `OSError`."""
        size = sum(map(len, parts))
        try:
            written = os.writev(self._descriptor, parts)
            while written < size:
                rest = b"".join(parts)[written:]
                written += os.write(self._descriptor, rest)
        except OSError:
            self._take_back()
            raise
        self._size += size
        self.written_bytes += size

    def _take_back(self) -> None:
        """Cut off what a failed write left. Where even that fails, the segment ends here; who
        reads it stops before the torn record."""
        try:
            os.ftruncate(self._descriptor, self._size)
        except OSError:
            self._give_up_segment()

    def _sync(self) -> None:
        batches, self._unsynced = self._unsynced, []
        self._sync_at = self._clock.monotonic() + SYNC_SECONDS
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            self._complain(error)
            self._give_up_segment()
            for batch in batches:
                self._failed(batch, "disk")
        else:
            self._synced(batches)

    def _complain(self, error: OSError) -> None:
        """Once for each trouble, not for each batch."""
        said = error.strerror or str(error)
        if said != self._trouble:
            self._trouble = said
            logger.error("the journal in %s cannot be written: %s", self._folder.path, said)

    # -- segments -------------------------------------------------------------------------------

    def _recover(self) -> None:
        """What a crash left open, and what waits to be sealed."""
        try:
            self._folder.make()
            for path in self._folder.recover():
                logger.warning("recovered the journal's segment %s", path.name)
            self.closed_segments = len(self._folder.closed_segments())
        except OSError as error:
            self._complain(error)
        if self.closed_segments:
            self._closed()

    def _close(self) -> None:
        if self._path is None:
            return
        if self._unsynced:
            self._sync()
        if self._path is None:
            return
        path, self._path = self._path, None
        try:
            self._folder.close(path, self._descriptor)
            self.closed_segments = len(self._folder.closed_segments())
        except OSError as error:
            self._complain(error)
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self.open_segments = 0
        self._closed()

    def _give_up_segment(self) -> None:
        """Its file stays as it is: whoever recovers it cuts it where it is whole."""
        self._path = None
        self.open_segments = 0
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
