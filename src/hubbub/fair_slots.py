"""Slots of a bounded whole, in fair shares: tenants wait in a queue each, and take turns."""

from __future__ import annotations

import asyncio
from collections import deque

from hubbub.domain.shares import FairShare


class FairSlots:
    """On the event loop's thread. Whoever takes a slot gives it back."""

    def __init__(self, total: int) -> None:
        self._share = FairShare(total)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By tenant; the first in turn comes first."""

    @property
    def taken(self) -> int:
        return self._share.taken

    def try_take(self, tenant: str) -> bool:
        """Without waiting, and not past those who wait."""
        if tenant in self._waiting or not self._share.may_take(tenant):
            return False
        self._share.take(tenant)
        return True

    async def take(self, tenant: str) -> None:
        """Waits until the tenant has less than its share."""
        if self.try_take(tenant):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                self.give_back(tenant)
            else:
                self._forget(tenant, waiter)
            raise

    def give_back(self, tenant: str) -> None:
        self._share.give_back(tenant)
        passed_over = 0
        while passed_over < len(self._waiting):
            following = next(iter(self._waiting))
            queue = self._waiting.pop(following)
            if self._share.may_take(following):
                waiter = queue.popleft()
                if not waiter.done():
                    self._share.take(following)
                    waiter.set_result(None)
                passed_over = 0
            else:
                passed_over += 1
            if queue:
                self._waiting[following] = queue

    def _forget(self, tenant: str, waiter: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and waiter in queue:
            queue.remove(waiter)
            if not queue:
                del self._waiting[tenant]
