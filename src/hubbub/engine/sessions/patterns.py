"""Subscriptions of sessions to patterns: the channels that match, those that come into being, and
leaving them again.

A session follows a channel that matches like any other, through its feed, as an observer: it is
neither present there nor counted. Access is asked for each channel when the session joins it; what
it may not read is left out without a word.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from hubbub.domain.errors import (
    BadRequest,
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
from hubbub.domain.patterns import check_pattern, is_pattern
from hubbub.domain.permissions import Identity, Reader, may_read_pattern
from hubbub.domain.requests import ChannelRequest
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import Hub, HubPatterns, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.plans import Plan
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.ports.bus import (
    Attachment,
    Bus,
    ChannelMatched,
    FeedEvent,
    Matches,
    MessagePublished,
    Watch,
)
from hubbub.ports.clock import Clock
from hubbub.ports.encoding import Encoder
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

PAGE = 200
"""Channels that are confirmed in one notice."""
RETRY_SECONDS = 0.2
_EARLY_CHANNELS = 100
_EARLY_MESSAGES = 10


class ChannelSubscriptions(Protocol):
    """Subscriptions to channels, which those to patterns are made of."""

    async def prepare(
        self, session: SessionState, wanted: Iterable[ChannelRequest]
    ) -> tuple[list[Plan], list[ChannelFailure]]:
        """Every plan must be begun."""

    async def begin(self, session: SessionState, plans: Sequence[Plan]) -> None:
        """Called right after the plans were confirmed."""

    def join(self, session: SessionState, feed: Feed, by_pattern: bool = False) -> None:
        """Raises `NotPermitted`, and `TooManyMatches` where it is for a pattern."""

    def end(self, session: SessionState, channel: str) -> bool:
        """Whether there was a subscription to end."""

    def tell_state(self, session: SessionState, feed: Feed, retained: Message | None) -> None:
        """What else there is to say of a channel that a session has begun to follow."""

    def feed_of(self, hub: Hub, channel: str) -> Feed:
        """The feed, which is there as long as somebody uses it (`drop_if_unused`)."""

    def drop_if_unused(self, hub: Hub, feed: Feed) -> None:
        """Let go of a feed that nobody uses."""


class Prepared(msgspec.Struct, frozen=True):
    """Patterns that a session is subscribed to from now on."""

    confirmed: list[SubscribedPattern]
    failures: list[ChannelFailure]
    matched: dict[str, ChannelRequest]
    """The channels that match and that the session is about to follow."""


NO_PATTERNS = Prepared([], [], {})


def check_readable(hub: Hub, identity: Identity, pattern: str) -> None:
    """That the pattern as a whole may be subscribed to. Raises `InvalidName`, `NotPermitted`."""
    check_pattern(pattern)
    if not may_read_pattern(Reader(identity), pattern, hub.configuration):
        raise NotPermitted(
            f"no permission covers all that {pattern!r} can match; subscribe to a pattern that "
            "a permission covers"
        )


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
        self._bus = bus
        self._limits = limits
        self._clock = clock
        self._restore_keys = restore_keys
        self._chronicle = chronicle
        self._access = access
        self._tasks = tasks
        self._version = 0
        self._due: dict[Hub, bool] = {}
        """Hubs whose patterns are to be told and matched again, and whether what was said since
        their channels were opened is missing here."""
        self._looking = False

    # -- subscribing ----------------------------------------------------------------------------

    async def prepare(
        self,
        session: SessionState,
        wanted: Sequence[ChannelRequest],
        named: Collection[str],
    ) -> Prepared:
        """Subscribe to the patterns that are among what is wanted: channels that come into being
        are followed from now on. Those that are there, apart from the `named` ones, must be begun
        (`begin`)."""
        prepared = Prepared([], [], {})
        for request in wanted:
            if not is_pattern(request.channel):
                continue
            try:
                await self._subscribe(session, request, named, prepared)
            except HubbubError as error:
                prepared.failures.append(ChannelFailure(request.channel, error))
        return prepared

    async def _subscribe(
        self,
        session: SessionState,
        request: ChannelRequest,
        named: Collection[str],
        prepared: Prepared,
    ) -> None:
        pattern = request.channel
        self._check(session, request)
        known, before = pattern in (session.patterns or ()), set(session.matched or ())
        if not known:
            self._add(session, pattern)
        try:
            matches = await self._watch(session.hub, pattern)
            found = await self._readable(session, matches.channels)
            held = session.matched or {}
            new = [name for name in found if name not in held and name not in prepared.matched]
            if len(held) + len(prepared.matched) + len(new) > self._limits.session_matches:
                raise self._too_many(pattern, session.hub)
        except BaseException:
            if not known:
                self.end(session, pattern)
            raise
        for name in found:
            missed = request.timestamp is not None and name in before
            asks = missed or name not in (session.feeds or ())
            if asks and name not in named and name not in prepared.matched:
                since = ChannelRequest(name, timestamp=request.timestamp, by_pattern=True)
                prepared.matched[name] = since
        complete = request.timestamp is None or request.timestamp >= matches.complete_since
        prepared.confirmed.append(SubscribedPattern(pattern, len(found), complete))

    def _check(self, session: SessionState, request: ChannelRequest) -> None:
        """Raises `InvalidName`, `BadRequest`, `NotPermitted` or `TooManyMatches`."""
        pattern, hub = request.channel, session.hub
        session.check_identity()
        check_readable(hub, session.identity, pattern)
        if request.serial is not None or request.epoch is not None:
            raise BadRequest(
                f"{pattern!r} is a pattern: serials are of channels. Give a `timestamp`, or the "
                "serial of each channel with `byPattern`"
            )
        if pattern in (session.patterns or ()):
            return
        if len(session.patterns or ()) >= self._limits.session_patterns:
            raise TooManyMatches(
                f"a session may subscribe to {self._limits.session_patterns} patterns "
                f"(session.maxPatterns); {pattern!r} is one too many"
            )
        known = hub.patterns.sessions if hub.patterns is not None else {}
        if pattern not in known and len(known) >= self._limits.hub_patterns:
            raise TooManyMatches(
                f"the sessions of hub {hub.name!r} are subscribed to {len(known)} different "
                f"patterns (hub.maxPatterns); {pattern!r} is one too many"
            )

    def _add(self, session: SessionState, pattern: str) -> None:
        hub = session.hub
        if hub.patterns is None:
            hub.patterns = HubPatterns(
                partial(self._feed_began, hub), partial(self._feed_closed, hub)
            )
        if session.patterns is None:
            session.patterns = {}
        session.patterns[pattern] = None
        hub.patterns.add(pattern, session)
        self._chronicle.subscribed(session, pattern)
        self._restore_keys.touched(session)

    async def _readable(self, session: SessionState, names: Iterable[str]) -> list[str]:
        readable = []
        for number, name in enumerate(names, 1):
            if number % PAGE == 0:
                await asyncio.sleep(0)
            if self._may_follow(session, name):
                readable.append(name)
        return readable

    def _may_follow(self, session: SessionState, channel: str) -> bool:
        try:
            self._access.admit(session.hub.name, session, channel)
        except NotPermitted:
            return False
        return True

    async def begin(self, session: SessionState, matched: Mapping[str, ChannelRequest]) -> None:
        """Follow channels that match, each confirmed before it begins, page by page."""
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

    def check_match(self, session: SessionState, channel: str, planned: int = 0) -> None:
        """That the session may follow one more channel by its patterns. Raises `NotPermitted` and
        `TooManyMatches`."""
        hub = session.hub
        if hub.patterns is None or not hub.patterns.match(session.patterns or (), channel):
            raise NotPermitted(f"no pattern of this session matches {channel!r}")
        held = session.matched or {}
        room = len(held) + planned < self._limits.session_matches
        if channel not in held and not (room and hub.patterns.joined < self._limits.hub_matches):
            raise self._too_many(channel, hub)

    def _too_many(self, name: str, hub: Hub) -> TooManyMatches:
        limits = self._limits
        if hub.patterns is not None and hub.patterns.joined >= limits.hub_matches:
            return TooManyMatches(
                f"the sessions of hub {hub.name!r} follow {limits.hub_matches} channels by patterns"
                f" (hub.maxMatches): {name!r} is left out"
            )
        return TooManyMatches(
            f"a session may follow {limits.session_matches} channels by patterns "
            f"(session.maxMatches): {name!r} is left out; narrow the pattern"
        )

    # -- ending ---------------------------------------------------------------------------------

    def end(self, session: SessionState, pattern: str) -> bool:
        """Whether the session was subscribed to the pattern. Channels that no other pattern of the
        session matches are left."""
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
            self._tasks.start(self._tell(hub))
            if not patterns.sessions:
                hub.patterns = None
        self._chronicle.unsubscribed(session, pattern)
        self._restore_keys.touched(session)
        return True

    def end_all(self, session: SessionState) -> None:
        for pattern in list(session.patterns or ()):
            self.end(session, pattern)

    def recheck(self, session: SessionState) -> None:
        """Settings or the session's identity have changed: end the patterns that it may not have,
        and tell it. Channels that match were asked for one by one (`AccessRegistry.review`)."""
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
            self.look_again(session.hub)

    def hub_changed(self, hub: Hub) -> None:
        """What the sessions may read is decided anew."""
        if hub.patterns is not None:
            concerned = {s: None for each in hub.patterns.sessions.values() for s in each}
            for session in concerned:
                self.recheck(session)

    def channel_changed(self, hub: Hub, channel: str) -> None:
        """Its owner decided anew about a channel: perhaps somebody takes part now."""
        if self._is_wanted(hub, channel):
            self.look_again(hub)

    # -- channels that come and go --------------------------------------------------------------

    def receive(self, hub: Hub, channel: str, event: FeedEvent) -> None:
        """From the owner of a channel that a pattern matches and nobody here follows yet. Messages
        can come before the word that the channel was opened: the first of all is enough to begin
        with, others wait for it."""
        assert hub.patterns is not None
        early = hub.patterns.early
        if isinstance(event, ChannelMatched):
            self._begin_feed(hub, channel, event.attachment)
            for each in early.pop(channel, ()):
                self._pass_on(hub, channel, each)
        elif isinstance(event, MessagePublished):
            if event.message.serial == 1:
                self._begin_feed(hub, channel, Attachment(event.epoch, 0, None))
                self._pass_on(hub, channel, event)
            elif event.message.serial:
                if len(early) >= _EARLY_CHANNELS:
                    early.clear()  # what is missing shows when the owners tell their heads
                early.setdefault(channel, deque(maxlen=_EARLY_MESSAGES)).append(event)

    def _begin_feed(self, hub: Hub, channel: str, attachment: Attachment) -> None:
        """If nobody may follow the channel, its events are ignored."""
        assert hub.patterns is not None
        if any(self._may_follow(each, channel) for each in hub.patterns.matching(channel)):
            self._subscriptions.feed_of(hub, channel).begin(attachment)

    def _pass_on(self, hub: Hub, channel: str, event: FeedEvent) -> None:
        feed = hub.feeds.get(channel)
        if feed is not None:
            feed.receive(event)

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
        self._subscriptions.drop_if_unused(hub, feed)

    def _leave_out(self, session: SessionState, channel: str, error: TooManyMatches) -> None:
        """Tell the session of the first channel that it does not get, until there is room again."""
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

    # -- telling owners -------------------------------------------------------------------------

    def watches(self, hubs: Iterable[Hub]) -> list[Watch]:
        """What a node that is about to own channels has to know."""
        return [self._statement(hub) for hub in hubs if hub.patterns is not None]

    def _statement(self, hub: Hub, wanted: str = "") -> Watch:
        self._version = max(self._version + 1, int(self._clock.now() * 1e6))
        patterns = tuple(hub.patterns.sessions) if hub.patterns is not None else ()
        return Watch(hub.name, patterns, self._version, wanted, self._limits.session_matches)

    async def _watch(self, hub: Hub, wanted: str) -> Matches:
        return await self._bus.watch(self._statement(hub, wanted))

    async def _tell(self, hub: Hub) -> None:
        """A pattern has gone. Where that cannot be told, what still comes is ignored."""
        try:
            await self._watch(hub, "")
        except HubbubError as error:
            logger.info("not all nodes know that patterns of %r have gone: %s", hub.name, error)

    def owners_changed(self, hubs: Iterable[Hub]) -> None:
        """New owners may not know the patterns of this node yet."""
        for hub in hubs:
            if hub.patterns is not None:
                self.look_again(hub, missed=True)

    def look_again(self, hub: Hub, missed: bool = False) -> None:
        """Tell the patterns again, and follow all that matches and is not followed yet. `missed`:
        from where its owner opened it."""
        self._due[hub] = missed or self._due.get(hub, False)
        if not self._looking:
            self._looking = True
            self._tasks.start(self._look())

    async def _look(self) -> None:
        try:
            while self._due:
                hub = next(iter(self._due))
                missed = self._due.pop(hub)
                try:
                    await self._look_at(hub, missed)
                except HubbubError as error:
                    logger.info("patterns of %r are told again: %s", hub.name, error)
                    self._due[hub] = missed or self._due.get(hub, False)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._looking = False

    async def _look_at(self, hub: Hub, missed: bool) -> None:
        """Raises what kept an owner from answering."""
        for pattern in list(hub.patterns.sessions) if hub.patterns is not None else ():
            try:
                matches = await self._watch(hub, pattern)
            except TooManyMatches as error:
                logger.info("channels of %r are left out: %s", hub.name, error)
                continue
            for number, channel in enumerate(matches.channels, 1):
                if number % PAGE == 0:
                    await asyncio.sleep(0)
                if self._is_wanted(hub, channel):
                    await self._try_follow(hub, channel, missed)

    def _is_wanted(self, hub: Hub, channel: str) -> bool:
        """Whether a session lacks the channel that may have it."""
        return hub.patterns is not None and any(
            channel not in (session.feeds or ()) and self._may_follow(session, channel)
            for session in hub.patterns.matching(channel)
        )

    async def _try_follow(self, hub: Hub, channel: str, missed: bool) -> None:
        """Raises errors that another attempt may mend."""
        try:
            await self._follow(hub, channel, missed)
        except HubbubError as error:
            if error.retry:
                raise
            logger.info("%r of %r is left out: %s", channel, hub.name, error)

    async def _follow(self, hub: Hub, channel: str, missed: bool) -> None:
        feed = self._subscriptions.feed_of(hub, channel)
        feed.users += 1
        try:
            if feed.attached:
                hub.feed_began(feed, None)
            else:
                await feed.attach(by_pattern=True, missed=missed)
        finally:
            feed.users -= 1
            self._subscriptions.drop_if_unused(hub, feed)


def _confirmation(plan: Plan) -> SubscribedChannel:
    """With the serial after which messages begin: the client may not know the channel yet."""
    _, serial = plan.start()
    return msgspec.structs.replace(plan.confirmation(), serial=serial)
