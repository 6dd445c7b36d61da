"""Publishing: checks the caller's permission and the limits, and passes the message to its
channel's owner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import msgspec

from hubbub.domain.asking import OrderedRequest, Sent
from hubbub.domain.envelope import check_envelope
from hubbub.domain.errors import (
    BadRequest,
    HubbubError,
    InvalidAttribute,
    NotPermitted,
    QuotaExceeded,
    TooLarge,
    WrongChannelKind,
)
from hubbub.domain.messages import Attributes, Message, Stamp, keyed_stamp
from hubbub.domain.names import (
    MAX_NAME_CHARS,
    check_name,
    takes_notifications,
    without_dead_letters,
)
from hubbub.domain.permissions import Identity, may_publish, refusal
from hubbub.domain.push.options import read_options
from hubbub.domain.requests import Producer, PublishItem
from hubbub.domain.topics import FindPut, FoundPut, principal_of
from hubbub.domain.webhooks import fits_topic_key
from hubbub.engine.hub import Hub
from hubbub.engine.limits import EngineLimits
from hubbub.engine.storing.hooks import StoringHooks
from hubbub.engine.storing.publications import Publications
from hubbub.engine.topic_creation import TopicMaker
from hubbub.ports.bus import Bus, Lane, PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet


class RequestItem(PublishItem, frozen=True):
    """Published like a message; it goes to the channel's owner as a request that takes its place
    among the channel's messages."""

    def check(self) -> None:
        """In place of the checks of a message's content."""
        raise NotImplementedError

    def request(self, message: Message) -> OrderedRequest[Any]:
        """The request with this envelope."""
        raise NotImplementedError


class PublishConsent(Protocol):
    """Finds the hook of a channel; see `engine.services.consent`."""

    def hook_of(self, hub: Hub, identity: Identity, channel: str) -> str | None: ...


class PublishHooks(Protocol):
    """Where publishes wait for a hook."""

    @property
    def consent(self) -> PublishConsent: ...

    def submit(
        self,
        hub: Hub,
        method: str,
        sent: Sent,
        reply: PublishReply,
        hand_on: Callable[[Sent, PublishReply], None],
        refuse: Callable[[Sent, HubbubError, PublishReply], None],
    ) -> None: ...


class Publisher:
    """Publishes the messages of all gateways."""

    traced = False
    """Whether messages may carry a trace context."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        limits: EngineLimits,
        maker: TopicMaker,
        consents: PublishHooks,
        hooks: StoringHooks,
    ) -> None:
        """Messages wait for the hooks of their channels in `consents`, and for validators and
        savers in `hooks`."""
        self._bus = bus
        self._maker = maker
        self._clock = clock
        self._limits = limits
        self._becoming: dict[tuple[str, str], list[tuple[Identity, Sent, PublishReply]]] = {}
        """Puts to channels that are being turned into topics, in order."""
        self._tasks = TaskSet()
        self._consents = consents
        self._hooks = hooks
        self._publications = Publications(hooks)

    def publish(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        reply: PublishReply | None,
        technology: str | None = None,
        session: str | None = None,
        permitted: bool = False,
        message_id: str | None = None,
    ) -> str:
        """Check the message and hand it on to its channel's owner; returns its id. Raises the
        errors of `check`, in which case `reply` is not called. A put (a message with a producer)
        is refused through `reply` instead: it may be a repeat, which is answered like the original
        before anything is checked. `technology` and `session` name the way in, for the journal.
        `permitted`: `check_place` found nothing, for the same caller under the same settings.
        `message_id`: one of `Hub.next_message_id`."""
        started = perf_counter()
        if item.producer is not None:
            message = self._message(hub, identity, item, technology, session)
            return self._put(hub, identity, item, item.producer, message, reply or _ignore)
        if not permitted:
            check_place(hub, identity, item)
        self._check(hub, identity, item)
        message = self._message(hub, identity, item, technology, session)
        if message_id is not None:
            message.id = message_id
        if item.idempotency_key is not None:
            message.stamp = keyed_stamp(principal_of(identity), item.idempotency_key)
            reply = _counted(hub, reply or _ignore, puts=False)
        sent = message if not isinstance(item, RequestItem) else item.request(message)
        counters = hub.counters
        counters.messages_in += 1
        counters.bytes_in += len(item.payload)
        if hub.hooked:
            self._ask(hub, identity, sent, reply or _ignore)
        elif not self._hooks.in_use:
            self._bus.publish(sent, reply)
        else:
            self._hand_on(hub, sent, reply)
        counters.publishes.took(perf_counter() - started)
        return message.id

    def lane(self, hub: Hub, item: PublishItem) -> Lane | None:
        """The short way for a message that asks for nothing: not to be stored, retained, pushed or
        repeated, without rarer fields, and no hook looks at it. None: `publish` takes it."""
        if (
            self.traced
            or hub.hooked
            or self._hooks.in_use
            or type(item) is not PublishItem
            or item.store
            or item.retain
            or item.push
            or item.producer is not None
            or item.attributes is not None
            or item.push_options is not None
            or item.idempotency_key is not None
            or item.security_token is not None
            or item.most_bytes
            or len(item.payload) > self._limits.message_bytes
        ):
            return None
        return self._bus.lane(hub.name, item.channel)

    def publish_live(
        self,
        lane: Lane,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        technology: str | None = None,
        session: str | None = None,
    ) -> Message:
        """The same as `publish`, with what `lane` has just returned and `permitted`. Raises
        `QuotaExceeded`."""
        started = perf_counter()
        if hub.limited:
            self.check_quotas(hub, item.channel)
        message = self._message(hub, identity, item, technology, session)
        counters = hub.counters
        counters.messages_in += 1
        counters.bytes_in += len(item.payload)
        lane(message)
        counters.publishes.took(perf_counter() - started)
        return message

    async def settle(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        technology: str | None = None,
        session: str | None = None,
        message_id: str | None = None,
    ) -> tuple[str, PublishOutcome]:
        """Publishes, and returns the outcome. Raises the errors of `publish`."""
        done: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()

        def conclude(outcome: PublishOutcome) -> None:
            if not done.done():  # else whoever waited is gone
                done.set_result(outcome)

        published = self.publish(
            hub, identity, item, conclude, technology, session, message_id=message_id
        )
        return published, await done

    def _message(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        technology: str | None,
        session: str | None,
    ) -> Message:
        now = self._clock.now()
        message = Message(  # by position, which takes two thirds of the time
            f"{hub.message_prefix}{next(hub.message_numbers):x}",
            hub.name,
            item.channel,
            item.event,
            item.payload,
            item.content_type,
            int(now * 1000),
            0,
            identity.user_id,
            item.store,
            item.retain,
            item.push,
            item.transient,
            item.attributes,
            None,
            int(now * 1e6),
            session,
            technology,
        )
        if item.push_options is not None:
            read_options(item.push_options)
            message.push_options = item.push_options
        return message

    def _ask(self, hub: Hub, identity: Identity, sent: Sent, reply: PublishReply) -> None:
        """Calls the channel's hook, if it has one, then passes the message on."""
        consents = self._consents
        method = consents.consent.hook_of(hub, identity, sent.channel)
        if method is None:
            self._hand_on(hub, sent, reply)
        else:
            hand_on, refuse = partial(self._hand_on, hub), partial(self._refuse_soon, hub)
            consents.submit(hub, method, sent, reply, hand_on, refuse)

    def _hand_on(self, hub: Hub, sent: Sent, reply: PublishReply | None) -> None:
        """Passes the message to the channel's owner, after validators and before savers if there
        are any."""
        publications = self._publications
        if (
            not self._hooks.in_use
            or not isinstance(sent, Message)
            or not publications.concern(sent, hub.rules_for(sent.channel))
        ):
            self._bus.publish(sent, reply)
        else:
            refuse = partial(self._refuse_soon, hub)
            publications.publish(sent, reply or _ignore, self._bus.publish, refuse)

    def _refuse_soon(self, hub: Hub, sent: Sent, error: HubbubError, reply: PublishReply) -> None:
        if sent.stamp is not None:
            self._tasks.start(self._refuse(hub, sent, error, reply))
        else:
            hub.counters.messages_refused += 1
            reply(PublishOutcome(error=error))

    # -- puts -----------------------------------------------------------------------------------

    def _put(
        self,
        hub: Hub,
        identity: Identity,
        item: PublishItem,
        producer: Producer,
        message: Message,
        reply: PublishReply,
    ) -> str:
        started = perf_counter()
        check_name(producer.id, "producer")
        if not 0 < producer.sequence < 2**63 or not 0 <= producer.fence < 2**63:
            raise BadRequest(
                f"sequence {producer.sequence} and fence {producer.fence} of producer "
                f"{producer.id!r} must be numbers of 63 bits, the sequence from 1 on"
            )
        message.store, message.transient = True, False
        message.stamp = Stamp(
            principal_of(identity), producer.id, producer.sequence, producer.fence
        )
        message.attributes = _of_put(item.attributes, producer)
        reply = _counted(hub, reply)
        sent = message if not isinstance(item, RequestItem) else item.request(message)
        try:
            self.check(hub, identity, item)
        except HubbubError as error:
            message.attributes = None  # they may be what is wrong
            self._tasks.start(self._refuse(hub, sent, error, reply))
            return message.id
        hub.counters.messages_in += 1
        hub.counters.bytes_in += len(item.payload)
        becoming = self._becoming.get((hub.name, item.channel))
        if becoming is not None:
            becoming.append((identity, sent, reply))
        elif hub.rules_for(item.channel).store or isinstance(item, RequestItem):
            self._ask(hub, identity, sent, reply)
        else:
            self._becoming[hub.name, item.channel] = [(identity, sent, reply)]
            self._tasks.start(self._make_topic(hub, item.channel))
        hub.counters.publishes.took(perf_counter() - started)
        return message.id

    async def _make_topic(self, hub: Hub, channel: str) -> None:
        """Turns the channel into a topic, then passes the waiting puts on, through the topic's
        hook."""
        refused: HubbubError | None = None
        try:
            await self._maker.ensure(hub, channel)
        except HubbubError as error:
            refused = error
        for identity, sent, reply in self._becoming.pop((hub.name, channel)):
            if refused is None:
                self._ask(hub, identity, sent, reply)
            else:
                self._tasks.start(self._refuse(hub, sent, refused, reply))

    async def _refuse(self, hub: Hub, sent: Sent, error: HubbubError, reply: PublishReply) -> None:
        """Refuses a put, unless it repeats a stored one, whose result is returned."""
        search = FindPut(sent) if isinstance(sent, Message) else sent.search()
        try:
            found = await self._bus.ask(search)
        except HubbubError as caught:
            found, error = None, caught
        if isinstance(found, FoundPut):
            reply(PublishOutcome(found.serial, None, True, found.message_id, found.change))
        else:
            hub.counters.messages_refused += 1
            reply(PublishOutcome(error=error))

    # -- checks ---------------------------------------------------------------------------------

    def check(self, hub: Hub, identity: Identity, item: PublishItem) -> None:
        """Raises `NotPermitted`, `InvalidName`, `InvalidAttribute`, `WrongChannelKind`, `TooLarge`
        or `QuotaExceeded`."""
        check_place(hub, identity, item)
        self._check(hub, identity, item)

    def _check(self, hub: Hub, identity: Identity, item: PublishItem) -> None:
        attributes = item.attributes
        if isinstance(item, RequestItem):
            item.check()
        else:
            most = item.most_bytes or self._limits.message_bytes
            if len(item.payload) > most:
                raise TooLarge(
                    f"the payload for {item.channel!r} has {len(item.payload)} bytes; "
                    f"at most {most} are allowed"
                )
            if attributes is not None or item.security_token is not None:
                check_envelope(item, identity)
        if item.idempotency_key is not None:
            check_key(item)
        if hub.limited:
            self.check_quotas(hub, item.channel)

    def check_quotas(self, hub: Hub, channel: str) -> None:
        """Raises `QuotaExceeded` if the channel may not receive another message."""
        now = self._clock.monotonic()
        if not hub.messages.take(1, now):
            raise QuotaExceeded(
                f"hub {hub.name!r} publishes more than its quota of messages per second; "
                "slow down and try again",
                hub.messages.seconds_until(1),
            )
        feed = hub.feeds.get(channel)
        if feed is not None and not hub.deliveries.take(feed.subscribers, now):
            raise QuotaExceeded(
                f"hub {hub.name!r} delivers more than its quota of deliveries per second; "
                "slow down and try again",
                hub.deliveries.seconds_until(feed.subscribers),
            )


def check_place(hub: Hub, identity: Identity, item: PublishItem) -> None:
    """Whether the caller may publish to the item's channel; depends only on the caller, the
    channel, the topic key and the hub's settings. Raises `NotPermitted`, `InvalidName`,
    `WrongChannelKind`."""
    if takes_notifications(item.channel):
        raise WrongChannelKind(
            f"{item.channel!r} is a notification channel, which takes no published messages; a "
            "service creates notifications through the admin API"
        )
    check_publisher(hub, identity, item.channel, item.topic_key)


def check_publisher(hub: Hub, identity: Identity, channel: str, topic_key: str | None) -> None:
    """Whether the caller may publish to the channel through any gateway. A topic with a key, and
    its dead letters, accept messages from services and from callers with the key. Raises
    `NotPermitted`."""
    rules = hub.rules_for(channel)
    if hub.topic_keys and (topic := without_dead_letters(channel)) in hub.topic_keys:
        key_hash = hub.topic_keys[topic]
        if not identity.trusted and not fits_topic_key(topic_key, key_hash):
            raise NotPermitted(
                f"the topic {channel!r} has an owner; publish over HTTP with the key that "
                "registering it answered, in the header Hubbub-Topic-Key"
            )
    elif not may_publish(identity, channel, rules, hub.user_channels):
        raise refusal(identity, "publish to", channel, rules)


def _of_put(given: Attributes | None, producer: Producer) -> Attributes:
    if given is None:
        return Attributes(producer_id=producer.id, producer_seq=producer.sequence)
    return msgspec.structs.replace(given, producer_id=producer.id, producer_seq=producer.sequence)


def check_key(item: PublishItem) -> None:
    """Raises `InvalidAttribute` and `BadRequest`."""
    if item.producer is not None:
        raise BadRequest("a put is repeated by its sequence; leave the idempotency key out")
    key = item.idempotency_key or ""
    if not 0 < len(key) <= MAX_NAME_CHARS or not key.isprintable():
        raise InvalidAttribute(
            f"idempotencyKey must be 1 to {MAX_NAME_CHARS} visible characters, not {key[:50]!r}"
        )


def _counted(hub: Hub, reply: PublishReply, puts: bool = True) -> PublishReply:
    """Counts a put, or a publish with a key, by its outcome."""

    def conclude(outcome: PublishOutcome) -> None:
        if outcome.duplicate:
            hub.counters.duplicates += 1
        elif outcome.error is None and puts:
            hub.counters.puts += 1
        reply(outcome)

    return conclude


def _ignore(_: PublishOutcome) -> None:
    """A reply that nobody waits for."""
