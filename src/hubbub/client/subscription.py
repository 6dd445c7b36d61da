"""A subscription: the messages of one or more channels, in order, each exactly once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Literal, Protocol

from hubbub.client.errors import ClientClosed, MessagesLost
from hubbub.client.events import (
    Gap,
    Joined,
    Left,
    Member,
    NotificationInfo,
    Occupancy,
    Presence,
    Told,
)
from hubbub.client.messages import Message, from_delivery
from hubbub.client.tracker import PatternTracker, Tracker, Verdict
from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import (
    ChannelReset,
    MessageDelivery,
    SubscribedChannel,
    SubscribedPattern,
)
from hubbub.domain.notifications import NotificationState

ChannelEvent = Gap | Told
OnGap = Literal["mark", "raise"]


class SubscriptionOwner(Protocol):
    """The client, as seen by its subscriptions."""

    def recover(self, tracker: Tracker) -> None:
        """Asks the hub to continue from the tracker's position."""

    def emit(self, gap: Gap) -> None: ...
    async def end(self, subscription: Subscription) -> None: ...


class Subscription:
    """Created by `Client.subscribe`. Iterate over it for messages, or over `events()` for messages,
    gaps, joins, leaves and occupancy.

    Awaiting it, or entering it with `async with`, waits until the hub confirmed. Its queue is
    bounded: if the application is slower than the channels, the subscription leaves the live stream
    and fetches the rest from history when there is room again. Messages that are no longer in
    history become a `Gap`.
    """

    def __init__(
        self, owner: SubscriptionOwner, trackers: Iterable[Tracker], on_gap: OnGap, queue_size: int
    ) -> None:
        self._owner = owner
        self._trackers = {tracker.channel: tracker for tracker in trackers}
        self._on_gap = on_gap
        self._limit = queue_size
        self._queue: deque[Message | ChannelEvent] = deque()
        self._gap: Gap | None = None
        self._news: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._behind: set[str] = set()
        """Channels whose messages did not fit into the queue."""
        self._unplaced: set[str] = set()
        """Those channels that lost messages without a serial, which are not in history."""
        self._ended = False
        self._error: HubbubError | None = None
        self._confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unconfirmed = set(self._trackers)
        self.members: dict[str, dict[str, Member]] = {}
        """Present sessions by channel and session id, if the channel's rules publish them."""
        self.occupancy: dict[str, int] = {}
        """The number of subscribers by channel, if the channel's rules publish it."""
        self.notifications: dict[str, NotificationState] = {}
        """Counters of notification channels."""
        self.dropped = 0
        """Events other than messages that did not fit into the queue."""

    # -- for the application --------------------------------------------------------------------

    @property
    def channels(self) -> tuple[str, ...]:
        """The requested channels, including patterns, and the channels that match."""
        return tuple(self._trackers)

    @property
    def positions(self) -> dict[str, tuple[str, int]]:
        """Epoch and serial of the last message received from each channel: pass them to `subscribe`
        to continue there later."""
        return {
            channel: (tracker.epoch, tracker.serial)
            for channel, tracker in self._trackers.items()
            if tracker.epoch is not None and tracker.serial is not None
        }

    def __await__(self) -> Generator[None, None, Subscription]:
        return self._ready().__await__()

    async def _ready(self) -> Subscription:
        await asyncio.shield(self._confirmed)
        return self

    async def __aenter__(self) -> Subscription:
        return await self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """Ends the subscription. Queued messages can still be read."""
        await self._owner.end(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Message:
        while True:
            while self._queue:
                item = self._take()
                if type(item) is Message:
                    return item
                if type(item) is Gap and self._on_gap == "raise":
                    raise MessagesLost(item)
            await self._wait()

    async def events(self) -> AsyncIterator[Message | ChannelEvent]:
        """Messages and all other events of the channels, in order."""
        while True:
            while self._queue:
                yield self._take()
            try:
                await self._wait()
            except StopAsyncIteration:
                return

    async def batch(self) -> list[Message]:
        """All queued messages, at least one, for bulk processing. Empty at the end."""
        try:
            found = [await anext(self)]
        except StopAsyncIteration:
            return []
        while self._queue:
            item = self._take()
            if type(item) is Message:
                found.append(item)
            elif type(item) is Gap and self._on_gap == "raise":
                self._queue.appendleft(item)
                break
        return found

    def _take(self) -> Message | ChannelEvent:
        item = self._queue.popleft()
        if len(self._queue) <= self._limit // 2 and (self._room or self._behind):
            self._make_room()
        return item

    async def _wait(self) -> None:
        """Waits until the queue contains something."""
        if self._ended:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            raise StopAsyncIteration
        if self._news is None:
            self._news = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._news)

    # -- for the client -------------------------------------------------------------------------

    @property
    def _each_tracker(self) -> Iterable[Tracker]:
        return self._trackers.values()

    @property
    def _full(self) -> bool:
        """Whether the queue is full and the subscription is still live."""
        return len(self._queue) >= self._limit and not self._behind and not self._ended

    async def _wait_for_room(self, seconds: float) -> None:
        """Waits until the application has taken half of the queue, or for `seconds`."""
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._room], timeout=seconds)
        self._room = None
        if self._full:
            self._behind.update(
                channel
                for channel, tracker in self._trackers.items()
                if not isinstance(tracker, PatternTracker)
            )

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        behind, self._behind = self._behind, set()
        unplaced, self._unplaced = self._unplaced, set()
        for channel in unplaced:
            self._note(Gap(channel, "the application was too slow"))
        for channel in behind:
            self._owner.recover(self._trackers[channel])

    def _deliver(self, delivery: MessageDelivery) -> None:
        tracker = self._trackers[delivery.message.channel]
        if self._behind and tracker.channel in self._behind:
            if delivery.message.serial == 0:
                self._unplaced.add(tracker.channel)
            return
        if tracker.pattern is not None:
            tracker.pattern.newest = delivery.message.published_at
        verdict = tracker.judge(delivery)
        if verdict is Verdict.HAND_OVER:
            self._put_message(delivery)
        elif verdict is Verdict.RECOVER:
            self._owner.recover(tracker)
        elif verdict is Verdict.LOST:
            self._note(tracker.skip(delivery))
            self._put_message(delivery)

    def _put_message(self, delivery: MessageDelivery) -> None:
        message = from_delivery(delivery)
        if self._gap is not None:
            message.gap, self._gap = self._gap, None
        self._queue.append(message)
        if self._news is not None:
            self._wake()

    def _confirm(self, confirmed: SubscribedChannel) -> None:
        self._note(self._trackers[confirmed.channel].confirm(confirmed))
        self._unconfirmed.discard(confirmed.channel)
        if not self._unconfirmed and not self._confirmed.done():
            self._confirmed.set_result(None)

    def _confirm_pattern(self, confirmed: SubscribedPattern) -> None:
        tracker = self._trackers[confirmed.pattern]
        assert isinstance(tracker, PatternTracker)
        self._note(tracker.confirm_pattern(confirmed, int(time.time() * 1000)))
        self._unconfirmed.discard(confirmed.pattern)
        if not self._unconfirmed and not self._confirmed.done():
            self._confirmed.set_result(None)

    def _pattern_of(self, channel: str) -> PatternTracker | None:
        """The pattern that matches the channel."""
        for tracker in self._trackers.values():
            if isinstance(tracker, PatternTracker) and tracker.matches(channel):
                return tracker
        return None

    def _match(self, channel: str) -> bool:
        """Follows a channel if a pattern matches it."""
        pattern = self._pattern_of(channel)
        if pattern is not None:
            self._trackers[channel] = Tracker(channel, pattern=pattern)
        return pattern is not None

    def _matched(self, channel: str) -> bool:
        """Whether the channel is followed because a pattern matches it."""
        tracker = self._trackers.get(channel)
        return tracker is not None and tracker.pattern is not None

    def _forget(self, channel: str) -> None:
        """A matching channel was deleted."""
        del self._trackers[channel]
        self._behind.discard(channel)
        self._unplaced.discard(channel)
        self.members.pop(channel, None)
        self.occupancy.pop(channel, None)

    def _leave_out(self, channel: str, error: HubbubError) -> None:
        """The hub refuses access to this channel although it matches."""
        self._note(Gap(channel, error.message))

    def _reset(self, notice: ChannelReset) -> None:
        tracker = self._trackers[notice.channel]
        if not tracker.recovering and notice.channel not in self._behind:
            self._note(tracker.reset(notice))

    def _tell(self, event: Told) -> None:
        if isinstance(event, Occupancy):
            self.occupancy[event.channel] = event.count
        elif isinstance(event, NotificationInfo):
            self.notifications[event.channel] = event.state
        elif isinstance(event, Presence | Joined | Left):
            self._count_members(event)
        self._put_event(event)

    def _count_members(self, event: Presence | Joined | Left) -> None:
        members = self.members.setdefault(event.channel, {})
        if isinstance(event, Left):
            for member in event.members:
                members.pop(member.session_id, None)
            return
        if isinstance(event, Presence):
            members.clear()
        members.update({member.session_id: member for member in event.members})

    def _finish(self, error: HubbubError | None) -> None:
        """No more messages will arrive."""
        if self._ended:
            return
        self._ended = True
        self._error = error
        if not self._confirmed.done():
            closed = ClientClosed("the subscription was ended before the hub confirmed it")
            self._confirmed.set_exception(error or closed)
            self._confirmed.exception()  # who only iterates learns it there
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._behind.clear()
        self._wake()

    def _note(self, gap: Gap | None) -> None:
        if gap is not None:
            self._gap = gap
            self._put_event(gap)
            self._owner.emit(gap)

    def _put_event(self, event: ChannelEvent) -> None:
        if len(self._queue) < self._limit or isinstance(event, Gap):
            self._queue.append(event)
            self._wake()
        else:
            self.dropped += 1

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)
