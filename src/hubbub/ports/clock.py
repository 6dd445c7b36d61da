"""Time for the engine; tests use a clock that they advance themselves."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970. The operator may set the clock back or forward."""

    def monotonic(self) -> float:
        """Seconds of a monotonic clock, for intervals and timeouts."""
