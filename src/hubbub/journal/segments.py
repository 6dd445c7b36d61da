"""The thread that writes segments: all parts of the journal that may wait for a disk.

Batches arrive through a queue, in order. Each is reported back on the event loop: synced, or failed
and not in the file. A segment is closed when it is large or old, on request, and at the end.
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
"""The interval of checks of the disk's free space."""


class SegmentOptions(msgspec.Struct, frozen=True):
    segment_bytes: int = 64 * 1024 * 1024
    segment_seconds: float = 300.0
    min_free_bytes: int = 0


class EventBatch(msgspec.Struct, gc=False, eq=False):
    """Events as the body of one record. `urgent`: a caller waits until it is synced."""

    head: bytes
    """The record's header in the file. The caller computes it, since acquiring the interpreter lock
    in this thread costs more than the checksum."""
    body: bytes
    count: int
    marks: dict[tuple[str, str], tuple[str, int]]
    """By hub and channel: the epoch and the serial of the last stored message in the batch."""
    urgent: bool = False


class WriterCommand(msgspec.Struct, frozen=True):
    """Another command for the thread, executed in order."""

    ends: bool = False


ROTATE: Final = WriterCommand()
END: Final = WriterCommand(ends=True)


class SegmentThread(Thread):
    """`synced`, `failed`, `asked` and `closed` are called on this thread."""

    def __init__(
        self,
        folder: JournalFolder,
        node: str,
        clock: Clock,
        options: SegmentOptions,
        *,
        synced: Callable[[list[EventBatch]], None],
        failed: Callable[[EventBatch, str], None],
        asked: Callable[[], None],
        closed: Callable[[], None],
    ) -> None:
        """`asked`: a reader requests that the segment be closed; respond with `ROTATE`. `closed`:
        there may be a segment to seal."""
        super().__init__(name="journal", daemon=True)
        self.queue: queue.SimpleQueue[EventBatch | WriterCommand] = queue.SimpleQueue()
        self.taken_bytes = 0
        """The total of all batches taken from the queue."""
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
        self._unsynced: list[EventBatch] = []
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
            if isinstance(item, EventBatch):
                self._write(item)
                self.taken_bytes += len(item.body)
            elif item is not None:
                self._close()
                if item.ends:
                    return
            self._look_around(idle=item is None)

    def _look_around(self, idle: bool) -> None:
        """Periodic checks, under load as well as when idle."""
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

    def _write(self, batch: EventBatch) -> None:
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
        """Ensures an open segment on a disk with free space. Raises `OSError`."""
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
        """Atomic append. Raises `OSError`."""
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
        """Truncates the remains of a failed write. If even that fails, the segment ends here;
        readers stop before the torn record."""
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
        """Logs once per problem, not once per batch."""
        said = error.strerror or str(error)
        if said != self._trouble:
            self._trouble = said
            logger.error("the journal in %s cannot be written: %s", self._folder.path, said)

    # -- segments -------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Recovers segments left open by a crash, and reports segments to seal."""
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
        """Leaves the file as it is: recovery truncates it after the last valid record."""
        self._path = None
        self.open_segments = 0
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
