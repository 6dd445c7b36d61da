"""A hub on this node: its settings, its sessions, and the channels that they follow.

`Hub` and `SessionState` are one module because each refers to the other. Requests of sessions are
handled in `engine.sessions`, which this module does not know."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import HubNotFound, NotAuthenticated
from hubbub.domain.filters.filters import EVERYTHING, NO_FILTERS, Filters, Screen
from hubbub.domain.limits import TokenBucket
from hubbub.domain.names import check_name
from hubbub.domain.notices import Member, Notice
from hubbub.domain.patterns import PatternSet
from hubbub.domain.permissions import Identity, Level, Reader
from hubbub.domain.rules import HubConfiguration, Rules
from hubbub.domain.sorted_names import SortedItems, SortedNames
from hubbub.engine.access.registry import Subscriber
from hubbub.engine.access.tokens import Tokens
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.audience import Audience
from hubbub.engine.delivery.fanout import DeliveryQueue
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.large_work import SMALL_BYTES, HubSlices, leave_loop
from hubbub.ports import randomness
from hubbub.ports.bus import Attachment
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Pausable

_REMEMBERED_RULES = 4096

MEMBER_BYTES = 500
"""Cost of encoding a present member, in bytes of a message."""


AskHook = Callable[["Hub", Identity, str, str | None], Awaitable[None]]
"""Raises `NotPermitted`, `HookFailed` and `Limited`."""


@dataclass(slots=True, eq=False)
class Hub:
    """The state of a tenant in memory; unloaded after a period without use."""

    configuration: HubConfiguration
    counters: HubCounters
    idle_since: float
    ask_hook: AskHook | None = None
    """Asks the channel's hook before a client reads it; see `engine.services.consent`."""
    proven: bool = False
    """Somebody has authenticated in it."""
    missing: HubNotFound | None = None
    """The hub does not exist; disclosed only to callers with a token for it."""
    message_prefix: str = field(default_factory=lambda: randomness.token_hex(6))
    """Message ids count within the hub, and reveal nothing about other hubs."""
    message_numbers: count[int] = field(default_factory=lambda: count(1))
    sessions: dict[str, SessionState] = field(default_factory=dict)
    """By id. Change it only through `add_session` and `remove_session`."""
    session_ids: SortedNames = field(default_factory=SortedNames)
    """The keys of `sessions`, sorted."""
    sessions_by_age: SortedItems[SessionState] = field(default_factory=lambda: SortedItems(_age_of))
    """The newest last."""
    _of_user: dict[str, dict[str, SessionState]] = field(default_factory=dict)
    user_ids: SortedNames = field(default_factory=SortedNames)
    """Users with a session on this node, sorted."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    """By channel. Change it only through `add_feed` and `remove_feed`."""
    channel_names: SortedNames = field(default_factory=SortedNames)
    """The keys of `feeds`, sorted."""
    channel_sizes: dict[int, int] = field(default_factory=dict)
    """For each number of sessions, how many feeds have so many; maintained by the feeds."""
    shared_feeds: dict[Audience, None] = field(default_factory=dict)
    """Feeds with more than one session; maintained by the feeds."""
    patterns: HubPatterns | None = None
    """None while no session is subscribed to a pattern."""
    slices: HubSlices = field(default_factory=HubSlices)
    """Time slices for filters and long responses."""
    _large_answers: asyncio.Lock = field(default_factory=asyncio.Lock)
    name: str = field(init=False)
    delivery_queue: DeliveryQueue = field(init=False)
    user_channels: bool = field(init=False)
    topic_keys: Mapping[str, bytes] = field(init=False)
    limited: bool = field(init=False)
    hooked: bool = field(init=False)
    """Whether any channel has a hook."""
    pushes: bool = field(init=False)
    """Whether messages of any channel may be pushed to devices."""
    messages: TokenBucket = field(init=False)
    deliveries: TokenBucket = field(init=False)
    streams: TokenBucket = field(init=False)
    """Budgets of bytes."""
    _rules: dict[str, Rules] = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.configuration.hub
        self.delivery_queue = DeliveryQueue(self.counters)
        self.configure(self.configuration, self.idle_since)

    def configure(self, configuration: HubConfiguration, now: float) -> None:
        quotas = configuration.settings.quotas
        self.configuration = configuration
        self.user_channels = configuration.settings.user_channel
        self.topic_keys = configuration.topic_keys
        self.hooked = any(
            rules.subscribe_hook or rules.publish_hook for rules in configuration.rules.values()
        )
        self.pushes = any(rules.push for rules in configuration.rules.values())
        streams = quotas.stream_bytes_per_second
        self.limited = bool(quotas.messages_per_second or quotas.deliveries_per_second or streams)
        self.streams = TokenBucket(streams, streams, now)
        self.messages = TokenBucket(quotas.messages_per_second, quotas.messages_per_second, now)
        self.deliveries = TokenBucket(
            quotas.deliveries_per_second, quotas.deliveries_per_second, now
        )
        self._rules = {}

    def add_session(self, session: SessionState) -> None:
        """Adds a session, and replaces one with the same id."""
        known = self.sessions.get(session.id)
        if known is not None:
            self.sessions_by_age.remove(known)
            self._unindex(known)
        else:
            self.session_ids.add(session.id)
        self.sessions[session.id] = session
        self.sessions_by_age.add(session)
        self._index(session)

    def remove_session(self, session: SessionState) -> bool:
        """Returns False if the session was not registered, or another session had replaced it."""
        if self.sessions.get(session.id) is not session:
            return False
        del self.sessions[session.id]
        self.session_ids.remove(session.id)
        self.sessions_by_age.remove(session)
        self._unindex(session)
        return True

    def identify(self, session: SessionState, identity: Identity) -> None:
        """Changes the identity of a session."""
        self._unindex(session)
        session.channel_readers = None
        session.identity = identity
        if self.sessions.get(session.id) is session:
            self._index(session)

    def sessions_of(self, user_id: str) -> list[SessionState]:
        return list(self._of_user.get(user_id, {}).values())

    def add_feed(self, feed: Feed) -> None:
        """The channel must not have a feed yet."""
        self.feeds[feed.channel] = feed
        self.channel_names.add(feed.channel)

    def remove_feed(self, feed: Feed) -> None:
        del self.feeds[feed.channel]
        self.channel_names.remove(feed.channel)

    def _index(self, session: SessionState) -> None:
        if session.identity.authenticated:
            self.proven = True
        user_id = session.identity.user_id
        if user_id is None:
            return
        known = self._of_user.get(user_id)
        if known is None:
            self._of_user[user_id] = known = {}
            self.user_ids.add(user_id)
        known[session.id] = session

    def _unindex(self, session: SessionState) -> None:
        user_id = session.identity.user_id
        known = self._of_user.get(user_id) if user_id is not None else None
        if user_id is not None and known is not None and known.get(session.id) is session:
            del known[session.id]
            if not known:
                del self._of_user[user_id]
                self.user_ids.remove(user_id)

    def next_message_id(self) -> str:
        return f"{self.message_prefix}{next(self.message_numbers):x}"

    def service_for(self, user_id: str) -> Identity:
        """The service identity under which the hub stores data for a user who has no access to
        it."""
        return Identity(user_id=user_id, level=Level.SERVICE)

    def bind(self, configuration: HubConfiguration) -> None:
        """Applies a channel owner's decision; nothing else changed, so counters for quotas
        continue."""
        self.configuration = configuration
        self._rules = {}

    def rules_for(self, channel: str) -> Rules:
        """The rules of a channel. Raises `InvalidName`."""
        rules = self._rules.get(channel)
        if rules is None:
            rules = self.configuration.rules_for(check_name(channel, "channel"))
            if len(self._rules) >= _REMEMBERED_RULES:
                self._rules.clear()
            self._rules[channel] = rules
        return rules

    async def consent(
        self, identity: Identity, channel: str, session_id: str | None = None
    ) -> None:
        """Calls the hook before a client subscribes to the channel or reads it. Raises
        `NotPermitted`, `HookFailed` and `Limited`."""
        if self.hooked and self.ask_hook is not None:
            await self.ask_hook(self, identity, channel, session_id)

    async def take_turn(self, size: int) -> None:
        """Call it before a response of this size is encoded. Large ones are encoded one after
        another, each after several turns of the event loop for other tasks."""
        if size > SMALL_BYTES:
            async with self._large_answers:
                await leave_loop(size)

    def feed_began(self, feed: Feed, attachment: Attachment | None) -> None:
        """A feed is live: sessions whose pattern matches join it."""
        if self.patterns is not None:
            self.patterns.feed_began(feed, attachment)

    def feed_closed(self, feed: Feed) -> None:
        """A feed's channel was closed: sessions that follow it by a pattern leave it."""
        if self.patterns is not None:
            self.patterns.feed_closed(feed)

    def hold_back(self, channel: str, publisher: Pausable) -> None:
        """Delays a publisher if the channel's subscribers lag far behind."""
        feed = self.feeds.get(channel)
        if feed is not None:
            feed.hold_back(publisher)


@dataclass(slots=True, eq=False)
class HubPatterns:
    """The patterns to which a node's sessions are subscribed in one hub."""

    feed_began: Callable[[Feed, Attachment | None], None]
    """Called to join the sessions with a matching pattern to a feed."""
    feed_closed: Callable[[Feed], None]
    """Called to remove the sessions that follow a feed by patterns."""
    sessions: dict[str, dict[SessionState, None]] = field(default_factory=dict)
    """By pattern."""
    joined: int = 0
    """Channels that sessions follow only by patterns, counted per session."""
    joined_by: Counter[str] = field(default_factory=Counter)
    """The numbers of `joined`, by `SessionState.holder`."""
    held: dict[str, Counter[str]] = field(default_factory=dict)
    """The number of sessions with a pattern, by holder and pattern."""
    early: dict[str, deque[FeedEvent]] = field(default_factory=dict)
    """Messages, by channel, that arrived before the announcement that the channel was opened."""
    _compiled: dict[str, PatternSet] = field(default_factory=dict)

    def add(self, pattern: str, session: SessionState) -> None:
        self.sessions.setdefault(pattern, {})[session] = None
        self.held.setdefault(session.holder, Counter())[pattern] += 1
        if pattern not in self._compiled:
            self._compiled[pattern] = PatternSet((pattern,))

    def remove(self, pattern: str, session: SessionState) -> bool:
        """Returns whether that was the last session with the pattern."""
        sessions = self.sessions.get(pattern)
        if sessions is None or sessions.pop(session, self) is self:
            return False
        held = self.held[session.holder]
        held[pattern] -= 1
        if not held[pattern]:
            del held[pattern]
            if not held:
                del self.held[session.holder]
        if sessions:
            return False
        del self.sessions[pattern], self._compiled[pattern]
        return True

    def count(self, session: SessionState, channels: int) -> None:
        """Adjusts the number of channels that the session follows only by patterns."""
        self.joined += channels
        self.joined_by[session.holder] += channels
        if not self.joined_by[session.holder]:
            del self.joined_by[session.holder]

    def match(self, patterns: Iterable[str], channel: str) -> bool:
        """Whether a subscribed pattern among these matches the channel."""
        return any(self._compiled[each].matches(channel) for each in patterns)

    def matching(self, channel: str) -> list[SessionState]:
        """The sessions with a pattern that matches the channel, each once."""
        found: dict[SessionState, None] = {}
        for pattern, compiled in self._compiled.items():
            if compiled.matches(channel):
                found |= self.sessions[pattern]
        return list(found)


@dataclass(slots=True, eq=False)
class SessionState(Subscriber):
    """One client connection: its identity, and the channels it follows."""

    hub: Hub
    connection: Connection
    identity: Identity
    address: str
    clock: Clock
    tokens: Tokens
    # A letter first: a command line would take an id that begins with '-' for an option.
    id: str = field(default_factory=lambda: f"s{randomness.token_urlsafe(12)}")
    feeds: dict[str, Feed] | None = None
    patterns: dict[str, None] | None = None
    """The subscribed patterns, in order."""
    holder: str = ""
    """Quota key for patterns: the user id, or an anonymous client's network, at the first
    subscription to a pattern."""
    matched: dict[str, None] | None = None
    """Followed channels that are followed only by patterns."""
    planned: set[str] | None = None
    """Channels that a session with patterns is about to follow from a requested position."""
    matches_left_out: bool = False
    """The session was told that it cannot follow all matching channels."""
    opened_at: float = field(init=False)
    last_seen: float = field(init=False)
    closed: bool = False
    reason: str | None = None
    """Why the session ends, if known: an error code, or `closed` by the client."""
    filters: Filters = NO_FILTERS
    presence_data: dict[str, dict[str, Any]] | None = None
    """The client's presence data, by channel."""
    channel_readers: dict[str, Reader] | None = None
    """The identities of tokens for single channels, by channel."""
    restore_hash: bytes | None = None
    spent_hash: bytes | None = None
    """The hash of the restore key that opened this session; it becomes invalid with the next
    frame."""

    def __post_init__(self) -> None:
        self.opened_at = self.clock.now()
        self.last_seen = self.clock.monotonic()

    @property
    def reader(self) -> Reader:
        return Reader(self.identity)

    def followed(self) -> Collection[str]:
        return self.feeds or ()

    def reader_of(self, channel: str) -> Reader:
        own = self.channel_readers.get(channel) if self.channel_readers else None
        return self.reader if own is None else own

    def screen(self, channel: str) -> Screen | None:
        if not self.filters:
            return None
        found = self.filters.for_channel(channel)
        if found is None and self.connection.encoder.in_order:
            return EVERYTHING  # encoded in its turn, like what is filtered
        return found

    def drop_token(self, channel: str) -> None:
        """Forgets the token for a channel."""
        if self.channel_readers:
            self.channel_readers.pop(channel, None)

    def send(self, *said: Notice) -> None:
        encoder = self.connection.encoder
        if len(said) == 1:
            self.connection.send(encoder.pack((encoder.encode(said[0]),)))
        else:
            self.connection.send(encoder.pack([encoder.encode(notice) for notice in said]))

    def member(self, channel: str) -> Member:
        """This session as a member for presence."""
        return Member(
            session_id=self.id,
            user_id=self.identity.user_id,
            extra=self.identity.extra,
            timestamp=int(self.clock.now() * 1000),
            data=self.presence_data.get(channel) if self.presence_data else None,
        )

    def show(self, channel: str, data: dict[str, Any] | None) -> None:
        """Sets the session's presence data in a channel; None removes it."""
        if data is not None:
            if self.presence_data is None:
                self.presence_data = {}
            self.presence_data[channel] = data
        elif self.presence_data:
            self.presence_data.pop(channel, None)

    def check_identity(self) -> None:
        """Raises `InvalidToken` if the token is no longer valid, and `NotAuthenticated` for an
        anonymous session of a hub that permits none."""
        identity = self.identity
        if identity.user_id is None and not identity.authenticated:
            if not self.hub.configuration.settings.allow_anonymous:
                raise NotAuthenticated(
                    f"authenticate first: hub {self.hub.name!r} wants it, or does not exist"
                )
        elif identity.expires_at is not None:
            self.tokens.check(identity, self.hub.name)

    @abstractmethod
    def check_rate(self, amount: int = 1) -> None:
        """Counts a request towards the session's rate limit. Raises `RateLimited`."""

    @abstractmethod
    def cancel_requests(self) -> None:
        """Called when the session closes: cancels its waiting requests."""


def _age_of(session: SessionState) -> tuple[int, str]:
    """The sort key of the admin API: the millisecond, then the id."""
    return int(session.opened_at * 1000), session.id
