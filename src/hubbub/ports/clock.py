"""Time, as the engine needs it; tests turn the hands themselves."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since 1970. May be set back or forward by the operator."""

    def monotonic(self) -> float:
        """Seconds that never run backwards, for intervals and timeouts."""
