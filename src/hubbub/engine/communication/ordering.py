"""Keeps messages to the same receivers in order while they wait to start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence


class ReceiverOrder:
    """The order of one hub's waiting messages."""

    def __init__(self) -> None:
        self.waiting = 0
        self._last: dict[str, asyncio.Task[None]] = {}
        """By receiver: the task that ends when the last waiting message to it has started."""

    def before(self, receivers: Sequence[str]) -> set[asyncio.Task[None]]:
        """Tasks that must end before a message to these receivers starts."""
        last = self._last
        return {last[each] for each in receivers if each in last} if last else set()

    def add(self, receivers: Sequence[str], beginning: asyncio.Task[None]) -> None:
        """Registers the task at whose end a message to these receivers has started."""
        self.waiting += 1
        for receiver in receivers:
            self._last[receiver] = beginning
        beginning.add_done_callback(lambda ended: self._ended(receivers, ended))

    def _ended(self, receivers: Sequence[str], task: asyncio.Task[None]) -> None:
        self.waiting -= 1
        for receiver in receivers:
            if self._last.get(receiver) is task:
                del self._last[receiver]
