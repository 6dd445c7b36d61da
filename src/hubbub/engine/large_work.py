"""Work that takes milliseconds on the event loop (large answers, large documents): one piece after
the other in each hub, with turns of the loop in between in which everyone else is served."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

SMALL_BYTES = 32 * 1024
"""What is larger takes milliseconds."""
TURN_BYTES = 16 * 1024
"""For each of these, large work leaves the loop to others for one turn more."""


async def leave_loop(size: int) -> None:
    """Let others have their turns, before or after work on so many bytes."""
    if size > SMALL_BYTES:
        for _ in range(1 + size // TURN_BYTES):
            await asyncio.sleep(0)


class HubLocks:
    """A lock for each hub, kept while somebody uses it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, hub: str) -> asyncio.Lock:
        found = self._locks.get(hub)
        if found is None:
            found = self._locks[hub] = asyncio.Lock()
        return found
