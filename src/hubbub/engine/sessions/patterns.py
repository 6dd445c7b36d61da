"""Subscriptions of sessions to patterns: to existing channels that match and to later ones.

A session follows a matching channel like any other, through its feed, but as an observer: it is not
present there and not counted. Access is checked for each channel when the session joins it;
channels that it may not read are skipped silently."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from hubbub.domain.asking import FeedEvent
from hubbub.domain.errors import (
    HubbubError,
    NotPermitted,
    TooManyMatches,
)
from hubbub.domain.messages import Message
from hubbub.domain.notices import (
    ChannelFailure,
    Subscribed,
    SubscribedChannel,
    SubscribedPattern,
    Unsubscribed,
)
from hubbub.domain.patterns import is_pattern
from hubbub.domain.permissions import may_read_pattern
from hubbub.domain.requests import SubscribeItem
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import Hub, HubPatterns, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.pattern_bounds import PatternBounds, holder_of
from hubbub.engine.sessions.pattern_watch import PAGE, Feeds, PatternWatch
from hubbub.engine.sessions.plans import Plan
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.ports.bus import Attachment, Bus, ChannelMatched, MessagePublished
from hubbub.ports.clock import Clock
from hubbub.ports.encoding import Encoder
from hubbub.tasks import TaskSet

_EARLY_CHANNELS = 100
_EARLY_MESSAGES = 10


class ChannelSubscriptions(Feeds, Protocol):
    """Subscriptions to single channels, of which pattern subscriptions consist."""

    async def prepare(
        self, session: SessionState, wanted: Iterable[SubscribeItem]
    ) -> tuple[list[Plan], list[ChannelFailure]]:
        """Every returned plan must be begun."""

    async def begin(self, session: SessionState, plans: Sequence[Plan]) -> None:
        """Called immediately after the plans were confirmed."""

    def join(self, session: SessionState, feed: Feed, by_pattern: bool = False) -> None:
        """Raises `NotPermitted`, and `TooManyMatches` for a subscription by a pattern."""

    def end(self, session: SessionState, channel: str) -> bool:
        """Returns whether the session was subscribed."""

    def tell_state(self, session: SessionState, feed: Feed, retained: Message | None) -> None:
        """Sends the rest of the channel's state to a session that now follows it."""


class Prepared(msgspec.Struct, frozen=True):
    """Patterns to which a session is now subscribed."""

    confirmed: list[SubscribedPattern]
    failures: list[ChannelFailure]
    matched: dict[str, SubscribeItem]
    """Matching channels that the session is about to follow."""


NO_PATTERNS = Prepared([], [], {})


class PatternSubscriptions:
    """Serves all sessions of a node."""

    def __init__(
        self,
        subscriptions: ChannelSubscriptions,
        bus: Bus,
        limits: EngineLimits,
        clock: Clock,
        restore_keys: RestoreKeys,
        chronicle: Chronicle,
        access: AccessRegistry,
        tasks: TaskSet,
    ) -> None:
        self._subscriptions = subscriptions
        self._limits = limits
        self.bounds = PatternBounds(limits)
        self._restore_keys = restore_keys
        self._chronicle = chronicle
        self.watch = PatternWatch(subscriptions, bus, limits, clock, access, tasks)

    # -- subscribing ----------------------------------------------------------------------------

    async def prepare(
        self,
        session: SessionState,
        wanted: Sequence[SubscribeItem],
        named: Collection[str],
    ) -> Prepared:
        """Subscribes to the patterns among the requested names: new matching channels are followed
        from now on. Existing ones, except for the `named` ones, must be begun (`begin`)."""
        prepared = Prepared([], [], {})
        asked: set[str] = set()
        for request in wanted:
            if not is_pattern(request.channel) or request.channel in asked:
                continue
            asked.add(request.channel)  # once: the owners compare all of their channels with it
            try:
                await self._subscribe(session, request, named, prepared)
            except HubbubError as error:
                prepared.failures.append(ChannelFailure(request.channel, error))
        return prepared

    async def check_any(self, hub: Hub, patterns: Iterable[str]) -> None:
        """Raises the first `TooManyMatches` if each of the patterns matches more channels than a
        session may follow."""
        refusals: list[TooManyMatches] = []
        for pattern in patterns:
            try:
                await self.watch.ask(hub, pattern)
            except TooManyMatches as error:
                refusals.append(error)
            else:
                return
        if refusals:
            raise refusals[0]

    async def _subscribe(
        self,
        session: SessionState,
        request: SubscribeItem,
        named: Collection[str],
        prepared: Prepared,
    ) -> None:
        pattern = request.channel
        self.bounds.check(session, request)
        known, before = pattern in (session.patterns or ()), set(session.matched or ())
        if not known:
            self._add(session, pattern)
        try:
            matches = await self.watch.ask(session.hub, pattern)
            found = await self._readable(session, matches.channels)
            held = session.matched or {}
            new = [name for name in found if name not in held and name not in prepared.matched]
            if len(held) + len(prepared.matched) + len(new) > self._limits.session_matches:
                raise self.bounds.too_many(pattern, session.hub)
        except BaseException:
            if not known:
                self.end(session, pattern)
            raise
        for name in found:
            missed = request.timestamp is not None and name in before
            asks = missed or name not in (session.feeds or ())
            if asks and name not in named and name not in prepared.matched:
                since = SubscribeItem(name, timestamp=request.timestamp, by_pattern=True)
                prepared.matched[name] = since
        complete = request.timestamp is None or request.timestamp >= matches.complete_since
        prepared.confirmed.append(SubscribedPattern(pattern, len(found), complete))

    def _add(self, session: SessionState, pattern: str) -> None:
        hub = session.hub
        if hub.patterns is None:
            hub.patterns = HubPatterns(
                partial(self._feed_began, hub), partial(self._feed_closed, hub)
            )
        if not session.patterns:
            session.patterns = {}
            session.holder = holder_of(session)
        session.patterns[pattern] = None
        hub.patterns.add(pattern, session)
        self._chronicle.subscribed(session, pattern)
        self._restore_keys.touched(session)

    async def _readable(self, session: SessionState, names: Iterable[str]) -> list[str]:
        readable = []
        for number, name in enumerate(names, 1):
            if number % PAGE == 0:
                await asyncio.sleep(0)
            if self.watch.may_follow(session, name):
                readable.append(name)
        return readable

    async def begin(self, session: SessionState, matched: Mapping[str, SubscribeItem]) -> None:
        """Follows matching channels, page by page; each is confirmed before it begins."""
        requests = list(matched.values())
        for at in range(0, len(requests), PAGE):
            if session.closed or not session.patterns:
                return
            await session.connection.drain()
            page = requests[at : at + PAGE]
            plans, failures = await self._subscriptions.prepare(session, page)
            told = tuple(each for each in failures if not isinstance(each.error, NotPermitted))
            if plans or told:
                session.send(Subscribed(tuple(map(_confirmation, plans)), told))
            await self._subscriptions.begin(session, plans)

    # -- ending ---------------------------------------------------------------------------------

    def end(self, session: SessionState, pattern: str) -> bool:
        """Returns whether the session was subscribed to the pattern. The session leaves channels
        that none of its other patterns match."""
        if pattern not in (session.patterns or ()):
            return False
        assert session.patterns is not None
        del session.patterns[pattern]
        patterns, hub = session.hub.patterns, session.hub
        assert patterns is not None
        left = session.patterns
        for channel in list(session.matched or ()):
            if not (left and patterns.match(left, channel)):
                self._subscriptions.end(session, channel)
        if patterns.remove(pattern, session):
            self.watch.forget(hub)
            if not patterns.sessions:
                hub.patterns = None
        self._chronicle.unsubscribed(session, pattern)
        self._restore_keys.touched(session)
        return True

    def end_all(self, session: SessionState) -> None:
        for pattern in list(session.patterns or ()):
            self.end(session, pattern)

    def recheck(self, session: SessionState) -> None:
        """Settings or the session's identity changed: ends patterns that are no longer permitted,
        and tells the session. Matching channels are checked one by one by
        `AccessRegistry.review`."""
        lost = [
            pattern
            for pattern in session.patterns or ()
            if not may_read_pattern(session.reader, pattern, session.hub.configuration)
        ]
        for pattern in lost:
            self.end(session, pattern)
        if lost:
            error = NotPermitted("the permission to subscribe was taken away")
            failures = tuple(ChannelFailure(pattern, error) for pattern in lost)
            session.send(Unsubscribed((), failures))
        if session.patterns:
            self.watch.look_again(session.hub)

    def hub_changed(self, hub: Hub) -> None:
        """Permissions changed: matches are determined again."""
        if hub.patterns is not None:
            concerned = {s: None for each in hub.patterns.sessions.values() for s in each}
            for session in concerned:
                self.recheck(session)

    def channel_changed(self, hub: Hub, channel: str) -> None:
        """A channel's owner changed its binding: sessions may have gained access."""
        if self.watch.is_wanted(hub, channel):
            self.watch.look_again(hub)

    # -- channels that come and go --------------------------------------------------------------

    def receive(self, hub: Hub, channel: str, event: FeedEvent) -> None:
        """Handles an event from the owner of a channel that matches a pattern and is not followed
        here yet. Messages may arrive before the announcement that the channel was opened: the first
        message suffices to start following; others wait for the announcement, as do those without a
        serial."""
        assert hub.patterns is not None
        early = hub.patterns.early
        if isinstance(event, ChannelMatched):
            self._begin_feed(hub, channel, event.attachment)
        elif isinstance(event, MessagePublished):
            if event.message.serial == 1:
                self._begin_feed(hub, channel, Attachment(event.epoch, 0, None))
                feed = hub.feeds.get(channel)
                if feed is not None:
                    feed.receive(event)
            else:
                if len(early) >= _EARLY_CHANNELS:
                    early.clear()  # what is missing shows when the owners tell their heads
                early.setdefault(channel, deque(maxlen=_EARLY_MESSAGES)).append(event)

    def _begin_feed(self, hub: Hub, channel: str, attachment: Attachment) -> None:
        """Events of the channel are ignored if no session may follow it."""
        assert hub.patterns is not None
        if any(self.watch.may_follow(each, channel) for each in hub.patterns.matching(channel)):
            self._subscriptions.feed_of(hub, channel).begin(attachment)
        hub.patterns.early.pop(channel, None)

    def _feed_began(self, hub: Hub, feed: Feed, attachment: Attachment | None) -> None:
        assert hub.patterns is not None
        notice = Subscribed((SubscribedChannel(feed.channel, feed.epoch, feed.position),))
        retained = attachment.retained if attachment is not None else None
        if retained is not None and not hub.rules_for(feed.channel).retain:
            retained = None
        packed: dict[Encoder, bytes] = {}
        for session in hub.patterns.matching(feed.channel):
            if session.closed or feed.channel in (session.feeds or ()):
                continue
            if feed.channel in (session.planned or ()):
                continue
            if session.matches_left_out and not self.bounds.has_room(session, hub.patterns):
                continue  # it was told; to find out again would take ten times as long
            try:
                feed.admit(session)
                self._subscriptions.join(session, feed, by_pattern=True)
            except NotPermitted:
                continue
            except TooManyMatches as error:
                self._leave_out(session, feed.channel, error)
                continue
            encoder = session.connection.encoder
            if encoder not in packed:
                packed[encoder] = encoder.pack([encoder.encode(notice)])
            session.connection.send(packed[encoder])
            self._subscriptions.tell_state(session, feed, retained)
        for early in hub.patterns.early.pop(feed.channel, ()):
            feed.receive(early)
        self._subscriptions.drop_if_unused(hub, feed)

    def _leave_out(self, session: SessionState, channel: str, error: TooManyMatches) -> None:
        """Tells the session about the first channel that exceeds its limit, once until there is
        room again."""
        if not session.matches_left_out:
            session.matches_left_out = True
            session.send(Subscribed((), (ChannelFailure(channel, error),)))

    def _feed_closed(self, hub: Hub, feed: Feed) -> None:
        assert hub.patterns is not None
        notice = Unsubscribed((feed.channel,))
        for session in hub.patterns.matching(feed.channel):
            if feed.channel in (session.matched or ()):
                self._subscriptions.end(session, feed.channel)
                session.send(notice)


def _confirmation(plan: Plan) -> SubscribedChannel:
    """Names the serial after which messages begin: the client may not know the channel yet."""
    _, serial = plan.start()
    return msgspec.structs.replace(plan.confirmation(), serial=serial)
