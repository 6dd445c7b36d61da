"""A feed whose owner answers what the test tells it to."""

from __future__ import annotations

import asyncio
from typing import Any

from harness.engine import Alone, FakeConnection
from hubbub.domain.asking import OwnerRequest
from hubbub.domain.errors import Unavailable
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON, Message
from hubbub.domain.notices import ChannelReset, HistoryPage, MessageDelivery
from hubbub.engine.delivery.feed import Feed
from hubbub.ports.bus import Attach, Attachment, MessagePublished


def message(serial: int) -> Message:
    return Message(f"m{serial}", "acme", "news", "e", b"1", JSON, 1000, serial)


def published(serial: int, epoch: str = "one") -> MessagePublished:
    return MessagePublished(message(serial), epoch)


class ScriptedOwner:
    """Answers what the test tells it to."""

    def __init__(self, alone: Alone) -> None:
        self.epoch = "one"
        self.head = 0
        self.oldest = 1
        self.stores = False
        """The beginning of a channel that stores is the same in every epoch."""
        self.asked: list[HistoryQuery] = []
        self.away = False
        self.gate: asyncio.Event | None = None
        """Closed: a question waits for its answer."""
        self.delay: asyncio.Event | None = None
        """Closed: an answer, as it was at the time of the question, is on its way."""
        bus = alone.node.bus
        bus.ask = self.ask  # type: ignore[method-assign]

    async def was_asked(self) -> None:
        """Waits until history was requested."""
        while not self.asked:
            await asyncio.sleep(0)

    async def ask(self, request: OwnerRequest[Any], /) -> Any:
        if isinstance(request, HistoryQuery):
            return await self._history(request)
        assert isinstance(request, Attach)
        return Attachment(self.epoch, self.head, None)

    async def _history(self, query: HistoryQuery) -> HistoryPage:
        self.asked.append(query)
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise Unavailable("the owner is away")
        assert query.after is not None
        same_epoch = query.epoch == self.epoch or (self.stores and query.after == 0)
        recovered = same_epoch and self.oldest - 1 <= query.after <= self.head
        messages = tuple(message(n) for n in range(query.after + 1, self.head + 1))
        page = HistoryPage(
            "news", messages if recovered else (), self.epoch, self.head, recovered=recovered
        )
        if self.delay is not None:
            await self.delay.wait()
        return page


class Following:
    """A subscriber of `news`, the feed it follows, and the owner behind it."""

    def __init__(self, alone: Alone, owner: ScriptedOwner, subscriber: FakeConnection) -> None:
        self.alone = alone
        self.owner = owner
        self.subscriber = subscriber

    @property
    def feed(self) -> Feed:
        return self.alone.node.node.hub("acme").feeds["news"]

    def heard(self) -> list[int | str]:
        return heard(self.subscriber)

    async def settle(self, last: int | str) -> list[int | str]:
        await self.subscriber.until(lambda: self.heard() and self.heard()[-1] == last)
        return self.heard()


def heard(by: FakeConnection) -> list[int | str]:
    """The serials of messages, and `epoch@serial` for each gap that was announced."""
    said: list[int | str] = []
    for notice in by.heard:
        if isinstance(notice, MessageDelivery):
            said.append(notice.message.serial)
        elif isinstance(notice, ChannelReset):
            said.append(f"{notice.epoch}@{notice.serial}")
    return said
