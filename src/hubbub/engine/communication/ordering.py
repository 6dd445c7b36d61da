"""Messages that wait before they begin: later ones to the same receivers do not overtake them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence


class ReceiverOrder:
    """Of one hub."""

    def __init__(self) -> None:
        self.waiting = 0
        self._last: dict[str, asyncio.Task[None]] = {}
        """By receiver: ends when the last message to it that waits has begun."""

    def before(self, receivers: Sequence[str]) -> set[asyncio.Task[None]]:
        """What must have ended before a message to these receivers begins."""
        last = self._last
        return {last[each] for each in receivers if each in last} if last else set()

    def add(self, receivers: Sequence[str], beginning: asyncio.Task[None]) -> None:
        """A message to these receivers has begun when the task has ended."""
        self.waiting += 1
        for receiver in receivers:
            self._last[receiver] = beginning
        beginning.add_done_callback(lambda ended: self._ended(receivers, ended))

    def _ended(self, receivers: Sequence[str], task: asyncio.Task[None]) -> None:
        self.waiting -= 1
        for receiver in receivers:
            if self._last.get(receiver) is task:
                del self._last[receiver]
