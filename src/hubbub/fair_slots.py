"""Slots of a bounded resource in fair shares: tenants have a queue each, and take turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hubbub.domain.errors import Overloaded
from hubbub.domain.shares import FairShare


class FairSlots:
    """Single-threaded, for the event loop. Each taken slot must be given back."""

    def __init__(self, total: int) -> None:
        self._share = FairShare(total)
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting futures by tenant, the next tenant first."""

    @property
    def taken(self) -> int:
        return self._share.taken

    def try_take(self, tenant: str) -> bool:
        """Takes a slot without waiting, unless others wait."""
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


class FairPlaces:
    """Slots and a bounded queue for them, both in fair shares."""

    def __init__(self, slots: int, waiting: int, what: str) -> None:
        """`what` names the overloaded resource in the error's message."""
        self._slots = FairSlots(slots)
        self._places = FairShare(slots + waiting)
        self._what = what

    @asynccontextmanager
    async def slot(self, tenant: str) -> AsyncIterator[None]:
        """Waits for a slot. Raises `Overloaded` if the tenant has its share of the queue."""
        if not self._places.may_take(tenant):
            raise Overloaded(f"too many {self._what} at once; ask again in a moment")
        self._places.take(tenant)
        try:
            await self._slots.take(tenant)
            try:
                yield
            finally:
                self._slots.give_back(tenant)
        finally:
            self._places.give_back(tenant)
