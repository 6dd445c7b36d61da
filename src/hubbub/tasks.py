"""Background tasks with strong references, as asyncio requires."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


def is_cancelled() -> bool:
    """Whether the running task was cancelled. Third-party code may raise its own `CancelledError`,
    which is an ordinary failure."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class TaskSet:
    """Tasks that run beside their caller. Exceptions go to `failed`, or else to the log."""

    __slots__ = ("_failed", "_tasks")

    def __init__(self, failed: Callable[[BaseException], None] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed = failed or _log

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    async def settle(self) -> None:
        """Waits until no task is left, including tasks started meanwhile."""
        while self._tasks:
            await self.settle_so_far()

    async def settle_so_far(self, seconds: float | None = None) -> None:
        """Waits until the currently running tasks have ended, for at most `seconds`."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    def cancel(self) -> None:
        """Cancels all tasks without waiting for them."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        """Cancels all tasks and waits for them."""
        self.cancel()
        await self.settle()


async def gather_some(limit: int, work: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all work, in order; at most `limit` run concurrently. The limit applies to
    this call alone."""
    gate = asyncio.Semaphore(limit)

    async def one(each: Awaitable[T]) -> T:
        async with gate:
            return await each

    return await asyncio.gather(*map(one, work))


def awaited(error: BaseException) -> None:
    """For awaited tasks, whose error reaches the awaiting caller."""


def _log(error: BaseException) -> None:
    logger.error("a background task failed", exc_info=error)


async def side_by_side(asking: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Waits for all of them. A single coroutine, the usual case, is awaited without a task, which
    would cost more."""
    if len(asking) == 1:
        return [await asking[0]]
    return await asyncio.gather(*asking)
