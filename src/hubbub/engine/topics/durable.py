"""Durable subscriptions at the owner of a channel: hand messages out, wait, take acknowledgements.

What a subscription has done is on disk before anyone is told so. What it is handed out is read from
the store, or from the channel's last messages, which stay in memory while somebody asks for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence

import msgspec

from hubbub.domain.cursors import Cursor, CursorRecord, Pick, runs_of
from hubbub.domain.envelope import has_expired
from hubbub.domain.errors import BadRequest, QuotaExceeded
from hubbub.domain.messages import Message
from hubbub.domain.topics import (
    MAX_BATCH,
    Acknowledge,
    Article,
    GetMessages,
    SubscribeTopic,
    SubscriptionInfo,
    SubscriptionKey,
    SubscriptionOptions,
    SubscriptionRequest,
    TopicAnswer,
    UnsubscribeTopic,
)
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursor_cache import CursorCache, subscriptions_of
from hubbub.engine.topics.cursors import DurableSubscription, not_subscribed
from hubbub.engine.topics.dead_letters import DeadLetters, Publish
from hubbub.engine.topics.receipts import Receipts
from hubbub.engine.topics.waiting import WaitingGet
from hubbub.ports.clock import Clock
from hubbub.ports.storage.topics import TopicStore

MAX_SUBSCRIPTIONS = 10_000
"""Of one channel."""


class DurableSubscriptions:
    """Serves all channels of one owner. Channels are loaded and store when they come here."""

    def __init__(
        self,
        store: TopicStore,
        clock: Clock,
        terms: Mapping[int, int],
        publish: Publish,
        receipts: Receipts,
        counters: defaultdict[str, TopicCounters],
        access: AccessRegistry,
    ) -> None:
        """`publish` takes dead letters to wherever their channel is owned."""
        self._access = access
        self._clock = clock
        self._receipts = receipts
        self._counters = counters
        self._cache = CursorCache(store, terms, counters)
        self._dead_letters = DeadLetters(self._cache, clock, publish, receipts, counters)
        self._closing = False

    def forget(self, channel: Channel) -> None:
        """The owner lets the channel go, or its hub is gone."""
        self._cache.forget(channel)

    async def settle(self) -> None:
        """Send away who waits, and let what was begun end."""
        self._closing = True
        for channel in self._cache.channels:
            for subscription in subscriptions_of(channel):
                subscription.wake()
        await self._cache.settle()

    async def settle_so_far(self) -> None:
        await self._cache.settle_so_far()

    # -- requests -------------------------------------------------------------------------------

    def serve(self, channel: Channel, request: SubscriptionRequest) -> Awaitable[TopicAnswer]:
        if isinstance(request, GetMessages):
            return self.get(channel, request)
        if isinstance(request, Acknowledge):
            return self.acknowledge(channel, request)
        if isinstance(request, SubscribeTopic):
            return self.subscribe(channel, request)
        if isinstance(request, UnsubscribeTopic):
            return self.unsubscribe(channel, request.key)
        return self.describe(channel, request.key)

    async def subscribe(self, channel: Channel, request: SubscribeTopic) -> SubscriptionInfo:
        cursors = await self._cache.cursors(channel)
        key = request.key
        async with cursors.lock:
            subscription = cursors.subscriptions.get((key.owner, key.name))
            if subscription is not None:
                if request.options is not None and request.options != subscription.cursor.options:
                    self._reconfigure(subscription, request.options)
                    await self._cache.save(channel, subscription)
                return subscription.info(channel.epoch, channel.head)
            if len(cursors.subscriptions) >= MAX_SUBSCRIPTIONS:
                raise QuotaExceeded(
                    f"channel {channel.name!r} has {MAX_SUBSCRIPTIONS} durable subscriptions, as "
                    "many as it may; remove one that nobody needs"
                )
            floor = await self._starting_floor(channel, request)
            record = CursorRecord(
                options=request.options or SubscriptionOptions(),
                epoch=channel.epoch,
                created_at=int(self._clock.now() * 1000),
                reserved=floor,
            )
            subscription = DurableSubscription(key, Cursor(floor, record))
            await self._cache.save(channel, subscription, changed=True)
            cursors.subscriptions[key.owner, key.name] = subscription
        return msgspec.structs.replace(subscription.info(channel.epoch, channel.head), new=True)

    async def unsubscribe(self, channel: Channel, key: SubscriptionKey) -> None:
        cursors = await self._cache.cursors(channel)
        async with cursors.lock:
            subscription = self._cache.find(channel, cursors, key)
            await self._cache.store.delete_cursor(
                key.hub, key.channel, key.owner, key.name, *self._cache.term(channel)
            )
            del cursors.subscriptions[key.owner, key.name]
            subscription.end()

    async def describe(self, channel: Channel, key: SubscriptionKey) -> SubscriptionInfo:
        return (await self._cache.subscription(channel, key)).info(channel.epoch, channel.head)

    async def get(self, channel: Channel, request: GetMessages) -> tuple[Article, ...]:
        """Raises `NotPermitted` or `InvalidToken` as soon as access ends, also while it waits."""
        if not 1 <= request.limit <= MAX_BATCH:
            raise BadRequest(f"limit is {request.limit}; give a number from 1 to {MAX_BATCH}")
        subscription = await self._cache.subscription(channel, request.key)
        if request.ack_up_to is not None:
            await self._acknowledge_up_to(channel, subscription, request)
        deadline = self._clock.monotonic() + request.wait_seconds
        while True:
            before = subscription.cursor.floor, subscription.cursor.expired
            articles = await self._take(channel, subscription, request)
            if not articles and (subscription.cursor.floor, subscription.cursor.expired) != before:
                continue  # what came next is gone, or has expired; look behind it
            seconds = deadline - self._clock.monotonic()
            if articles or seconds <= 0 or self._closing:
                return articles
            self._access.check(channel.hub, request.reader, channel.name)
            with self._access.adding(channel.hub, WaitingGet(request, subscription)):
                if not await subscription.wait(seconds):
                    return articles
            if subscription.gone:
                raise not_subscribed(request.key)

    async def acknowledge(self, channel: Channel, request: Acknowledge) -> int:
        subscription = await self._cache.subscription(channel, request.key)
        cursor = subscription.cursor
        if (request.up_to is None) == (not request.serials):
            raise BadRequest("give either serials or upTo")
        if request.give_back:
            if cursor.give_back(_named(request, cursor), request.consumer):
                subscription.wake()
            return cursor.floor
        if request.dead:
            for serial in request.serials:
                await self._dead_letters.move(channel, subscription, serial)
            return cursor.floor
        if request.replayed:
            cursor.replayed += len(request.serials)
            await self._cache.save(channel, subscription, changed=True)
            return cursor.floor
        if request.expired:
            self._pass_expired(channel, subscription, request.serials)
            await self._cache.save(channel, subscription, changed=True)
            return cursor.floor
        if request.up_to is not None:
            done = _done_up_to(cursor, request.up_to)
            fresh = cursor.acknowledge_up_to(request.up_to, channel.head, request.consumer)
        else:
            done = runs_of(request.serials)
            fresh = cursor.acknowledge(request.serials, channel.head)
        self._counters[channel.hub].acknowledged += fresh
        await self._cache.save(channel, subscription, changed=True)
        self._receipts.acknowledged(channel, request.key, done)
        if cursor.options.shared:
            subscription.wake()  # there is room for more
        return cursor.floor

    async def _acknowledge_up_to(
        self, channel: Channel, subscription: DurableSubscription, request: GetMessages
    ) -> None:
        assert request.ack_up_to is not None
        done = _done_up_to(subscription.cursor, request.ack_up_to)
        if request.ack_up_to:  # 0: nothing yet
            self._counters[channel.hub].acknowledged += subscription.cursor.acknowledge_up_to(
                request.ack_up_to, channel.head, request.consumer
            )
        await self._cache.save(channel, subscription, changed=bool(request.ack_up_to))
        self._receipts.acknowledged(channel, request.key, done)

    # -- handing out ----------------------------------------------------------------------------

    async def _take(
        self, channel: Channel, subscription: DurableSubscription, request: GetMessages
    ) -> tuple[Article, ...]:
        cursor = subscription.cursor
        now = self._clock.monotonic()
        picks = cursor.pick(channel.head, request.limit, request.consumer, now, request.after)
        worn = cursor.worn_out(picks)
        if worn:
            cursor.put_back(worn)
            picks = [pick for pick in picks if pick.serial not in worn]
            self._dead_letters.move_soon(channel, subscription, worn[0])
        if not picks:
            return ()
        try:
            if cursor.must_reserve(picks):
                await self._cache.save(channel, subscription, changed=True)
            found = await self._cache.read(channel, [pick.serial for pick in picks])
            self._access.check(channel.hub, request.reader, channel.name)
        except BaseException:
            cursor.put_back(pick.serial for pick in picks)
            raise
        wall = int(self._clock.now() * 1000)
        expired = [
            serial
            for serial, message in found.items()
            if message.attributes is not None
            and message.attributes.ttl is not None
            and has_expired(message, wall)
        ]
        if expired:
            self._pass_expired(channel, subscription, expired)
            self._cache.save_soon(channel, subscription)
            picks = [pick for pick in picks if pick.serial not in expired]
        return self._hand_out(channel, subscription, picks, found, request.technology)

    def _pass_expired(
        self, channel: Channel, subscription: DurableSubscription, serials: Sequence[int]
    ) -> None:
        """The cursor moves past messages whose time to live is over."""
        fresh = subscription.cursor.pass_expired(serials, channel.head)
        self._counters[channel.hub].expired += fresh
        self._receipts.expired(channel, subscription.key, runs_of(serials))

    def _hand_out(
        self,
        channel: Channel,
        subscription: DurableSubscription,
        picks: Sequence[Pick],
        found: Mapping[int, Message],
        technology: str,
    ) -> tuple[Article, ...]:
        """What of the picked was read; the rest waits for the next time."""
        cursor, again = subscription.cursor, 0
        articles: list[Article] = []
        for pick in picks:
            message = found.get(pick.serial)
            if message is None:
                cursor.put_back((pick.serial,))
                continue
            articles.append(Article(message, pick.deliveries, pick.redelivered))
            again += pick.deliveries > 1
        counters = self._counters[channel.hub]
        counters.handed_out += len(articles)
        counters.redelivered += again
        if again and cursor.options.max_deliveries:
            self._cache.save_soon(channel, subscription)
        self._receipts.received(channel, subscription.key, articles, technology)
        return tuple(articles)

    def lost_before(self, channel: Channel, first: int) -> None:
        """The channel's messages begin here now."""
        self._cache.lost_before(channel, first)

    def delivered(self, channel: Channel, message: Message) -> None:
        """A message is on disk: whoever waits for one can have it."""
        cursors = channel.cursors
        if cursors is None or not cursors.subscriptions:
            return
        cursors.remember(message)
        for subscription in cursors.subscriptions.values():
            if subscription.waiters:
                subscription.wake()

    def waiting(self) -> dict[str, int]:
        """How many consumers wait for a message right now, by hub."""
        found: dict[str, int] = {}
        for channel in self._cache.channels:
            count = sum(len(subscription.waiters) for subscription in subscriptions_of(channel))
            found[channel.hub] = found.get(channel.hub, 0) + count
        return found

    def sweep(self) -> None:
        """Called every second: leases that have run out, dead letters that could not be put."""
        now = self._clock.monotonic()
        for channel in list(self._cache.channels):
            if channel.cursors is None:
                del self._cache.channels[channel]
            for subscription in subscriptions_of(channel):
                if subscription.cursor.leases and subscription.cursor.expire(now):
                    subscription.wake()
                if subscription.cursor.dead_lettering:
                    self._dead_letters.move_soon(
                        channel, subscription, subscription.cursor.dead_lettering
                    )

    # -- helpers --------------------------------------------------------------------------------

    async def _starting_floor(self, channel: Channel, request: SubscribeTopic) -> int:
        if request.start == "new":
            return channel.head
        if request.start == "first":
            head = await self._cache.store.read_head(channel.hub, channel.name)
            return head.first - 1 if head is not None else 0
        if not isinstance(request.start, int) or not 0 <= request.start <= channel.head:
            raise BadRequest(
                f"start is {request.start!r}; give 'new', 'first', or a serial up to the "
                f"channel's newest, {channel.head}"
            )
        return request.start

    @staticmethod
    def _reconfigure(subscription: DurableSubscription, options: SubscriptionOptions) -> None:
        """Leases begin anew under other options."""
        record = msgspec.structs.replace(subscription.cursor.record(), options=options)
        subscription.cursor = Cursor(subscription.cursor.floor, record)
        subscription.version += 1
        subscription.wake()


def _named(request: Acknowledge, cursor: Cursor) -> Iterable[int]:
    if request.up_to is None:
        return request.serials
    return [serial for serial in cursor.leases if serial <= request.up_to]


def _done_up_to(cursor: Cursor, up_to: int) -> Iterable[tuple[int, int]]:
    """What an acknowledgement up to there is about to add: all behind the floor, or of a shared
    subscription what is handed out."""
    if cursor.options.shared:
        return runs_of([serial for serial in cursor.leases if serial <= up_to])
    return [(cursor.floor + 1, up_to)]
