"""Subscriptions that were granted and are about to begin, and how much of what was missed they may
hold in memory until then."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from hubbub.domain.documents.changes import DocumentUpdate
from hubbub.domain.history import size_of
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage, SubscribedChannel
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.delivery.feed import Feed

KEPT_BYTES = 64 * 1024
_PAGES_AT_ONCE = 4


class Room:
    """What the plans of one request may hold together. A request for one channel holds a page,
    which is sent at once. One for several waits for the client in between: what does not fit into
    `KEPT_BYTES` is let go and read again when its turn comes."""

    def __init__(self, channels: int) -> None:
        self.reading = asyncio.Semaphore(_PAGES_AT_ONCE)
        """Held while a page is read: until `take` it counts nowhere."""
        self._left = KEPT_BYTES if channels > 1 else None

    def take(self, size: int) -> bool:
        """Whether so many bytes may be held; if so, they count."""
        if self._left is None:
            return True
        fits = size <= self._left
        if fits:
            self._left -= size
        return fits


class Missed(msgspec.Struct, frozen=True):
    """What a session missed of a channel: everything in `epoch` after `start`."""

    epoch: str
    recovered: bool
    """Nothing before it is gone."""
    found: bool
    """There is more to say than that what was asked for is gone."""
    start: int
    page: HistoryPage | None
    """Its first part; None: to be read again."""

    @classmethod
    def from_page(cls, page: HistoryPage, room: Room) -> Missed:
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
        """Whether the message is among what follows."""
        return self.continues(epoch) and message.serial > self.start


@dataclass(slots=True, eq=False)
class Plan:
    """A subscription that was granted and is about to begin."""

    feed: Feed
    wanted: ChannelRequest
    missed: Missed | None
    """None: nothing was asked for."""
    retains: bool
    retained: Message | None
    """The channel's retained message, as its owner answered."""
    passed: Message | None
    """The last one for retention that the feed had passed on when the owner was asked."""
    updates: tuple[DocumentUpdate, ...]
    """What changed in the channel's document since the version that the session has."""

    def take_page(self) -> HistoryPage | None:
        """The first part of what was missed; the plan holds it no longer."""
        missed = self.missed
        if missed is None:
            return None
        self.missed = msgspec.structs.replace(missed, page=None)
        return missed.page

    def newest_retained(self) -> Message | None:
        """The retained message as of now: a newer one may have passed since the owner's answer."""
        latest, answered = self.feed.retained, self.retained
        if not self.retains or latest is None or latest is self.passed:
            return answered
        if answered is not None and latest.published_at < answered.published_at:
            return answered
        return latest if latest.payload else None

    def start(self) -> tuple[str, int]:
        """Epoch and serial after which the session's messages begin."""
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
