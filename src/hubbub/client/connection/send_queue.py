"""A bounded queue of outgoing publishes, which also bridges disconnections."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from hubbub.client.envelope import size_of
from hubbub.client.errors import QueueFull
from hubbub.client.messages import Receipt
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import PublishResult
from hubbub.domain.requests import PublishItem

FRAME_ITEMS = 500
FRAME_BYTES = 64 * 1024


class QueuedPublish(msgspec.Struct, eq=False):
    """A publish, and the future of its receipt (None: no receipt)."""

    item: PublishItem
    receipt: asyncio.Future[Receipt] | None


class SendQueue:
    """Publishes that were never sent wait for the next connection. A publish that was sent and not
    acknowledged when the connection ended may or may not have arrived: its receipt fails."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._queue: deque[QueuedPublish] = deque()
        self._sent: dict[int, asyncio.Future[Receipt]] = {}
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, item: PublishItem, receipt: asyncio.Future[Receipt] | None) -> None:
        """Raises `QueueFull`."""
        if len(self._queue) >= self._limit:
            raise QueueFull(
                f"{self._limit} messages wait to be sent; publish to {item.channel!r} again later"
            )
        self._queue.append(QueuedPublish(item, receipt))
        self._filled.set()
        self._emptied.clear()

    async def filled(self) -> None:
        """Waits until there are publishes to send."""
        await self._filled.wait()

    def take(self) -> tuple[PublishItem, ...]:
        """Returns the publishes for the next frame; they count as sent from here on."""
        items: list[PublishItem] = []
        size = 0
        while self._queue and len(items) < FRAME_ITEMS:
            outgoing = self._queue[0]
            size += size_of(outgoing.item)
            if items and size > FRAME_BYTES:
                break
            self._queue.popleft()
            receipt = outgoing.receipt
            if receipt is not None:
                if receipt.done():  # nobody waits any more
                    continue
                assert outgoing.item.req_id is not None
                self._sent[outgoing.item.req_id] = receipt
            items.append(outgoing.item)
        if not self._queue:
            self._filled.clear()
            self._check_empty()
        return tuple(items)

    def acknowledge(self, result: PublishResult) -> None:
        receipt = self._sent.pop(result.req_id, None)
        if receipt is not None and not receipt.done():
            if result.error is not None:
                receipt.set_exception(result.error)
            else:
                receipt.set_result(
                    Receipt(result.message_id or "", result.serial, result.duplicate)
                )
        self._check_empty()

    def fail_sent(self, error: HubbubError) -> None:
        """Fails the receipts of sent publishes, since the connection ended."""
        sent, self._sent = self._sent, {}
        for receipt in sent.values():
            if not receipt.done():
                receipt.set_exception(error)
        self._check_empty()

    def fail_all(self, error: HubbubError) -> None:
        """Fails all receipts, since there will be no other connection."""
        queue, self._queue = self._queue, deque()
        for outgoing in queue:
            if outgoing.receipt is not None and not outgoing.receipt.done():
                outgoing.receipt.set_exception(error)
        self.fail_sent(error)

    async def emptied(self) -> None:
        """Waits until all publishes are sent and, if requested, acknowledged."""
        await self._emptied.wait()

    def _check_empty(self) -> None:
        if not self._queue and not self._sent:
            self._emptied.set()
