"""The topic service for all gateways: put, get and acknowledge exactly once.

It checks permissions; the rest happens at the owner of the channel, behind the bus."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from hubbub.domain import notices
from hubbub.domain.asking import LONGEST_WAIT_SECONDS
from hubbub.domain.audit import AuditEntry
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
from hubbub.engine.topic_creation import TopicMaker
from hubbub.engine.topics.cursors import describe_saved
from hubbub.ports import randomness
from hubbub.ports.bus import Bus, PublishOutcome
from hubbub.ports.clock import Clock
from hubbub.ports.storage.topics import SavedCursor, TopicStore
from hubbub.tasks import gather_some

T = TypeVar("T")
_AT_ONCE = 16
"""Topics that are read concurrently for one caller."""
_MESSAGES_AT_ONCE = 4
"""The same for reads of one message per topic: together they may exceed the byte limit by this
many."""


class Topics:
    """Serves callers of any kind. Methods that take an identity raise `NotPermitted` if the
    identity lacks the permission."""

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
        """The server is stopping: gets no longer wait for messages."""

    async def answer(
        self, hub: Hub, identity: Identity, request: TopicRequest, technology: str = ""
    ) -> Notice:
        """Serves any topic request. Raises the errors of the method for the request."""
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
        """Stores a message; returns its id and serial once it is on disk. `item.producer` makes the
        put idempotent: `duplicate` in the outcome says that the message was stored before; its
        serial is 0 if retention has deleted it. Raises `SequenceGap`, `SequenceReused`,
        `ProducerFenced`."""
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
        """Takes over a producer id: puts with an older fence fail from now on."""
        topic, producer = request.topic, check_name(request.producer, "producer")
        check_publisher(hub, identity, topic, topic_key)
        await self._maker.ensure(hub, topic)
        wanted = OpenProducer(hub.name, topic, principal_of(identity), producer)
        state = await self._bus.ask(wanted)
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
        info = await self._bus.ask(wanted)
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
        """Works also after the caller lost the permission to subscribe. Raises `NotSubscribed`."""
        topic, name = check_name(request.topic, "channel"), request.name
        await self._bus.ask(UnsubscribeTopic(_own_key(hub, identity, topic, name)))
        return notices.TopicUnsubscribed(topic, name, request.req_id)

    async def info(self, hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionInfo:
        """Raises `NotSubscribed`, `TopicNotFound`."""
        request = DescribeSubscription(self._key(hub, identity, topic, name))
        return await self._bus.ask(request)

    async def list_own(
        self, hub: Hub, identity: Identity, req_id: int = 0
    ) -> notices.TopicSubscriptions:
        """The caller's durable subscriptions in this hub to topics that the caller may read now."""
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
        """All durable subscriptions, for administrators, ordered by channel, owner and name, and
        the next value of `after` if there are more."""
        cursors = await self._store.read_cursors(hub, channel, owner, after, limit + 1, text)
        page = cursors[:limit]
        answers = await gather_some(_AT_ONCE, (self._describe_saved(cursor) for cursor in page))
        last = page[-1] if len(cursors) > limit else None
        following = (last.channel, last.owner, last.name) if last is not None else None
        return [info for info in answers if info is not None], following

    async def count_all(
        self, hub: str, channel: str | None = None, owner: str | None = None, text: str = ""
    ) -> int:
        """The number of subscriptions that `list_all` returns over all pages."""
        return await self._store.count_cursors(hub, channel, owner, text)

    async def describe_some(self, keys: Sequence[SubscriptionKey]) -> list[SubscriptionInfo]:
        """The state of those subscriptions that still exist, in the given order."""

        async def find(key: SubscriptionKey) -> SubscriptionInfo | None:
            with suppress(NotSubscribed):
                return await self.describe(key)
            return None

        found = await gather_some(_AT_ONCE, map(find, keys))
        return [info for info in found if info is not None]

    async def describe(self, key: SubscriptionKey) -> SubscriptionInfo:
        """The state of any user's subscription, for administrators. Raises `NotSubscribed`."""
        for cursor in await self._store.read_cursors(key.hub, key.channel, key.owner):
            info = await self._describe_saved(cursor) if cursor.name == key.name else None
            if info is not None:
                return info
        raise NotSubscribed(
            f"{key.owner!r} has no durable subscription {key.name!r} to {key.channel!r}"
        )

    async def _describe_saved(self, cursor: SavedCursor) -> SubscriptionInfo | None:
        """The state as the channel's owner knows it; from the disk if the channel cannot be opened
        now."""
        key = SubscriptionKey(cursor.hub, cursor.channel, cursor.owner, cursor.name)
        try:
            return await self._bus.ask(DescribeSubscription(key))
        except NotSubscribed:
            return None  # it went while we looked
        except (TopicNotFound, QuotaExceeded):
            return describe_saved(cursor, await self._store.read_head(key.hub, key.channel))

    async def remove(self, key: SubscriptionKey, audit: AuditEntry) -> None:
        """Deletes any user's subscription, for administrators. Raises `NotSubscribed`."""
        await self._bus.ask(UnsubscribeTopic(key, audit))

    # -- messages -------------------------------------------------------------------------------

    async def get(
        self, hub: Hub, identity: Identity, request: TopicGet, technology: str = ""
    ) -> notices.TopicMessages:
        """Messages of the requested topic; empty if there are none for the caller (yet).
        `technology` is the protocol, for the journal. Raises `NotSubscribed`, `TopicNotFound`;
        `NotPermitted` and `InvalidToken` also if access ends during a wait."""
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
            wait = 0.0 if self.draining else min(seconds, LONGEST_WAIT_SECONDS)
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
            articles = await self._bus.ask(wanted)
            self._access.check(hub.name, reader, topic)  # this node may know more than the owner
            if articles or seconds <= wait or self.draining:
                return articles
            ack_up_to = None

    async def get_each(
        self, hub: Hub, identity: Identity, name: str, req_id: int = 0, technology: str = ""
    ) -> notices.EachTopicMessages:
        """At most one message for each topic with a subscription of this name. Topics are read in
        random order; after `PAGE_BYTES` of messages, the others are reported as empty, and get
        their turn in later calls."""
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

        await gather_some(_MESSAGES_AT_ONCE, map(get_one, randomness.sample(keys, len(keys))))
        await hub.take_turn(held)
        return notices.EachTopicMessages(name, dict(sorted(found.items())), req_id)

    async def acknowledge(
        self, hub: Hub, identity: Identity, request: TopicAck
    ) -> notices.TopicAcked:
        """Returns the floor, once it is on disk: all messages up to it are done."""
        topic, name = request.topic, request.name
        done = Acknowledge(
            self._key(hub, identity, topic, name),
            request.serials,
            request.up_to,
            request.consumer,
            request.give_back,
        )
        floor = await self._bus.ask(done)
        return notices.TopicAcked(topic, name, floor, request.req_id)

    # -- helpers --------------------------------------------------------------------------------

    def _key(self, hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionKey:
        if not _is_readable(hub, identity, topic):
            raise NotPermitted(f"no permission to subscribe to {topic!r}")
        return _own_key(hub, identity, topic, name)

    async def _own(self, hub: Hub, identity: Identity) -> list[SubscriptionKey]:
        """The caller's subscriptions; heads and lags are included only for topics that the caller
        may read."""
        owner = principal_of(identity)
        cursors = await self._store.read_cursors(hub.name, owner=owner)
        return [
            SubscriptionKey(hub.name, cursor.channel, owner, cursor.name)
            for cursor in cursors
            if _is_readable(hub, identity, cursor.channel)
        ]

    async def _describe_one(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        try:
            return await self._bus.ask(DescribeSubscription(key))
        except (NotSubscribed, TopicNotFound):
            return None  # it went while we looked


def _own_key(hub: Hub, identity: Identity, topic: str, name: str) -> SubscriptionKey:
    check_name(name, "subscription")
    return SubscriptionKey(hub.name, topic, principal_of(identity), name)


def _is_readable(hub: Hub, identity: Identity, topic: str) -> bool:
    return may_subscribe(identity, topic, hub.rules_for(topic), hub.user_channels)
