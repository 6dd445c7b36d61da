"""Slices work that takes milliseconds on the event loop (large responses and documents): one slice
at a time per hub, with turns of the loop for other tasks in between."""

from __future__ import annotations

import asyncio
from typing import TypeVar
from weakref import WeakValueDictionary

from hubbub.domain.documents.steps import Steps

_T = TypeVar("_T")

SMALL_BYTES = 32 * 1024
"""Larger data takes milliseconds."""
CHANGE_WEIGHT = 4
"""A byte of a change to a document takes as long as so many bytes of a document that is read."""
TURN_BYTES = 16 * 1024
"""Large work yields one turn of the loop per this many bytes."""


async def leave_loop(size: int) -> None:
    """Yields to other tasks, before or after work on this many bytes."""
    if size > SMALL_BYTES:
        for _ in range(1 + size // TURN_BYTES):
            await asyncio.sleep(0)


class HubSlices:
    """Time slices for one hub's long work: one per turn of the loop for all tasks of the hub
    together."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def next(self) -> None:
        """Await it before a slice of at most about half a millisecond."""
        async with self._turn:
            await asyncio.sleep(0)


async def in_turns(steps: Steps[_T]) -> _T:
    """Runs work in steps, yields after each, and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result
        await asyncio.sleep(0)


class HubLocks:
    """A lock per hub, kept while it is used."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, hub: str) -> asyncio.Lock:
        found = self._locks.get(hub)
        if found is None:
            found = self._locks[hub] = asyncio.Lock()
        return found
