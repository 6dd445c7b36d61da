"""The few numbers that the processes of one load share, and how they are started."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import time
from collections.abc import Callable
from enum import IntEnum
from multiprocessing.connection import Connection
from typing import Any, Concatenate, ParamSpec

_SPAWN = multiprocessing.get_context("spawn")
P = ParamSpec("P")


class Phase(IntEnum):
    """What the processes of a load do."""

    READY = 0  # connected, quiet
    WARM = 1  # publishing, not counted in latencies
    COUNT = 2  # publishing, counted
    DRAIN = 3  # no longer publishing, still receiving
    EXIT = 4


class Slot(IntEnum):
    PHASE = 0
    SENT = 1
    DELIVERED = 2
    CHUNKS = 3
    CLOSED = 4
    SUBSCRIBERS = 5


class Board:
    """Shared numbers; each slot but the phase has one writer."""

    def __init__(self) -> None:
        self.slots: Any = _SPAWN.RawArray("Q", len(Slot))

    def __getitem__(self, slot: Slot) -> int:
        return int(self.slots[slot])

    def __setitem__(self, slot: Slot, value: int) -> None:
        self.slots[slot] = value

    @property
    def phase(self) -> Phase:
        return Phase(self.slots[Slot.PHASE])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self.slots[Slot.PHASE] = phase


class CpuWatch:
    """This process's CPU and wall seconds while its load was being counted."""

    def __init__(self) -> None:
        self._from: tuple[float, float] | None = None
        self.seconds = (0.0, 0.0)

    def follow(self, phase: int) -> None:
        if phase == Phase.COUNT and self._from is None:
            self._from = (time.process_time(), time.monotonic())
        elif phase > Phase.COUNT and self._from is not None and not self.seconds[1]:
            cpu, wall = self._from
            self.seconds = (time.process_time() - cpu, time.monotonic() - wall)


class WorkerFailed(Exception):
    """A process of a load ended with an error."""


class Worker:
    """A child process that says when it is ready and returns one result when its load ends."""

    def __init__(
        self,
        board: Board,
        work: Callable[Concatenate[Board, Callable[[], None], P], object],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(
            target=_run, args=(theirs, board, work, args, kwargs), daemon=True
        )
        self._process.start()
        theirs.close()

    def wait_ready(self, timeout_seconds: float = 120.0) -> None:
        self._receive(timeout_seconds)

    def result(self, timeout_seconds: float = 30.0) -> Any:
        outcome = self._receive(timeout_seconds)
        self._process.join(timeout_seconds)
        return outcome

    def stop(self) -> None:
        """Ends the process, finished or not."""
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()
        self._pipe.close()

    def _receive(self, timeout_seconds: float) -> Any:
        if not self._pipe.poll(timeout_seconds):
            raise WorkerFailed("a load process did not answer in time")
        try:
            outcome = self._pipe.recv()
        except EOFError:
            raise WorkerFailed("a load process ended without an answer") from None
        if isinstance(outcome, Exception):
            raise WorkerFailed(repr(outcome)) from outcome
        return outcome


def _run(
    pipe: Connection,
    board: Board,
    work: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    try:
        pipe.send(work(board, lambda: pipe.send(None), *args, **kwargs))
    except Exception as error:
        pipe.send(error)
