"""Schedules Python's full garbage collections.

By default, a full collection runs each time that the number of long-lived objects has grown by a
quarter. It stops everything for 0.6 microseconds per object: with 100,000 channels a quarter of a
second, so long that other nodes of a cluster consider this one dead. And it finds hardly anything:
connections, sessions and messages are built without cycles. So young generations are collected in
larger portions, and everything only when memory has doubled.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

YOUNG, MIDDLE = 5_000, 5
"""The thresholds of the young and the middle generation."""
NEVER = 2**31 - 1
LOOK_SECONDS = 1.0
NOTICE_SECONDS = 0.02
"""The time between the announcement of a pause and the pause, for the message to reach the
network."""
LEAST_GROWTH = 300_000
"""Memory blocks that must be added before a full collection; a new hub has about as many."""
WORTH_SAYING_SECONDS = 0.1


class GarbageCollection:
    """Controls garbage collection from `start` to `stop`. `announce` is called with True shortly
    before a pause, and with False after it."""

    def __init__(
        self,
        announce: Callable[[bool], None],
        allocated: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        self._announce = announce
        self._allocated = allocated
        self._limit = 0
        self._timer: asyncio.TimerHandle | None = None
        self._former = gc.get_threshold()

    def start(self) -> None:
        """Freezes all existing objects: modules, classes, the parts of the server."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, MIDDLE, NEVER)
        self._set_limit()
        self._again(LOOK_SECONDS, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        gc.set_threshold(*self._former)
        gc.unfreeze()

    def _again(self, seconds: float, work: Callable[[], None]) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, work)

    def _set_limit(self) -> None:
        allocated = self._allocated()
        self._limit = allocated + max(allocated, LEAST_GROWTH)

    def _look(self) -> None:
        if self._allocated() > self._limit:
            self._announce(True)
            self._again(NOTICE_SECONDS, self._collect)
        else:
            self._again(LOOK_SECONDS, self._look)

    def _collect(self) -> None:
        began = time.perf_counter()
        found = gc.collect()
        self._set_limit()
        took = time.perf_counter() - began
        self._announce(False)
        if took > WORTH_SAYING_SECONDS:
            logger.info("full garbage collection in %.0f ms: %d objects freed", 1000 * took, found)
        self._again(LOOK_SECONDS, self._look)
