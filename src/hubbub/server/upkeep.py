"""Work that a process repeats as long as it runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from hubbub.domain.errors import HubbubError
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class PeriodicWork:
    """Repeats each work with its own pause. A failure is logged, and the work tried again."""

    def __init__(self, works: Sequence[tuple[float, Work]]) -> None:
        """`works`: the pause in seconds, and what to do after it."""
        self._works = works
        self._tasks = TaskSet()

    def start(self) -> None:
        for seconds, work in self._works:
            self._tasks.start(_repeat(seconds, work))

    async def stop(self) -> None:
        """Cancels also what is being done."""
        await self._tasks.end()


async def _repeat(seconds: float, work: Work) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except HubbubError as error:
            logger.warning("upkeep failed, will try again: %s", error)
        except Exception:
            logger.exception("upkeep failed, will try again")
