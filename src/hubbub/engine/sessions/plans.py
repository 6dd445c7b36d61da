"""Granted subscriptions that are about to begin, and the memory for their missed messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from hubbub.domain.history import size_of
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, SubscribedChannel
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.delivery.feed import Feed

KEPT_BYTES = 64 * 1024
_PAGES_AT_ONCE = 4


class PlanMemory:
    """The memory budget for the plans of one request. A request for one channel keeps a page, which
    is sent at once. A request for several waits for the client in between: pages beyond
    `KEPT_BYTES` are dropped and read again when their turn comes."""

    def __init__(self, channels: int) -> None:
        self.reading = asyncio.Semaphore(_PAGES_AT_ONCE)
        """Held while a page is read, which counts only from `take` on. Each request has its own, so
        that none waits for another tenant."""
        self._left = KEPT_BYTES if channels > 1 else None

    def take(self, size: int) -> bool:
        """Reserves this many bytes, if available."""
        if self._left is None:
            return True
        fits = size <= self._left
        if fits:
            self._left -= size
        return fits


class Missed(msgspec.Struct, frozen=True):
    """The messages of a channel that a session missed: all in `epoch` after `start`."""

    epoch: str
    recovered: bool
    """No earlier message was lost."""
    found: bool
    """False if the requested messages no longer exist."""
    start: int
    page: HistoryPage | None
    """The first page; None: it must be read again."""

    @classmethod
    def from_page(cls, page: HistoryPage, room: PlanMemory) -> Missed:
        messages = page.messages
        return cls(
            page.epoch,
            page.recovered,
            page.recovered or bool(messages),
            messages[0].serial - 1 if messages else page.head,
            page if room.take(sum(map(size_of, messages))) else None,
        )

    def continues(self, epoch: str) -> bool:
        return self.found and self.epoch == epoch

    def includes(self, message: Message, epoch: str) -> bool:
        """Whether the message is among the missed ones."""
        return self.continues(epoch) and message.serial > self.start


@dataclass(slots=True, eq=False)
class Plan:
    """A granted subscription that is about to begin."""

    feed: Feed
    wanted: SubscribeItem
    missed: Missed | None
    """None: no missed messages were requested."""
    retains: bool
    retained: Message | None
    """The channel's retained message in the owner's response."""
    passed: Message | None
    """The last retained message that the feed had delivered when the owner was asked."""
    part_missed: Sequence[Any]
    """What the session missed of the state that a room adds to the channel (`FeedPart`)."""

    def take_page(self) -> HistoryPage | None:
        """Removes and returns the first page of missed messages."""
        missed = self.missed
        if missed is None:
            return None
        self.missed = msgspec.structs.replace(missed, page=None)
        return missed.page

    def newest_retained(self) -> Message | None:
        """The current retained message: a newer one may have been delivered since the owner's
        response."""
        latest, answered = self.feed.retained, self.retained
        if not self.retains or latest is None or latest is self.passed:
            return answered
        if answered is not None and latest.published_at < answered.published_at:
            return answered
        return latest if latest.payload else None

    def start(self) -> tuple[str, int]:
        """The epoch and serial after which the session's messages begin."""
        if self.missed is not None and self.missed.continues(self.feed.epoch):
            return self.missed.epoch, self.missed.start
        return self.feed.epoch, self.feed.position

    def confirmation(self) -> SubscribedChannel:
        return SubscribedChannel(
            channel=self.feed.channel,
            epoch=self.feed.epoch,
            serial=self.feed.position,
            recovered=self.missed is None
            or (self.missed.recovered and self.missed.epoch == self.feed.epoch),
        )
