"""The embedded store: one SQLite file, written by one process and read by another."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from hubbub.domain.history import PAGE_BYTES
from hubbub.storage.sql.fair_queue import QueueLimits
from hubbub.storage.sql.store import READS_AT_ONCE, SqlStore
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite.worker_link import WorkerLink
from hubbub.storage.sqlite.worker_protocol import WorkerOptions

_log = logging.getLogger(__name__)


class SqliteStore(SqlStore):
    """Implements `hubbub.ports.storage.Store` on the database file `path`, which one hub process
    uses at a time.

    `max_bytes` bounds the file. `page_bytes` bounds a page of history. `lock_patience_seconds` is
    how long `open` waits for another process to release the file, `check_seconds` how long it
    checks for damage. `reserve_bytes` of the disk are reserved for deletions and administration.
    """

    def __init__(
        self,
        path: Path,
        *,
        limits: QueueLimits = QueueLimits(),  # noqa: B008 - immutable
        max_bytes: int | None = None,
        page_bytes: int = PAGE_BYTES,
        lock_patience_seconds: float = 5.0,
        check_seconds: float = 0.5,
        reserve_bytes: int = 0,
    ) -> None:
        options = WorkerOptions(
            role="writer",
            path=str(path.absolute()),
            lock_patience_seconds=lock_patience_seconds,
            page_bytes=page_bytes,
            max_bytes=max_bytes,
            check_seconds=check_seconds,
            reserve_bytes=reserve_bytes,
        )
        self._writer = WorkerLink(options, limits, merged=Writes.append)
        self._reader = WorkerLink(
            msgspec.structs.replace(options, role="reader"),
            msgspec.structs.replace(limits, batch_weight=READS_AT_ONCE, turn_weight=1),
        )
        super().__init__(self._writer, self._reader)

    async def open(self) -> None:
        """Both processes load their code concurrently; the writer opens the file first."""
        try:
            await self._writer.start()
            await self._reader.start()
            for note in await self._writer.open():
                _log.warning(note)
            await self._reader.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The ids of the current writer and reader process, for telemetry."""
        return tuple(link.pid for link in (self._writer, self._reader) if link.pid is not None)
