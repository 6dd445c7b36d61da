"""Calls to a worker process: grouped into batches, and resumed if the process dies.

Everything runs on the event loop. While batches are in progress, further operations collect for the
next one: group commit. A worker that dies is restarted. A writer stores the number and the outcome
of its last batch in that batch's own transaction: a committed batch is then answered, and all
others are sent again, so that nothing is lost or done twice.
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

from hubbub.domain.errors import STORE_FULL, HubbubError, Internal, StoreUnavailable
from hubbub.storage.sql.fair_queue import QueuedCall, QueueLimits
from hubbub.storage.sql.links import Group, StoreLink, error_of
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite.worker_process import WorkerProcess
from hubbub.storage.sqlite.worker_protocol import (
    BatchOutcome,
    Fault,
    WorkerOptions,
    WorkerReady,
    answer_decoder,
    encoder,
    frame,
    outcome_decoder,
)

_log = logging.getLogger(__name__)
_MOST_SENDS = 3
_MOST_RESTART_DELAY_SECONDS = 5.0
SILENCE_SECONDS = 20.0
"""A process that has owed a response for this long is stopped by a signal, or its disk hangs."""


@dataclass(slots=True, eq=False)
class _BatchInProgress:
    """The groups of one batch in progress."""

    number: int
    groups: list[Group]
    sends: int = 0


class WorkerLink(StoreLink):
    def __init__(
        self, options: WorkerOptions, limits: QueueLimits, merged: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(limits, merged)
        self._options = msgspec.structs.replace(options, link_id=secrets.token_hex(8))
        self._batches_under_way = limits.batches_under_way
        self._under_way: deque[_BatchInProgress] = deque()
        self._batch_number = 0
        self._flush_scheduled = False
        self._process: WorkerProcess | None = None
        self._restart_task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        self._heard_at = 0.0
        """The time of the last response, or of the first batch after all were answered."""
        self._silent = False
        self._problem: str | None = None
        """Why the process can store nothing at present."""

    @property
    def problem(self) -> str | None:
        return super().problem or self._problem

    @property
    def pid(self) -> int | None:
        """None while no process runs."""
        return None if self._process is None else self._process.pid

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the process."""
        self._loop = asyncio.get_running_loop()
        self._process = await self._start_process()

    async def open(self) -> tuple[str, ...]:
        """Makes the process open the database; returns notes for the operator. Raises
        `StoreUnavailable`; the process has ended then."""
        process, self._process = self._process, None
        assert process is not None
        ready = await process.open()
        self._process = process
        self._refusing = None
        # Publishers wait for a successor; what was found whole needs no second look.
        self._options = msgspec.structs.replace(self._options, check_seconds=0.0)
        return ready.notes

    async def close(self) -> None:
        """Accepts no further calls, finishes the accepted ones, and ends the process."""
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
        """Retries until it succeeds or the store is closed. After the first failed attempt, queued
        and new calls are refused."""
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

    def _resume(self, ready: WorkerReady) -> None:
        self._silent = False
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

    # -- silence, and a disk that takes nothing -----------------------------------------------

    def look_again(self) -> None:
        if self._process is not None and self._under_way:
            self._look_for_silence(self._process)
        elif self._problem and self._refusing is None and not self._queue:
            probe = self.submit("", Writes.pass_lane, (), held=False)
            probe.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _look_for_silence(self, process: WorkerProcess) -> None:
        """Refuses calls while the process is silent. A process stopped by a signal is replaced: its
        successor knows whether the batch in progress was committed. A process whose disk hangs is
        waited for."""
        silent_seconds = self._loop.time() - self._heard_at
        if silent_seconds < SILENCE_SECONDS:
            return
        if not self._silent and self._idle is None:
            self._silent = True
            self._refusing = StoreUnavailable.because(
                f"process {process.pid} for {self._options.path} has not answered for"
                f" {silent_seconds:.0f} s"
            )
            _log.error("%s; calls are refused until it does", self._refusing)
            self._fail_queue(self._refusing)
        if process.is_stopped():
            _log.error("process %d was stopped from outside: ending it", process.pid)
            process.kill()

    def _answers_again(self) -> None:
        self._silent = False
        if self._idle is None:
            self._refusing = None
        _log.warning("the process for %s answers again", self._options.path)

    def _note_problem(self, problem: str | None, fault: Fault | None) -> None:
        before, self._problem = self._problem, problem
        if problem == STORE_FULL:
            _log.error(
                "the disk of %s is full: nothing more is stored until there is room; reading,"
                " deleting and administration go on. Free disk space, or shorten retention",
                self._options.path,
            )
        elif problem is not None:
            why = (fault.detail or fault.message) if fault is not None else problem
            _log.error("nothing is stored in %s: %s", self._options.path, why)
        elif before == STORE_FULL:
            _log.warning("the disk of %s has room again", self._options.path)
        else:
            _log.warning("%s takes what is stored again", self._options.path)

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
            self._send(_BatchInProgress(self._batch_number, self._group(self._queue.take_batch())))

    def _send(self, batch: _BatchInProgress) -> None:
        try:
            data = self._encode(batch)
        except Exception:  # noqa: BLE001 - one operation is at fault, which it is told
            batch.groups = self._group(self._encodable(batch))
            data = self._encode(batch)
        batch.sends += 1
        if not self._under_way:
            self._heard_at = self._loop.time()
        self._under_way.append(batch)
        assert self._process is not None
        self._process.send(data)

    def _encode(self, batch: _BatchInProgress) -> bytes:
        operations = [
            (
                group[0].method.__name__,
                self._arguments(group),
                group[0].bound,
                group[0].audit,
            )
            for group in batch.groups
        ]
        return frame((batch.number, operations))

    def _encodable(self, batch: _BatchInProgress) -> list[QueuedCall]:
        good: list[QueuedCall] = []
        for waiting in (waiting for group in batch.groups for waiting in group):
            try:
                encoder.encode(waiting.arguments)
            except Exception as error:  # noqa: BLE001 - answered to whoever brought it
                self._finish(waiting, error=_unfit("this cannot be stored", error))
            else:
                good.append(waiting)
        return good

    # -- receiving ----------------------------------------------------------------------------

    def _frame_received(self, body: bytes) -> None:
        result = outcome_decoder.decode(body)  # if this fails, the batch stays under way
        self._heard_at = self._loop.time()
        if self._silent:
            self._answers_again()
        if result.problem != self._problem:
            self._note_problem(result.problem, result.fault)
        self._batch_done(self._under_way.popleft(), result)
        self._flush()
        self._notice_idle()

    def _batch_done(self, batch: _BatchInProgress, result: BatchOutcome) -> None:
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
                self._fail_group(group, _unfit("the store's answer cannot be read", error))
                continue
            self._finish_group(group, answer)

    def _fail_batch(self, batch: _BatchInProgress, error: HubbubError) -> None:
        for group in batch.groups:
            self._fail_group(group, error)


def _unfit(what: str, error: Exception) -> Internal:
    return Internal(what, f"{what}: {error!r}")
