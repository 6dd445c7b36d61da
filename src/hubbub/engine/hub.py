"""A hub on this node: its settings, its sessions, and the channels that they follow.

`Hub` and `SessionState` are one module because each refers to the other. What a session asks for is
handled in `engine.sessions`; this module knows none of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hubbub.domain.errors import HubNotFound, NotAuthenticated
from hubbub.domain.filters.filters import NO_FILTERS, Filters, Screen
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
from hubbub.engine.large_work import SMALL_BYTES, leave_loop
from hubbub.ports.bus import Attachment, FeedEvent
from hubbub.ports.clock import Clock
from hubbub.ports.connection import Connection, Pausable

_REMEMBERED_RULES = 4096

MEMBER_BYTES = 500
"""Encoding somebody who is present takes as long as encoding so many bytes of a message."""


AskHook = Callable[["Hub", Identity, str, str | None], Awaitable[None]]
"""Raises `NotPermitted`, `HookFailed` and `Limited`."""


@dataclass(slots=True, eq=False)
class Hub:
    """The state of a tenant in memory. It goes when nobody has used it for a while."""

    configuration: HubConfiguration
    counters: HubCounters
    idle_since: float
    ask_hook: AskHook | None = None
    """Asks the channel's hook before a client reads it; see `engine.services.consent`."""
    missing: HubNotFound | None = None
    """There is no such hub, which is told only to who has a token for it."""
    message_prefix: str = field(default_factory=lambda: secrets.token_hex(6))
    """Ids of messages count within the hub, and tell nothing about other hubs."""
    message_numbers: count[int] = field(default_factory=lambda: count(1))
    sessions: dict[str, SessionState] = field(default_factory=dict)
    """By id. Changed by `add_session` and `remove_session` only."""
    session_ids: SortedNames = field(default_factory=SortedNames)
    """The keys of `sessions`, in order."""
    sessions_by_age: SortedItems[SessionState] = field(default_factory=lambda: SortedItems(_age_of))
    """The newest last."""
    _of_user: dict[str, dict[str, SessionState]] = field(default_factory=dict)
    user_ids: SortedNames = field(default_factory=SortedNames)
    """Users with a session on this node, in order."""
    feeds: dict[str, Feed] = field(default_factory=dict)
    """By channel. Changed by `add_feed` and `remove_feed` only."""
    channel_names: SortedNames = field(default_factory=SortedNames)
    """The keys of `feeds`, in order."""
    channel_sizes: dict[int, int] = field(default_factory=dict)
    """Number of sessions to number of feeds with so many; kept up to date by the feeds."""
    shared_feeds: dict[Audience, None] = field(default_factory=dict)
    """Those of `feeds` with more than one session; kept by the feeds."""
    patterns: HubPatterns | None = None
    """None while no session is subscribed to one."""
    _large_answers: asyncio.Lock = field(default_factory=asyncio.Lock)
    name: str = field(init=False)
    delivery_queue: DeliveryQueue = field(init=False)
    user_channels: bool = field(init=False)
    topic_keys: Mapping[str, bytes] = field(init=False)
    limited: bool = field(init=False)
    hooked: bool = field(init=False)
    """Whether some channel has a hook."""
    pushes: bool = field(init=False)
    """Whether messages of some channel may be pushed to devices."""
    messages: TokenBucket = field(init=False)
    deliveries: TokenBucket = field(init=False)
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
        self.limited = bool(quotas.messages_per_second or quotas.deliveries_per_second)
        self.messages = TokenBucket(quotas.messages_per_second, quotas.messages_per_second, now)
        self.deliveries = TokenBucket(
            quotas.deliveries_per_second, quotas.deliveries_per_second, now
        )
        self._rules = {}

    def add_session(self, session: SessionState) -> None:
        """In place of another session of the same id, if there is one."""
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
        """False where it was not there, or another session had taken its id."""
        if self.sessions.get(session.id) is not session:
            return False
        del self.sessions[session.id]
        self.session_ids.remove(session.id)
        self.sessions_by_age.remove(session)
        self._unindex(session)
        return True

    def identify(self, session: SessionState, identity: Identity) -> None:
        """The session is somebody else from now on."""
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
        """As whom the hub stores what a user asked for, where users have no access."""
        return Identity(user_id=user_id, level=Level.SERVICE)

    def bind(self, configuration: HubConfiguration) -> None:
        """The owner of a channel decided something, and nothing else changed: what counts towards
        quotas goes on."""
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
        """Before a client subscribes to the channel or reads it. Raises `NotPermitted`,
        `HookFailed` and `Limited`."""
        if self.hooked and self.ask_hook is not None:
            await self.ask_hook(self, identity, channel, session_id)

    async def take_turn(self, size: int) -> None:
        """Before an answer of so many bytes is encoded. Large ones come one after the other, each
        after some turns of the loop, in which everyone else is served."""
        if size > SMALL_BYTES:
            async with self._large_answers:
                await leave_loop(size)

    def feed_began(self, feed: Feed, attachment: Attachment | None) -> None:
        """A feed follows its owner from here on: whose pattern matches joins it."""
        if self.patterns is not None:
            self.patterns.feed_began(feed, attachment)

    def feed_closed(self, feed: Feed) -> None:
        """The channel of a feed has gone: who follows it by a pattern leaves it."""
        if self.patterns is not None:
            self.patterns.feed_closed(feed)

    def hold_back(self, channel: str, publisher: Pausable) -> None:
        """Let a publisher wait if the channel's subscribers are far behind."""
        feed = self.feeds.get(channel)
        if feed is not None:
            feed.hold_back(publisher)


@dataclass(slots=True, eq=False)
class HubPatterns:
    """The patterns that sessions of a node are subscribed to in one hub."""

    feed_began: Callable[[Feed, Attachment | None], None]
    """Has the sessions whose patterns match join a feed."""
    feed_closed: Callable[[Feed], None]
    """Has the sessions that follow a feed by patterns leave it."""
    sessions: dict[str, dict[SessionState, None]] = field(default_factory=dict)
    """By pattern."""
    joined: int = 0
    """Channels that sessions follow by patterns only, each counted for each session."""
    joined_by: Counter[str] = field(default_factory=Counter)
    """The same, by `SessionState.holder`."""
    held: dict[str, Counter[str]] = field(default_factory=dict)
    """How many sessions have a pattern, by holder and pattern."""
    early: dict[str, deque[FeedEvent]] = field(default_factory=dict)
    """Messages of channels, by channel, that came before the word that the channel was opened."""
    _compiled: dict[str, PatternSet] = field(default_factory=dict)

    def add(self, pattern: str, session: SessionState) -> None:
        self.sessions.setdefault(pattern, {})[session] = None
        self.held.setdefault(session.holder, Counter())[pattern] += 1
        if pattern not in self._compiled:
            self._compiled[pattern] = PatternSet((pattern,))

    def remove(self, pattern: str, session: SessionState) -> bool:
        """Whether that was the last session with the pattern."""
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
        """The session follows so many channels more, or fewer, by patterns only."""
        self.joined += channels
        self.joined_by[session.holder] += channels
        if not self.joined_by[session.holder]:
            del self.joined_by[session.holder]

    def match(self, patterns: Iterable[str], channel: str) -> bool:
        """Whether one of these patterns, which sessions are subscribed to, matches."""
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
    """One client connection: who it is, and which channels it follows."""

    hub: Hub
    connection: Connection
    identity: Identity
    address: str
    clock: Clock
    tokens: Tokens
    # A letter first: a command line would take an id that begins with '-' for an option.
    id: str = field(default_factory=lambda: f"s{secrets.token_urlsafe(12)}")
    feeds: dict[str, Feed] | None = None
    patterns: dict[str, None] | None = None
    """That the session is subscribed to, in order."""
    holder: str = ""
    """For whom its patterns count: the user, or the network of who is anonymous, when it
    subscribed to the first of them."""
    matched: dict[str, None] | None = None
    """Those of the channels that it follows by patterns only."""
    planned: set[str] | None = None
    """Channels that a session with patterns is about to follow, from a position that it asked
    for."""
    matches_left_out: bool = False
    """The session was told that it cannot follow all that matches."""
    opened_at: float = field(init=False)
    last_seen: float = field(init=False)
    closed: bool = False
    reason: str | None = None
    """Why the session ends, if known: an error's code, or `closed` by the client."""
    filters: Filters = NO_FILTERS
    presence_data: dict[str, dict[str, Any]] | None = None
    """What the client says of itself, by channel."""
    channel_readers: dict[str, Reader] | None = None
    """As whom the session follows channels for which it showed a token, by channel."""
    restore_hash: bytes | None = None
    spent_hash: bytes | None = None
    """The hash of the restore key that was used to come here; it dies with the next frame."""

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
        return self.filters.for_channel(channel) if self.filters else None

    def drop_token(self, channel: str) -> None:
        """The session shows no token for the channel any more."""
        if self.channel_readers:
            self.channel_readers.pop(channel, None)

    def send(self, *said: Notice) -> None:
        encoder = self.connection.encoder
        self.connection.send(encoder.pack([encoder.encode(notice) for notice in said]))

    def member(self, channel: str) -> Member:
        """This session, as presence shows it."""
        return Member(
            session_id=self.id,
            user_id=self.identity.user_id,
            extra=self.identity.extra,
            timestamp=int(self.clock.now() * 1000),
            data=self.presence_data.get(channel) if self.presence_data else None,
        )

    def show(self, channel: str, data: dict[str, Any] | None) -> None:
        """What presence shows of the session in a channel from now on; None: nothing."""
        if data is not None:
            if self.presence_data is None:
                self.presence_data = {}
            self.presence_data[channel] = data
        elif self.presence_data:
            self.presence_data.pop(channel, None)

    def check_identity(self) -> None:
        """Raises `InvalidToken` where the token no longer holds, and `NotAuthenticated` where the
        hub allows nobody to be anonymous and this session is."""
        identity = self.identity
        if identity.user_id is None and not identity.authenticated:
            if not self.hub.configuration.settings.allow_anonymous:
                raise NotAuthenticated(
                    f"authenticate first: hub {self.hub.name!r} wants it, or does not exist"
                )
        elif identity.expires_at is not None:
            self.tokens.check(identity, self.hub.name)

    def cancel_requests(self) -> None:
        """The session is closed: cancel what still waits on its behalf."""


def _age_of(session: SessionState) -> tuple[int, str]:
    """The order of the admin API: by the millisecond, then by the id."""
    return int(session.opened_at * 1000), session.id
