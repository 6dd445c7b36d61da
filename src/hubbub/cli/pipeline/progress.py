"""The progress of a round: a bar on a terminal, otherwise an occasional line."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

import click

from hubbub.cli.progress import remaining

_BAR: Final = 24
_LOOK_SECONDS: Final = 0.5
_LINE_SECONDS: Final = 10.0
"""The interval of lines about the same step, without a terminal."""


class Progress:
    """Called with the current step of the round; polls Spark's tasks itself."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = time.monotonic()
        self._step = ""
        self._step_began = self._began
        self._said_at = 0.0
        self._width = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if self._terminal:
            self._show("")

    def __call__(self, step: str) -> None:
        self._step, self._step_began = step, time.monotonic()
        self._say(f"{step}…")

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            with contextlib.suppress(Exception):  # Spark may be starting, or ending
                self._show_tasks()

    def _show_tasks(self) -> None:
        done, tasks = _tasks()
        if not tasks or not self._step:
            return
        if self._terminal:
            filled = _BAR * done // tasks
            bar = "█" * filled + "·" * (_BAR - filled)
            self._show(f"{self._step} {bar} {done}/{tasks} tasks{self._left(done, tasks)}")
        elif time.monotonic() - self._said_at >= _LINE_SECONDS:
            self._say(f"{self._step}: {done} of {tasks} tasks done{self._left(done, tasks)}")

    def _left(self, done: int, tasks: int) -> str:
        """An estimate of the remaining time, from the step's tasks."""
        if not done:
            return ""
        seconds = time.monotonic() - self._step_began
        return f", {remaining(seconds * (tasks - done) / done)} left"

    def _say(self, line: str) -> None:
        if self._terminal:
            self._show(line)
            return
        self._said_at = time.monotonic()
        click.echo(f"{self._seconds():6.1f} s  {line}", err=True)

    def _show(self, line: str) -> None:
        click.echo(f"\r{line:{self._width}}\r{line}", nl=False, err=True)
        self._width = len(line)

    def _seconds(self) -> float:
        return time.monotonic() - self._began


def _tasks() -> tuple[int, int]:
    """Tasks of Spark's running stages: completed and total."""
    context: Any = sys.modules["pyspark"].SparkContext._active_spark_context
    if context is None:
        return 0, 0
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    known = [stage for stage in stages if stage is not None]
    return sum(one.numCompletedTasks for one in known), sum(one.numTasks for one in known)
