"""When Python's garbage collector looks at everything.

By itself it does so each time that the long-lived objects have grown by a quarter. Nothing else
happens meanwhile, and that takes 0.6 microseconds for each object: with 100,000 channels a quarter
of a second, so long that other nodes of a cluster take this one for dead. And there is hardly
anything to find: connections, sessions and messages are built so that they go at once when nobody
holds them. So the young objects are looked at in larger portions, and everything only when what is
allocated has doubled.
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
"""How many objects are young, and how many times those are looked at before the older ones."""
NEVER = 2**31 - 1
LOOK_SECONDS = 1.0
NOTICE_SECONDS = 0.02
"""From the announcement of a pause to the pause: it has to reach the network."""
LEAST_GROWTH = 300_000
"""Blocks of memory; a hub begins with as many."""
WORTH_SAYING_SECONDS = 0.1


class GarbageCollection:
    """Of this process, from `start` to `stop`. `announce` is called with True shortly before a
    pause, and with False when it is over."""

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
        """What was made so far stays: modules, classes, the parts of the server."""
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
            logger.info("looked for garbage for %.0f ms: %d objects", 1000 * took, found)
        self._again(LOOK_SECONDS, self._look)
