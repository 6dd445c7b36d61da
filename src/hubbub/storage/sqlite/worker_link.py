"""Calls to a worker process: grouped into batches, and carried over if the process dies.

Everything happens on the event loop. While batches are under way, further operations gather for
the next one: group commit. A worker that dies is started again. A writer keeps the number and the
outcome of its last batch in the database, in that batch's own transaction, so what it had
committed without answering is answered then, and the rest is sent again: nothing is lost or done
twice.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from hubbub.domain.errors import HubbubError, Internal, StoreUnavailable
from hubbub.storage.sql.fair_queue import Limits, QueuedCall
from hubbub.storage.sql.links import Group, Link, error_of
from hubbub.storage.sqlite.worker_process import WorkerProcess
from hubbub.storage.sqlite.worker_protocol import (
    BatchOutcome,
    Ready,
    WorkerOptions,
    answer_decoder,
    encoder,
    frame,
    outcome_decoder,
)

_log = logging.getLogger(__name__)
_MOST_SENDS = 3
_MOST_RESTART_DELAY_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Batch:
    """Groups of operations under way."""

    number: int
    groups: list[Group]
    sends: int = 0


class WorkerLink(Link):
    def __init__(
        self, options: WorkerOptions, limits: Limits, merged: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(limits, merged)
        self._options = msgspec.structs.replace(options, link_id=secrets.token_hex(8))
        self._batches_under_way = limits.batches_under_way
        self._under_way: deque[_Batch] = deque()
        self._batch_number = 0
        self._flush_scheduled = False
        self._process: WorkerProcess | None = None
        self._restart_task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None

    @property
    def pid(self) -> int | None:
        """None while there is no process."""
        return None if self._process is None else self._process.pid

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the process."""
        self._loop = asyncio.get_running_loop()
        self._process = await self._start_process()

    async def open(self) -> tuple[str, ...]:
        """Have the process open the database; answers what the operator should know. Raises
        `StoreUnavailable`; it has ended then."""
        process, self._process = self._process, None
        assert process is not None
        ready = await process.open()
        self._process = process
        self._refusing = None
        # Publishers wait for a successor; what was found whole needs no second look.
        self._options = msgspec.structs.replace(self._options, check_seconds=0.0)
        return ready.notes

    async def close(self) -> None:
        """Take nothing more, finish what was taken, and end the process."""
        self._refusing = StoreUnavailable("the store is closed")
        if self._queue.pending_weight:
            self._idle = self._loop.create_future()
            await self._idle
        if self._restart_task is not None:
            self._restart_task.cancel()
            await asyncio.wait([self._restart_task])
        if self._process is not None:
            await self._process.end()
            self._process = None

    async def _start_process(self) -> WorkerProcess:
        process = WorkerProcess(self._options, self._frame_received, self._process_lost)
        await process.start()
        return process

    def _process_lost(self) -> None:
        lost, self._process = self._process, None
        assert lost is not None
        _log.error("process %d for %s ended; starting another", lost.pid, self._options.path)
        self._restart_task = self._loop.create_task(self._restart(lost))

    async def _restart(self, lost: WorkerProcess) -> None:
        """Until it works, or the store is closed. Meanwhile calls wait, but after the first
        attempt that failed they are refused."""
        await lost.end()
        delay_seconds = 0.1
        while True:
            try:
                process = await self._start_process()
                ready = await process.open()
            except HubbubError as error:
                self._give_up(error)
            else:
                self._process = process
                self._restart_task = None
                self._resume(ready)
                return
            await asyncio.sleep(delay_seconds)
            delay_seconds = min(delay_seconds * 2, _MOST_RESTART_DELAY_SECONDS)

    def _give_up(self, error: HubbubError) -> None:
        if self._idle is None:
            self._refusing = error
        while self._under_way:
            self._fail_batch(self._under_way.popleft(), error)
        self._fail_queue(error)
        self._notice_idle()

    def _resume(self, ready: Ready) -> None:
        if self._idle is None:
            self._refusing = None
        if self._under_way and self._under_way[0].number == ready.last_batch:
            self._batch_done(self._under_way.popleft(), outcome_decoder.decode(ready.last_outcome))
        again, self._under_way = self._under_way, deque()
        for batch in again:
            if batch.sends < _MOST_SENDS:
                self._send(batch)
            else:
                self._fail_batch(batch, StoreUnavailable("the store failed over this repeatedly"))
        self._flush()
        self._notice_idle()

    def _notice_idle(self) -> None:
        if self._idle is not None and not self._queue.pending_weight and not self._idle.done():
            self._idle.set_result(None)

    # -- sending ------------------------------------------------------------------------------

    def _queued(self) -> None:
        if self._merged is None:
            self._flush()  # there is nothing to gain from gathering reads for a turn of the loop
        elif not self._flush_scheduled and len(self._under_way) < self._batches_under_way:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self._flush_scheduled = False
        self._flush()

    def _flush(self) -> None:
        while (
            self._process is not None
            and self._queue
            and len(self._under_way) < self._batches_under_way
        ):
            self._batch_number += 1
            self._send(_Batch(self._batch_number, self._group(self._queue.take_batch())))

    def _send(self, batch: _Batch) -> None:
        try:
            data = self._encode(batch)
        except Exception:  # noqa: BLE001 - one operation is at fault, which it is told
            batch.groups = self._group(self._encodable(batch))
            data = self._encode(batch)
        batch.sends += 1
        self._under_way.append(batch)
        assert self._process is not None
        self._process.send(data)

    def _encode(self, batch: _Batch) -> bytes:
        operations = [(group[0].method.__name__, self._arguments(group)) for group in batch.groups]
        return frame((batch.number, operations))

    def _encodable(self, batch: _Batch) -> list[QueuedCall]:
        good: list[QueuedCall] = []
        for waiting in (waiting for group in batch.groups for waiting in group):
            try:
                encoder.encode(waiting.arguments)
            except Exception as error:  # noqa: BLE001 - answered to whoever brought it
                self._finish(waiting, error=Internal(f"this cannot be stored: {error!r}"))
            else:
                good.append(waiting)
        return good

    # -- receiving ----------------------------------------------------------------------------

    def _frame_received(self, body: bytes) -> None:
        result = outcome_decoder.decode(body)  # if this fails, the batch stays under way
        self._batch_done(self._under_way.popleft(), result)
        self._flush()
        self._notice_idle()

    def _batch_done(self, batch: _Batch, result: BatchOutcome) -> None:
        if result.fault is not None:
            self._fail_batch(batch, error_of(result.fault))
            return
        for group, outcome in zip(batch.groups, result.outcomes, strict=True):
            if outcome.fault is not None:
                self._fail_group(group, error_of(outcome.fault))
                continue
            try:
                answer = answer_decoder(group[0].method).decode(outcome.answer)
            except msgspec.DecodeError as error:
                self._fail_group(group, Internal(f"the store's answer cannot be read: {error}"))
                continue
            self._finish_group(group, answer)

    def _fail_batch(self, batch: _Batch, error: HubbubError) -> None:
        for group in batch.groups:
            self._fail_group(group, error)
