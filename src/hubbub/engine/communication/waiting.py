"""Callers that wait for the verdict of a message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from hubbub.domain.communication.policies import DeliveryVerdict
from hubbub.domain.communication.requests import VerdictTold

Waiting = asyncio.Future[VerdictTold]


class Waiters:
    """The waiting callers of one hub at the owner of its log."""

    def __init__(self) -> None:
        self._by_message: dict[str, set[Waiting]] = {}

    @contextmanager
    def waiting(self, message_id: str) -> Iterator[Waiting]:
        told: Waiting = asyncio.get_running_loop().create_future()
        others = self._by_message.setdefault(message_id, set())
        others.add(told)
        try:
            yield told
        finally:
            others.discard(told)
            if not others and self._by_message.get(message_id) is others:
                del self._by_message[message_id]

    def tell(self, message_id: str, verdict: DeliveryVerdict) -> None:
        for told in self._by_message.get(message_id, ()):
            if not told.done():
                told.set_result(VerdictTold(verdict.result, verdict.reason))
