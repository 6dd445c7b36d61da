"""The system's clock."""

from __future__ import annotations

import time


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
