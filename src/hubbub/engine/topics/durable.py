"""Durable subscriptions at the owner of a channel: deliver messages, wait, accept acknowledgements.

Each change is on disk before anyone is told. Messages come from the store, or from the channel's
last messages, which stay in memory while consumers ask for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

import msgspec

from hubbub.domain.cursors import Cursor, CursorRecord, Pick, runs_of
from hubbub.domain.envelope import has_expired
from hubbub.domain.errors import BadRequest, HubbubError, QuotaExceeded
from hubbub.domain.messages import Message
from hubbub.domain.topics import (
    MAX_BATCH,
    Acknowledge,
    Article,
    DescribeSubscription,
    GetMessages,
    SubscribeTopic,
    SubscriptionInfo,
    SubscriptionKey,
    SubscriptionOptions,
    UnsubscribeTopic,
)
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom, of_topic
from hubbub.engine.counters import RoomFigure, TopicCounters
from hubbub.engine.topics.cursor_cache import CursorCache, subscriptions_of
from hubbub.engine.topics.cursors import Cursors, DurableSubscription, not_subscribed
from hubbub.engine.topics.dead_letters import DeadLetters
from hubbub.engine.topics.receipts import Receipts
from hubbub.engine.topics.waiting import WaitingGet
from hubbub.ports.journal import Journal
from hubbub.ports.storage.messages import Deleted

MAX_SUBSCRIPTIONS = 10_000
"""Maximum number per channel."""
_TOTALS = (
    ("topic_gets", "handed_out", "Messages that durable subscriptions handed out."),
    ("topic_redeliveries", "redelivered", "Those that were not the first time."),
    ("topic_acknowledgements", "acknowledged", "Messages acknowledged."),
    ("topic_dead_letters", "dead_letters", "Messages put to dead letters."),
    (
        "topic_expired",
        "expired",
        "Messages whose time to live was over before a durable subscription or webhook got them.",
    ),
    ("topic_missed", "missed", "Messages deleted before a durable subscription got them."),
    ("reclaimed_messages", "reclaimed", "Messages deleted by retention."),
    ("reclaimed_bytes", "reclaimed_bytes", "Their payload bytes."),
)
"""Metrics: the name after `hubbub_`, the attribute of `TopicCounters`, the help text."""


class DurableSubscriptions(OwnerRoom):
    """The durable subscriptions to the channels of one owner."""

    def __init__(
        self,
        parts: OwnerParts,
        access: AccessRegistry,
        journal: Journal,
    ) -> None:
        clock = parts.clock
        self.counters: defaultdict[str, TopicCounters] = defaultdict(TopicCounters)
        """By hub."""
        self._configuration_of = parts.configuration_of
        self._access = access
        self._clock = clock
        self._receipts = receipts = Receipts(journal, clock)
        self._cache = CursorCache(parts.store, parts.terms, self.counters)
        self._dead_letters = DeadLetters(
            self._cache, clock, parts.bus.publish, receipts, self.counters
        )
        self._closing = False
        self.channel_requests = {
            SubscribeTopic: of_topic(self._subscribe),
            UnsubscribeTopic: of_topic(self._unsubscribe),
            GetMessages: of_topic(self._get),
            Acknowledge: of_topic(self._acknowledge),
            DescribeSubscription: of_topic(self._describe),
        }

    def closed(self, channel: Channel) -> None:
        self._cache.forget(channel)

    def hub_changed(self, hub: str) -> None:
        try:
            self._configuration_of(hub)
        except HubbubError:  # it was deleted, or the name stands for all hubs
            self.counters.pop(hub, None)

    def figures(self) -> Iterator[RoomFigure]:
        counted = dict(self.counters)
        for name, attribute, about in _TOTALS:
            read = attrgetter(attribute)
            yield RoomFigure(name, about, {hub: read(each) for hub, each in counted.items()}, True)
        yield RoomFigure("waiting_consumers", "Consumers that wait for a message.", self.waiting())

    async def settle(self) -> None:
        """Wakes waiting consumers, and waits for work in progress."""
        self._closing = True
        for channel in self._cache.channels.values():
            for subscription in subscriptions_of(channel):
                subscription.wake()
        await self._cache.settle()

    async def hub_suspended(self, hub: str) -> None:
        await self._cache.settle_so_far()

    # -- requests -------------------------------------------------------------------------------

    async def _subscribe(self, channel: Channel, request: SubscribeTopic) -> SubscriptionInfo:
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
            await self._cache.save(channel, subscription, changed=True, new=True)
            cursors.subscriptions[key.owner, key.name] = subscription
        return msgspec.structs.replace(subscription.info(channel.epoch, channel.head), new=True)

    async def _unsubscribe(self, channel: Channel, request: UnsubscribeTopic) -> None:
        key = request.key
        cursors = await self._cache.cursors(channel)
        async with cursors.lock:
            subscription = self._cache.find(channel, cursors, key)
            await self._cache.store.audited(request.audit).delete_cursor(
                key.hub, key.channel, key.owner, key.name, *self._cache.term(channel)
            )
            del cursors.subscriptions[key.owner, key.name]
            subscription.end()

    async def _describe(self, channel: Channel, request: DescribeSubscription) -> SubscriptionInfo:
        subscription = await self._cache.subscription(channel, request.key)
        return subscription.info(channel.epoch, channel.head)

    async def _get(self, channel: Channel, request: GetMessages) -> tuple[Article, ...]:
        """Raises `NotPermitted` or `InvalidToken` as soon as access ends, also during a wait."""
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

    async def _acknowledge(self, channel: Channel, request: Acknowledge) -> int:
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
        self.counters[channel.hub].acknowledged += fresh
        await self._cache.save(channel, subscription, changed=True, audit=request.audit)
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
            self.counters[channel.hub].acknowledged += subscription.cursor.acknowledge_up_to(
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
        """Moves the cursor past messages whose time to live ended."""
        fresh = subscription.cursor.pass_expired(serials, channel.head)
        self.counters[channel.hub].expired += fresh
        self._receipts.expired(channel, subscription.key, runs_of(serials))

    def _hand_out(
        self,
        channel: Channel,
        subscription: DurableSubscription,
        picks: Sequence[Pick],
        found: Mapping[int, Message],
        technology: str,
    ) -> tuple[Article, ...]:
        """Leases the messages that were read; the other picked ones wait for the next call."""
        cursor, again = subscription.cursor, 0
        articles: list[Article] = []
        for pick in picks:
            message = found.get(pick.serial)
            if message is None:
                cursor.put_back((pick.serial,))
                continue
            articles.append(Article(message, pick.deliveries, pick.redelivered))
            again += pick.deliveries > 1
        counters = self.counters[channel.hub]
        counters.handed_out += len(articles)
        counters.redelivered += again
        if again and cursor.options.max_deliveries:
            self._cache.save_soon(channel, subscription)
        self._receipts.received(channel, subscription.key, articles, technology)
        return tuple(articles)

    def reclaimed(self, hub: str, channel: str, deleted: Deleted) -> None:
        counters = self.counters[hub]
        counters.reclaimed += deleted.messages
        counters.reclaimed_bytes += deleted.stored_bytes
        known = self._cache.channels.get((hub, channel))
        if known is not None:
            self._cache.lost_before(known, deleted.first)

    def messages_erased(self, hub: str, channel: str) -> None:
        known = self._cache.channels.get((hub, channel))
        cursors = known.state_of(Cursors) if known is not None else None
        if cursors is not None:
            cursors.forget_messages()

    def cursor_in_memory(self, key: SubscriptionKey) -> tuple[Cursor, int] | None:
        """Where a durable subscription stands, and the head of its channel; None: only the disk
        knows."""
        channel = self._cache.channels.get((key.hub, key.channel))
        cursors = channel.state_of(Cursors) if channel is not None else None
        if channel is None or cursors is None or channel.state < State.READY:
            return None
        subscription = cursors.subscriptions.get((key.owner, key.name))
        return (subscription.cursor, channel.head) if subscription is not None else None

    def stored(self, channel: Channel, message: Message) -> None:
        """Whoever waits for a message can have it."""
        cursors = channel.state_of(Cursors)
        if cursors is None or not cursors.subscriptions:
            return
        cursors.remember(message)
        for subscription in cursors.subscriptions.values():
            if subscription.waiters:
                subscription.wake()

    def waiting(self) -> dict[str, int]:
        """The number of consumers that wait for a message, by hub."""
        found: dict[str, int] = {}
        for channel in self._cache.channels.values():
            count = sum(len(subscription.waiters) for subscription in subscriptions_of(channel))
            found[channel.hub] = found.get(channel.hub, 0) + count
        return found

    def sweep(self) -> None:
        """Called every second: expires leases, and retries dead letters that could not be
        stored."""
        now = self._clock.monotonic()
        for place, channel in list(self._cache.channels.items()):
            if channel.state_of(Cursors) is None:
                del self._cache.channels[place]
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
        """Applies new options; leases start again."""
        record = msgspec.structs.replace(subscription.cursor.record(), options=options)
        subscription.cursor = Cursor(subscription.cursor.floor, record)
        subscription.version += 1
        subscription.wake()


def _named(request: Acknowledge, cursor: Cursor) -> Iterable[int]:
    if request.up_to is None:
        return request.serials
    return [serial for serial in cursor.leases if serial <= request.up_to]


def _done_up_to(cursor: Cursor, up_to: int) -> Iterable[tuple[int, int]]:
    """The serials that an acknowledgement up to this serial adds: all after the floor, or for a
    shared subscription the leased ones."""
    if cursor.options.shared:
        return runs_of([serial for serial in cursor.leases if serial <= up_to])
    return [(cursor.floor + 1, up_to)]
