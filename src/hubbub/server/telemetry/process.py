"""Resource usage of the process, and the lag of its event loop, which delays all requests."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from time import process_time

_STATM = Path("/proc/self/statm")
_INTERVAL_SECONDS = 0.25
_REMEMBERED = 40
"""Samples kept: ten seconds."""


class LoopLag:
    """A timer that measures its own delay."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=_REMEMBERED)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_INTERVAL_SECONDS, self._tick, loop.time())

    def _tick(self, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self._late.append(max(0.0, now - began - _INTERVAL_SECONDS))
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def worst(self) -> float:
        """The worst delay of the last ten seconds, in seconds."""
        return max(self._late, default=0.0)


def process_usage() -> tuple[float, int]:
    """CPU seconds so far, and bytes in memory: the peak, if the system does not report the current
    value."""
    try:
        resident = int(_STATM.read_bytes().split()[1]) * getpagesize()
    except (OSError, IndexError, ValueError):
        resident = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    return process_time(), resident
