"""Topics: put, get, acknowledge; the one door for all gateways that offer exactly-once.

Here it is decided who may; the rest happens at the owner of the channel, behind the bus.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import sample
from typing import TypeVar

import msgspec

from hubbub.domain import notices
from hubbub.domain.errors import (
    BadRequest,
    NotPermitted,
    NotSubscribed,
    QuotaExceeded,
    TopicNotFound,
)
from hubbub.domain.history import PAGE_BYTES, size_of
from hubbub.domain.names import check_name
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Identity, Reader, may_publish, may_subscribe
from hubbub.domain.requests import (
    ProducerOpen,
    PublishItem,
    TopicAck,
    TopicGet,
    TopicList,
    TopicRequest,
    TopicSubscribe,
    TopicUnsubscribe,
)
from hubbub.domain.topics import (
    Acknowledge,
    Article,
    DescribeSubscription,
    GetMessages,
    OpenProducer,
    ProducerState,
    SubscribeTopic,
    SubscriptionInfo,
    SubscriptionKey,
    SubscriptionOptions,
    UnsubscribeTopic,
    dead_letter_channel,
    option_problems,
    principal_of,
)
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.hub import Hub
from hubbub.engine.publishing import Publisher, check_publisher
from hubbub.engine.topics.creation import TopicMaker
from hubbub.engine.topics.cursors import describe_saved
from hubbub.ports.bus import TOPIC_WAIT_SECONDS, Bus, PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.storage.topics import SavedCursor, TopicStore
from hubbub.tasks import gather_some

T = TypeVar("T")
_AT_ONCE = 16
"""Topics that are asked at the same time for one caller."""
_MESSAGES_AT_ONCE = 4
"""Of these, for a message of each: so many may exceed the bound in bytes."""


class Topics:
    """Topics for callers of any kind. A method that takes an identity raises `NotPermitted` where
    that identity may not do it."""

    def __init__(
        self,
        bus: Bus,
        store: TopicStore,
        clock: Clock,
        publisher: Publisher,
        maker: TopicMaker,
        access: AccessRegistry,
    ) -> None:
        self._access = access
        self._bus = bus
        self._store = store
        self._clock = clock
        self._publisher = publisher
        self._maker = maker
        self.draining = False
        """Nobody waits for messages any more."""

    async def answer(
        self, hub: Hub, identity: Identity, request: TopicRequest, technology: str = ""
    ) -> Notice:
        """Any request about topics. Raises what the method for the request raises."""
        match request:
            case TopicGet(topic=None):
                return await self.get_each(hub, identity, request.name, request.req_id, technology)
            case TopicGet():
                return await self.get(hub, identity, request, technology)
            case TopicAck():
                return await self.acknowledge(hub, identity, request)
            case TopicSubscribe():
                return await self.subscribe(hub, identity, request)
            case TopicUnsubscribe():
                return await self.unsubscribe(hub, identity, request)
            case ProducerOpen():
                return await self.open_producer(hub, identity, request)
            case TopicList():
                return await self.list_own(hub, identity, request.req_id)

    # -- producers ------------------------------------------------------------------------------

    async def put(
        self, hub: Hub, identity: Identity, item: PublishItem, technology: str | None = None
    ) -> tuple[str, PublishOutcome]:
        """Store a message and answer its id and place once it is on disk. `item.producer` makes it
        idempotent. The outcome's `duplicate` says that it was there already; its serial is 0 if it
        has been reclaimed since. Raises `SequenceGap`, `SequenceReused`, `ProducerFenced`."""
        if item.producer is None:
            item = msgspec.structs.replace(item, store=True)
            check_publisher(hub, identity, item.channel, item.topic_key)
            await self._maker.ensure(hub, item.channel)
        message_id, outcome = await self._publisher.settle(hub, identity, item, technology)
        if outcome.error is not None:
            raise outcome.error
        if item.producer is None:
            hub.counters.puts += 1
        return outcome.message_id or message_id, outcome

    async def open_producer(
        self, hub: Hub, identity: Identity, request: ProducerOpen, topic_key: str | None = None
    ) -> notices.ProducerOpened:
        """Take a producer id over: puts under an older fence are refused from now on."""
        topic, producer = request.topic, check_name(request.producer, "producer")
        check_publisher(hub, identity, topic, topic_key)
        await self._maker.ensure(hub, topic)
        wanted = OpenProducer(hub.name, topic, principal_of(identity), producer)
        state = _expect(ProducerState, await self._bus.topic(wanted))
        return notices.ProducerOpened(topic, producer, state.fence, state.sequence, request.req_id)

    # -- subscriptions --------------------------------------------------------------------------

    async def subscribe(
        self, hub: Hub, identity: Identity, request: TopicSubscribe
    ) -> notices.TopicSubscribed:
        topic, options = request.topic, request.options
        key = self._key(hub, identity, topic, request.name)
        if options is not None:
            await self._check_options(hub, identity, topic, options)
        await self._maker.ensure(hub, topic)
        await hub.consent(identity, topic)  # the rules of a new topic may have a hook
        wanted = SubscribeTopic(key, options, request.start)
        info = _expect(SubscriptionInfo, await self._bus.topic(wanted))
        return notices.TopicSubscribed(info, request.req_id)

    async def _check_options(
        self, hub: Hub, identity: Identity, topic: str, options: SubscriptionOptions
    ) -> None:
        problems = option_problems(options)
        if problems:
            raise BadRequest("; ".join(problems))
        if not options.max_deliveries:
            return
        dead_letters = dead_letter_channel(topic, options)
        rules = hub.rules_for(dead_letters)
        if dead_letters == topic:
            raise BadRequest(
                f"deadLetters is {dead_letters!r}, the topic itself; name another channel"
            )
        chosen = options.dead_letters is not None
        if chosen and not may_publish(identity, dead_letters, rules, hub.user_channels):
            raise NotPermitted(f"no permission to publish to {dead_letters!r}, the dead letters")
        await self._maker.ensure(hub, dead_letters)

    async def unsubscribe(
        self, hub: Hub, identity: Identity, request: TopicUnsubscribe
    ) -> notices.TopicUnsubscribed:
        """Also without the permission by now. Raises `NotSubscribed`."""
        topic, name = check_name(request.topic, "channel"), request.name
        await self._bus.topic(UnsubscribeTopic(_own_key(hub, identity, topic, name)))
        return notices.TopicUnsubscribed(topic, name, request.req_id)

    async def info(self, hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionInfo:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        request = DescribeSubscription(self._key(hub, identity, topic, name))
        return _expect(SubscriptionInfo, await self._bus.topic(request))

    async def list_own(
        self, hub: Hub, identity: Identity, req_id: int = 0
    ) -> notices.TopicSubscriptions:
        """The caller's own durable subscriptions in this hub, to topics that they may read now."""
        keys = await self._own(hub, identity)
        answers = await gather_some(_AT_ONCE, (self._describe_one(key) for key in keys))
        found = tuple(info for info in answers if info is not None)
        return notices.TopicSubscriptions(found, req_id)

    async def list_all(
        self,
        hub: str,
        limit: int,
        channel: str | None = None,
        owner: str | None = None,
        after: tuple[str, str, str] | None = None,
        text: str = "",
    ) -> tuple[list[SubscriptionInfo], tuple[str, str, str] | None]:
        """Everybody's, for administrators, ordered by channel, owner and name; the second is what
        to go on with as `after`, if there are more."""
        cursors = await self._store.read_cursors(hub, channel, owner, after, limit + 1, text)
        page = cursors[:limit]
        answers = await gather_some(_AT_ONCE, (self._describe_saved(cursor) for cursor in page))
        last = page[-1] if len(cursors) > limit else None
        following = (last.channel, last.owner, last.name) if last is not None else None
        return [info for info in answers if info is not None], following

    async def count_all(
        self, hub: str, channel: str | None = None, owner: str | None = None, text: str = ""
    ) -> int:
        """How many `list_all` finds in all."""
        return await self._store.count_cursors(hub, channel, owner, text)

    async def describe_some(self, keys: Sequence[SubscriptionKey]) -> list[SubscriptionInfo]:
        """Those of them that are still there, in the same order."""

        async def find(key: SubscriptionKey) -> SubscriptionInfo | None:
            with suppress(NotSubscribed):
                return await self.describe(key)
            return None

        found = await gather_some(_AT_ONCE, map(find, keys))
        return [info for info in found if info is not None]

    async def describe(self, key: SubscriptionKey) -> SubscriptionInfo:
        """Somebody's, for administrators. Raises `NotSubscribed`."""
        for cursor in await self._store.read_cursors(key.hub, key.channel, key.owner):
            info = await self._describe_saved(cursor) if cursor.name == key.name else None
            if info is not None:
                return info
        raise NotSubscribed(
            f"{key.owner!r} has no durable subscription {key.name!r} to {key.channel!r}"
        )

    async def _describe_saved(self, cursor: SavedCursor) -> SubscriptionInfo | None:
        """As its owner knows it; as it is on disk where the channel cannot be opened just now."""
        key = SubscriptionKey(cursor.hub, cursor.channel, cursor.owner, cursor.name)
        try:
            return _expect(SubscriptionInfo, await self._bus.topic(DescribeSubscription(key)))
        except NotSubscribed:
            return None  # it went while we looked
        except (TopicNotFound, QuotaExceeded):
            return describe_saved(cursor, await self._store.read_head(key.hub, key.channel))

    async def remove(self, key: SubscriptionKey) -> None:
        """Somebody's, by an administrator. Raises `NotSubscribed`."""
        await self._bus.topic(UnsubscribeTopic(key))

    # -- messages -------------------------------------------------------------------------------

    async def get(
        self, hub: Hub, identity: Identity, request: TopicGet, technology: str = ""
    ) -> notices.TopicMessages:
        """Of the topic that the request names. No messages: there is nothing for the caller (yet).
        `technology` is the way out, for the journal.
        Raises `NotSubscribed`, `TopicNotFound`; `NotPermitted` and `InvalidToken` also where access
        ends while the caller waits."""
        assert request.topic is not None
        articles = await self._get(hub, identity, request.topic, request, technology)
        return notices.TopicMessages(request.topic, request.name, articles, request.req_id)

    async def _get(
        self, hub: Hub, identity: Identity, topic: str, request: TopicGet, technology: str
    ) -> tuple[Article, ...]:
        key = self._key(hub, identity, topic, request.name)
        reader, ack_up_to = Reader(identity), request.ack_up_to
        deadline = self._clock.monotonic() + request.wait_seconds
        while True:
            seconds = max(0.0, deadline - self._clock.monotonic())
            wait = 0.0 if self.draining else min(seconds, TOPIC_WAIT_SECONDS)
            wanted = GetMessages(
                key,
                reader,
                request.limit,
                wait,
                request.consumer,
                ack_up_to,
                request.after,
                technology,
            )
            articles = _expect(tuple, await self._bus.topic(wanted))
            self._access.check(hub.name, reader, topic)  # this node may know more than the owner
            if articles or seconds <= wait or self.draining:
                return articles
            ack_up_to = None

    async def get_each(
        self, hub: Hub, identity: Identity, name: str, req_id: int = 0, technology: str = ""
    ) -> notices.EachTopicMessages:
        """One message, or none, for each topic with a subscription of this name. Topics are asked
        in random order, and those that come after `PAGE_BYTES` of messages are answered as if they
        had none: all have their turn when the caller asks again."""
        keys = [key for key in await self._own(hub, identity) if key.name == name]
        found: dict[str, notices.TopicArticles] = {}
        held = 0

        async def get_one(key: SubscriptionKey) -> None:
            nonlocal held
            articles: tuple[Article, ...] = ()
            if held < PAGE_BYTES:
                with suppress(NotPermitted, NotSubscribed, TopicNotFound):  # not for the caller
                    wanted = TopicGet(name=key.name)
                    articles = await self._get(hub, identity, key.channel, wanted, technology)
                    found[key.channel] = notices.TopicArticles(articles)
            else:
                found[key.channel] = notices.TopicArticles(())
            held += sum(size_of(article.message) for article in articles)

        await gather_some(_MESSAGES_AT_ONCE, map(get_one, sample(keys, len(keys))))
        await hub.take_turn(held)
        return notices.EachTopicMessages(name, dict(sorted(found.items())), req_id)

    async def acknowledge(
        self, hub: Hub, identity: Identity, request: TopicAck
    ) -> notices.TopicAcked:
        """Answers the floor: everything up to it is done. It is on disk then."""
        topic, name = request.topic, request.name
        done = Acknowledge(
            self._key(hub, identity, topic, name),
            request.serials,
            request.up_to,
            request.consumer,
            request.give_back,
        )
        floor = _expect(int, await self._bus.topic(done))
        return notices.TopicAcked(topic, name, floor, request.req_id)

    # -- helpers --------------------------------------------------------------------------------

    def _key(self, hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionKey:
        if not _is_readable(hub, identity, topic):
            raise NotPermitted(f"no permission to subscribe to {topic!r}")
        return _own_key(hub, identity, topic, name)

    async def _own(self, hub: Hub, identity: Identity) -> list[SubscriptionKey]:
        """Where heads and lags of topics are told, only of those that the caller may read."""
        owner = principal_of(identity)
        cursors = await self._store.read_cursors(hub.name, owner=owner)
        return [
            SubscriptionKey(hub.name, cursor.channel, owner, cursor.name)
            for cursor in cursors
            if _is_readable(hub, identity, cursor.channel)
        ]

    async def _describe_one(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        try:
            return _expect(SubscriptionInfo, await self._bus.topic(DescribeSubscription(key)))
        except (NotSubscribed, TopicNotFound):
            return None  # it went while we looked


def _own_key(hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionKey:
    check_name(name, "subscription")
    return SubscriptionKey(hub.name, topic, principal_of(identity), name)


def _is_readable(hub: Hub, identity: Identity, topic: str) -> bool:
    return may_subscribe(identity, topic, hub.rules_for(topic), hub.user_channels)


def _expect(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind)
    return answer
