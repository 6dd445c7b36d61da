"""Starting the parts of a process one after the other, and stopping them in reverse order."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

logger = logging.getLogger(__name__)


def _nothing() -> None:
    pass


Action = Callable[[], Awaitable[object] | None]


class Step(NamedTuple):
    """A part of the process: how it is started, and how it is stopped. `stop` also undoes a `start`
    that failed half-way. Parts that need no start have only a `stop`."""

    name: str
    start: Action = _nothing
    stop: Action = _nothing


class Steps:
    """Start steps. They are stopped in reverse order, also after a start that failed half-way."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps
        self._begun: list[Step] = []

    async def start(self) -> None:
        """Raises what the first failing step raises, after everything was stopped again."""
        try:
            for step in self._steps:
                self._begun.append(step)
                await _run(step.start)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stops all steps; a failure of one is logged and does not affect the others. Ends early
        when cancelled, because the caller's time limit expired."""
        while self._begun:
            step = self._begun.pop()
            try:
                await _run(step.stop)
            except Exception:
                logger.exception("could not stop: %s", step.name)


async def _run(action: Action) -> None:
    under_way = action()
    if under_way is not None:
        await under_way
