"""The cursor cache: durable subscriptions in memory and on disk, and messages read ahead."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from itertools import islice
from typing import Any

from hubbub.domain.cursors import runs_of
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.history import PAGE_BYTES, size_of
from hubbub.domain.messages import Message
from hubbub.domain.topics import SubscriptionKey
from hubbub.engine.channels.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursors import (
    Cursors,
    DurableSubscription,
    cursor_of,
    no_topic,
    not_subscribed,
)
from hubbub.ports.storage.topics import TopicStore
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

_READ_AHEAD = 500
"""Messages that are read from the store at once, for the next who ask."""


def subscriptions_of(channel: Channel) -> Sequence[DurableSubscription]:
    """Those in memory, as they are now."""
    return tuple(channel.cursors.subscriptions.values()) if channel.cursors is not None else ()


class CursorCache:
    """Of all channels of one owner."""

    def __init__(
        self, store: TopicStore, terms: Mapping[int, int], counters: defaultdict[str, TopicCounters]
    ) -> None:
        self.store = store
        self.channels: dict[Channel, None] = {}
        """Those whose subscriptions are in memory."""
        self._terms = terms
        self._counters = counters
        self._tasks = TaskSet(_log_unsaved)

    def forget(self, channel: Channel) -> None:
        self.channels.pop(channel, None)
        subscriptions, channel.cursors = subscriptions_of(channel), None
        for subscription in subscriptions:
            subscription.end()

    async def settle(self) -> None:
        """Let what was begun end."""
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    # -- subscriptions --------------------------------------------------------------------------

    async def subscription(self, channel: Channel, key: SubscriptionKey) -> DurableSubscription:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        cursors = channel.cursors
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
        """The channel's subscriptions, read from the store at the first time."""
        cursors = channel.cursors
        if cursors is None:
            cursors = channel.cursors = Cursors()
            try:
                saved = await self.store.read_cursors(channel.hub, channel.name)
            except BaseException:
                channel.cursors = None
                cursors.ready.set()
                raise
            for each in saved:
                key = SubscriptionKey(each.hub, each.channel, each.owner, each.name)
                subscription = DurableSubscription(key, cursor_of(each, channel.epoch))
                cursors.subscriptions[each.owner, each.name] = subscription
                self._lose_before(channel, subscription, channel.first)
            self.channels[channel] = None
            cursors.ready.set()
        elif not cursors.ready.is_set():
            await cursors.ready.wait()
            return await self.cursors(channel)
        return cursors

    async def save(
        self, channel: Channel, subscription: DurableSubscription, changed: bool = False
    ) -> None:
        """Have the subscription on disk as it is now. Saves that meet are one."""
        if changed:
            subscription.version += 1
        target = subscription.version
        async with subscription.lock:
            if subscription.saved >= target or subscription.gone:
                return
            version = subscription.version
            try:
                await self.store.save_cursor(subscription.to_save(), *self.term(channel))
            except StaleOwner:
                channel.cursors = None  # another node knows better
                raise
            subscription.saved = version

    def save_soon(self, channel: Channel, subscription: DurableSubscription) -> None:
        """It changed in a way that nobody waits for."""
        subscription.version += 1
        self.run(self.save(channel, subscription))

    def term(self, channel: Channel) -> tuple[int, int]:
        return channel.partition, self._terms.get(channel.partition, 0)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that ends by itself, and is waited for when the owner stops."""
        self._tasks.start(work)

    # -- messages -------------------------------------------------------------------------------

    async def read(self, channel: Channel, serials: Sequence[int]) -> dict[int, Message]:
        """Some of them, about a page at most, in any case the first ones, unless they are gone."""
        cursors = channel.cursors
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
        """The store reads the next page while this one is handed out."""
        last = cursors.page[-1].serial
        if cursors.ahead is None and last < channel.head and not cursors.known(last + 1):
            cursors.ahead = self._tasks.start(self._next_page(channel, last))

    async def _next_page(self, channel: Channel, after: int) -> Sequence[Message]:
        """Nothing where it cannot be read: who needs the page asks once more, and is told why."""
        try:
            page = await self.store.read_after(channel.hub, channel.name, after, _READ_AHEAD)
        except HubbubError:
            return ()
        return page.messages

    @staticmethod
    async def _page_ahead(cursors: Cursors, serial: int) -> Sequence[Message]:
        """The page that is read ahead, if it begins with this message."""
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
        """The channel's messages begin here now; who had not got those before has missed them."""
        for subscription in subscriptions_of(channel):
            self._lose_before(channel, subscription, first)

    def _lose_before(self, channel: Channel, subscription: DurableSubscription, first: int) -> None:
        missed = subscription.cursor.lose_before(first)
        if missed:
            self._counters[channel.hub].missed += missed
            self.save_soon(channel, subscription)


def _log_unsaved(error: BaseException) -> None:
    logger.warning("a durable subscription could not be saved: %s", error)
