"""The progress of a long job and its remaining time, in one updated line on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

_PAUSE_SECONDS = 0.1
_MEASURED_SECONDS = 2.0
"""The time before a first estimate: a job starts slowly and reads ahead."""

Progress = Callable[[float], None]
"""Receives the completed share, from 0 to 1."""


def progress_of(work: str) -> Progress:
    """Shows nothing if the output is not a terminal."""
    if not sys.stderr.isatty():
        return lambda share: None
    line = ProgressLine(work)
    return line.show


class ProgressLine:
    def __init__(self, work: str, now: Callable[[], float] = time.monotonic) -> None:
        self._work = work
        self._now = now
        self._measured_from: tuple[float, float] | None = None
        """Time and share when the first part was complete."""
        self._shown_at = float("-inf")
        self._width = 0

    def show(self, share: float) -> None:
        now = self._now()
        if share < 1 and now - self._shown_at < _PAUSE_SECONDS:
            return
        self._shown_at = now
        if share >= 1:
            self._write(f"\r{'':{self._width}}\r")
            return
        line = self.line(share, now)
        self._write(f"\r{line:{self._width}}")
        self._width = max(self._width, len(line))

    def line(self, share: float, now: float) -> str:
        if share <= 0:
            return f"{self._work}…"
        done = f"{self._work} {share:4.0%}"
        if self._measured_from is None:
            self._measured_from = now, share
        began, first = self._measured_from
        if now - began < _MEASURED_SECONDS or share <= first:
            return done
        return f"{done}, {remaining((now - began) * (1 - share) / (share - first))} left"

    @staticmethod
    def _write(text: str) -> None:
        click.echo(text, nl=False, err=True)


def remaining(seconds: float) -> str:
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"
