"""A clock whose hands the tests turn."""

from __future__ import annotations

import time


class FakeClock:
    """Stands still until told otherwise."""

    def __init__(self) -> None:
        self.offset = 0.0
        self._start = time.time()

    def now(self) -> float:
        return self._start + self.offset

    def monotonic(self) -> float:
        return 1000.0 + self.offset

    def advance(self, seconds: float) -> None:
        self.offset += seconds
