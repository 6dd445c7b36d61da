"""The cursor cache: durable subscriptions in memory and on disk, with read-ahead of messages."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from itertools import islice
from typing import Any

from msgspec import UNSET

from hubbub.domain.audit import Audit
from hubbub.domain.cursors import runs_of
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.history import PAGE_BYTES, size_of
from hubbub.domain.messages import Message
from hubbub.domain.topics import SubscriptionKey, no_topic
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.terms import Terms
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursors import (
    Cursors,
    DurableSubscription,
    cursor_of,
    not_subscribed,
)
from hubbub.ports.storage.topics import TopicStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_READ_AHEAD = 500
"""Messages read from the store at once for the next consumers."""


def subscriptions_of(channel: Channel) -> Sequence[DurableSubscription]:
    """The subscriptions that are in memory, as a snapshot."""
    cursors = channel.state_of(Cursors)
    return tuple(cursors.subscriptions.values()) if cursors is not None else ()


class CursorCache:
    """Durable subscriptions of all channels of one owner."""

    def __init__(
        self, store: TopicStore, terms: Terms, counters: defaultdict[str, TopicCounters]
    ) -> None:
        self.store = store
        self.channels: dict[tuple[str, str], Channel] = {}
        """Channels whose subscriptions are in memory, by hub and name."""
        self._terms = terms
        self._counters = counters
        self._tasks = TaskSet(_log_unsaved)

    def forget(self, channel: Channel) -> None:
        subscriptions = subscriptions_of(channel)
        if self.channels.get((channel.hub, channel.name)) is channel:
            del self.channels[channel.hub, channel.name]
        channel.drop_state(Cursors)
        for subscription in subscriptions:
            subscription.end()

    async def settle(self) -> None:
        """Waits for reads and writes in progress."""
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    # -- subscriptions --------------------------------------------------------------------------

    async def subscription(self, channel: Channel, key: SubscriptionKey) -> DurableSubscription:
        """A durable subscription. Raises `NotSubscribed`, `TopicNotFound`."""
        cursors = channel.state_of(Cursors)
        if cursors is None or not cursors.ready.is_set():
            cursors = await self.cursors(channel)
        return self.find(channel, cursors, key)

    @staticmethod
    def find(channel: Channel, cursors: Cursors, key: SubscriptionKey) -> DurableSubscription:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        subscription = cursors.subscriptions.get((key.owner, key.name))
        if subscription is not None:
            return subscription
        if not channel.head and not cursors.subscriptions:
            raise no_topic(key.hub, key.channel)
        raise not_subscribed(key)

    async def cursors(self, channel: Channel) -> Cursors:
        """The channel's subscriptions, read from the store at the first call."""
        cursors = channel.state_of(Cursors)
        if cursors is None:
            cursors = Cursors()
            channel.put_state(cursors)
            try:
                saved = await self.store.read_cursors(channel.hub, channel.name)
            except BaseException:
                channel.drop_state(Cursors)
                cursors.ready.set()
                raise
            for each in saved:
                key = SubscriptionKey(each.hub, each.channel, each.owner, each.name)
                subscription = DurableSubscription(key, cursor_of(each, channel.epoch))
                cursors.subscriptions[each.owner, each.name] = subscription
                self._lose_before(channel, subscription, channel.first)
            self.channels[channel.hub, channel.name] = channel
            cursors.ready.set()
        elif not cursors.ready.is_set():
            await cursors.ready.wait()
            return await self.cursors(channel)
        return cursors

    async def save(
        self,
        channel: Channel,
        subscription: DurableSubscription,
        changed: bool = False,
        new: bool = False,
        audit: Audit = UNSET,
    ) -> None:
        """Writes the subscription's current state to disk; concurrent saves are merged, except
        one with an audit entry. Raises
        `QuotaExceeded` for a new subscription."""
        if changed:
            subscription.version += 1
        target = subscription.version
        async with subscription.lock:
            if (not audit and subscription.saved >= target) or subscription.gone:
                return
            version = subscription.version
            try:
                store = self.store.audited(audit)
                save = store.create_cursor if new else store.save_cursor
                await save(subscription.to_save(), *self.term(channel))
            except StaleOwner:
                channel.drop_state(Cursors)  # another node knows better
                raise
            subscription.saved = version

    def save_soon(self, channel: Channel, subscription: DurableSubscription) -> None:
        """Schedules a save that nobody waits for."""
        subscription.version += 1
        self.run(self.save(channel, subscription))

    def term(self, channel: Channel) -> tuple[int, int]:
        return channel.partition, self._terms.of(channel)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a task that ends by itself; the owner waits for it when it stops."""
        self._tasks.start(work)

    # -- messages -------------------------------------------------------------------------------

    async def read(self, channel: Channel, serials: Sequence[int]) -> dict[int, Message]:
        """Returns about a page of the messages with these serials, at least the first ones unless
        they were deleted."""
        cursors = channel.state_of(Cursors)
        if cursors is not None:
            known = cursors.known(serials[0]) or await self._page_ahead(cursors, serials[0])
            if known:
                first = known[0].serial
                if known is cursors.page:
                    self._read_ahead(channel, cursors)
                if serials[-1] - serials[0] == len(serials) - 1:
                    return dict(zip(serials, islice(known, serials[0] - first, None), strict=False))
                return {s: known[s - first] for s in serials if s - first < len(known)}
        found: dict[int, Message] = {}
        room = PAGE_BYTES
        for start, end in runs_of(serials):
            size = max(end - start + 1, _READ_AHEAD)
            page = await self.store.read_after(channel.hub, channel.name, start - 1, size)
            wanted = [message for message in page.messages if message.serial <= end]
            found.update((message.serial, message) for message in wanted)
            room -= sum(map(size_of, wanted))
            if page.head is not None and page.head.first > start:
                self.lost_before(channel, page.head.first)
            if cursors is not None:
                cursors.page, cursors.ahead = page.messages, None
            if room <= 0 or len(wanted) < end - start + 1:
                break
        return found

    def _read_ahead(self, channel: Channel, cursors: Cursors) -> None:
        """Starts reading the next page while the current one is delivered."""
        last = cursors.page[-1].serial
        if cursors.ahead is None and last < channel.head and not cursors.known(last + 1):
            cursors.ahead = self._tasks.start(self._next_page(channel, last))

    async def _next_page(self, channel: Channel, after: int) -> Sequence[Message]:
        """Returns nothing if the read fails: the consumer that needs the page repeats it and gets
        the error."""
        try:
            page = await self.store.read_after(channel.hub, channel.name, after, _READ_AHEAD)
        except HubbubError:
            return ()
        return page.messages

    @staticmethod
    async def _page_ahead(cursors: Cursors, serial: int) -> Sequence[Message]:
        """The page being read ahead, if it begins with this message."""
        if cursors.ahead is None or not cursors.page or cursors.page[-1].serial + 1 != serial:
            return ()
        reading = cursors.ahead
        page = await asyncio.shield(reading)
        if cursors.ahead is reading:
            cursors.ahead = None
            if page and page[0].serial == serial:
                cursors.page = page
        return cursors.known(serial)

    def lost_before(self, channel: Channel, first: int) -> None:
        """Earlier messages of the channel were deleted: subscriptions that had not received them
        count them as missed."""
        for subscription in subscriptions_of(channel):
            self._lose_before(channel, subscription, first)

    def _lose_before(self, channel: Channel, subscription: DurableSubscription, first: int) -> None:
        missed = subscription.cursor.lose_before(first)
        if missed:
            self._counters[channel.hub].missed += missed
            self.save_soon(channel, subscription)


def _log_unsaved(error: BaseException) -> None:
    logger.warning("a durable subscription could not be saved: %s", error)
