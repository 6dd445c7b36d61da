"""How late the event loop is: what holds it up holds up everybody."""

from __future__ import annotations

import asyncio
from collections import deque

_INTERVAL_SECONDS = 0.25
_REMEMBERED = 40
"""Ten seconds."""


class LoopLag:
    """A timer that notes how much later than asked for it comes."""

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
        """In seconds, of the last ten seconds."""
        return max(self._late, default=0.0)
