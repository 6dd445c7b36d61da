"""Subscriptions of sessions: permission, missed messages, and the end of access."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager

from hubbub.domain.errors import (
    HubbubError,
    NotFound,
    NotPermitted,
    TooManyChannels,
    Unavailable,
)
from hubbub.domain.messages import Message
from hubbub.domain.names import check_name
from hubbub.domain.notices import (
    ChannelFailure,
    ChannelReset,
    Failed,
    Subscribed,
    Unsubscribed,
)
from hubbub.domain.patterns import is_pattern
from hubbub.domain.requests import Subscribe, SubscribeItem, Unsubscribe
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.fanout import Fanout
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.attendance import SessionPresence, check_presence_data
from hubbub.engine.sessions.catch_up import CatchUp, Replayer
from hubbub.engine.sessions.channel_tokens import ChannelTokens, drop_ended
from hubbub.engine.sessions.journal import Chronicle
from hubbub.engine.sessions.patterns import NO_PATTERNS, PatternSubscriptions, Prepared
from hubbub.engine.sessions.plans import Missed, Plan, PlanMemory
from hubbub.engine.sessions.restore_keys import RestoreKeys
from hubbub.ports.bus import (
    Bus,
    Detach,
    Leave,
    Occupy,
)
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet, side_by_side

_CHECKS_IN_A_TURN = 5
"""Channels of one request whose permission is checked in one turn of the event loop: long patterns
and names take up to 0.2 ms each."""


class Subscriptions:
    """Serves all sessions of a node."""

    def __init__(
        self,
        bus: Bus,
        fanout: Fanout,
        limits: EngineLimits,
        clock: Clock,
        restore_keys: RestoreKeys,
        chronicle: Chronicle,
        access: AccessRegistry,
        tasks: TaskSet,
        channel_tokens: ChannelTokens,
        room_feeds: RoomFeeds,
    ) -> None:
        self._room_feeds = room_feeds
        self._access = access
        self._channel_tokens = channel_tokens
        self._bus = bus
        self._clock = clock
        self._fanout = fanout
        self._limits = limits
        self._restore_keys = restore_keys
        self._chronicle = chronicle
        self.attendance = SessionPresence(bus, restore_keys)
        self._replayer = Replayer(bus, fanout, clock)
        self.patterns = PatternSubscriptions(
            self, bus, limits, clock, restore_keys, chronicle, access, tasks
        )

    async def subscribe(self, session: SessionState, request: Subscribe) -> None:
        named = [each for each in request.channels if not is_pattern(each.channel)]
        patterns = NO_PATTERNS
        if len(named) < len(request.channels):
            session.planned = {each.channel for each in named}
            patterns = await self.patterns.prepare(session, request.channels, session.planned)
            await self.patterns.begin(session, patterns.matched)
        await self.subscribe_by_name(session, named, patterns, request.req_id)

    async def subscribe_by_name(
        self,
        session: SessionState,
        named: Sequence[SubscribeItem],
        patterns: Prepared = NO_PATTERNS,
        req_id: int = 0,
    ) -> None:
        """Refuses names with a wildcard; the results of patterns are part of the same response."""
        plans, failures = await self.prepare(session, named)
        confirmations = tuple(plan.confirmation() for plan in plans)
        refused = (*failures, *patterns.failures)
        session.send(Subscribed(confirmations, refused, req_id, tuple(patterns.confirmed)))
        await self.begin(session, plans)

    async def prepare(
        self, session: SessionState, wanted: Iterable[SubscribeItem]
    ) -> tuple[list[Plan], list[ChannelFailure]]:
        """Checks each channel and determines what the session missed. Owners, perhaps on other
        nodes, are asked concurrently. Every plan must be begun."""
        asked: dict[str, SubscribeItem] = {}
        failures: list[ChannelFailure] = []
        for number, channel in enumerate(wanted, 1):
            if number % _CHECKS_IN_A_TURN == 0:
                await asyncio.sleep(0)
            if channel.channel in asked:
                continue
            try:
                await self._channel_tokens.take(session, channel)
                self._check(session, channel, len(asked))
                asked[channel.channel] = channel
            except HubbubError as error:
                failures.append(ChannelFailure(channel.channel, error))
        if session.patterns:
            session.planned = {*(session.planned or ()), *asked}
        room = PlanMemory(len(asked))
        answers = await side_by_side(
            [self._try_plan(session, each, room) for each in asked.values()]
        )
        plans: list[Plan] = []
        for name, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Plan):
                plans.append(answer)
            else:
                failures.append(ChannelFailure(name, answer))
        for failure in failures:
            self._end_plan(session, failure.channel)
        return plans, failures

    async def begin(self, session: SessionState, plans: Sequence[Plan]) -> None:
        """Called immediately after the plans were confirmed. Those without a replay begin before
        anything is awaited, so that they start exactly at the confirmed serial."""
        confirmed = [(plan.feed.epoch, plan.feed.position) for plan in plans]
        try:
            for plan in plans:
                if plan.wanted.presence is not None:
                    session.show(plan.wanted.channel, plan.wanted.presence)
                if plan.missed is None and not session.closed:
                    with self._telling(session, plan):
                        self._begin_live(session, plan)
            for plan, (epoch, serial) in zip(plans, confirmed, strict=True):
                with self._telling(session, plan):
                    if plan.missed is not None:
                        await self._replay(session, plan, plan.missed, epoch, serial)
            await self.attendance.tell(session, [plan.feed for plan in plans])
        finally:
            for plan in plans:
                plan.feed.users -= 1
                self._end_plan(session, plan.feed.channel)
                self.drop_if_unused(session.hub, plan.feed)

    def _end_plan(self, session: SessionState, channel: str) -> None:
        """Called after a failed plan: drops the channel's token, since tokens of failed
        subscriptions would pile up. A pattern may join the session to the channel again."""
        if channel not in (session.feeds or ()):
            session.drop_token(channel)
        if session.planned is not None:
            session.planned.discard(channel)
            if session.patterns and channel not in (session.feeds or ()):
                self.patterns.watch.look_again(session.hub)

    def unsubscribe(self, session: SessionState, request: Unsubscribe) -> None:
        ended: list[str] = []
        failures: list[ChannelFailure] = []
        for channel in request.channels:
            if self._unsubscribe(session, channel):
                ended.append(channel)
            else:
                error = NotFound(f"not subscribed to {channel!r}")
                failures.append(ChannelFailure(channel, error))
        session.send(Unsubscribed(tuple(ended), tuple(failures), request.req_id))

    def _unsubscribe(self, session: SessionState, channel: str) -> bool:
        """Returns whether the session was subscribed by name. If one of its patterns matches, it
        continues to follow the channel by the pattern."""
        if is_pattern(channel):
            return self.patterns.end(session, channel)
        if channel in (session.matched or ()):
            return False
        feed, patterns = (session.feeds or {}).get(channel), session.hub.patterns
        if feed is None or patterns is None or not patterns.match(session.patterns or (), channel):
            return self.end(session, channel)
        self._observe(session, feed)
        self._left(session, feed)
        return True

    def end(self, session: SessionState, channel: str) -> bool:
        """Returns whether the session was subscribed."""
        feed = session.feeds.pop(channel, None) if session.feeds else None
        if feed is None:
            return False
        if self._remove(session, feed):
            self.drop_if_unused(session.hub, feed)
        else:
            self._left(session, feed)
        return True

    def _left(self, session: SessionState, feed: Feed) -> None:
        """The session no longer follows the channel by name."""
        hub, channel = session.hub, feed.channel
        rules = hub.rules_for(channel)
        self._chronicle.unsubscribed(session, channel)
        session.show(channel, None)
        session.drop_token(channel)
        if rules.presence:
            self._bus.tell(Leave(hub.name, channel, (session.id,)))
        if rules.occupancy and feed.occupants:
            self._bus.tell(Occupy(hub.name, channel, feed.occupants))
        self.drop_if_unused(hub, feed)
        self._restore_keys.touched(session)

    def end_all(self, session: SessionState) -> None:
        self.patterns.end_all(session)
        for channel in list(session.feeds or ()):
            self.end(session, channel)

    def abandon_to(self, session: SessionState, kept: Container[str]) -> None:
        """Removes a session from its channels. Its successor is about to begin the `kept` ones, for
        which no leave is announced."""
        self.patterns.end_all(session)
        for channel in [channel for channel in session.feeds or () if channel not in kept]:
            self.end(session, channel)
        feeds, session.feeds = session.feeds, None
        for feed in (feeds or {}).values():
            if not self._remove(session, feed):
                self._chronicle.unsubscribed(session, feed.channel)
            self.drop_if_unused(session.hub, feed)

    def recheck(self, session: SessionState) -> None:
        """The session's identity changed: ends subscriptions that it does not permit."""
        self._access.review_one(session.hub.name, session)
        if session.patterns:
            self.patterns.recheck(session)

    def lose(self, session: SessionState, channels: Sequence[str], reason: NotPermitted) -> None:
        """Ends subscriptions to channels that the session may no longer read, and tells it why."""
        for channel in channels:
            self.end(session, channel)
        failures = tuple(ChannelFailure(channel, reason) for channel in channels)
        session.send(Unsubscribed((), failures))

    # -- one subscription -----------------------------------------------------------------------

    @contextmanager
    def _telling(self, session: SessionState, plan: Plan) -> Iterator[None]:
        """Sends the error of one subscription to the session."""
        try:
            yield
        except NotPermitted as error:  # access ended since the subscription was confirmed
            if not session.closed:
                self.lose(session, (plan.feed.channel,), error)
        except HubbubError as error:
            session.send(Failed(error))

    def _check(self, session: SessionState, wanted: SubscribeItem, planned: int) -> None:
        session.check_identity()
        channel = check_name(wanted.channel, "channel")
        if drop_ended(session, (channel,)):
            self.recheck(session)  # a subscription by the token ends with it
        check_presence_data(wanted.presence)
        self._access.admit(session.hub.name, session, channel)
        if wanted.by_pattern:
            self.patterns.bounds.check_match(session, channel, planned)
            return
        held, matched = session.feeds or {}, session.matched or {}
        new = channel not in held or channel in matched
        if new and len(held) - len(matched) + planned >= self._limits.session_channels:
            raise TooManyChannels(
                f"a session may follow {self._limits.session_channels} channels; "
                f"{channel!r} is one too many"
            )

    async def _try_plan(
        self, session: SessionState, wanted: SubscribeItem, room: PlanMemory
    ) -> Plan | HubbubError:
        try:
            return await self._plan(session, wanted, room)
        except HubbubError as error:
            return error

    async def _plan(self, session: SessionState, wanted: SubscribeItem, room: PlanMemory) -> Plan:
        hub, channel = session.hub, wanted.channel
        if not wanted.by_pattern:
            await hub.consent(session.reader_of(channel).identity, channel, session.id)
        feed = self.feed_of(hub, channel)
        feed.users += 1
        try:
            await feed.attach(wanted.by_pattern)
            missed = None
            if feed.holds_messages:
                reader = session.reader_of(channel).identity
                missed = await self._replayer.missed(hub, reader, wanted, room)
            if missed is not None and missed.recovered:
                await _bring_up_to(feed, missed)
            retains, passed, retained = hub.rules_for(channel).retain, feed.retained, None
            part_missed = () if feed.part is None else await feed.part.read_missed(wanted, room)
            if retains:
                retained = (await feed.ask_owner(wanted.by_pattern)).retained
        except BaseException:
            feed.users -= 1
            self.drop_if_unused(hub, feed)
            raise
        return Plan(feed, wanted, missed, retains, retained, passed, part_missed)

    def _begin_live(self, session: SessionState, plan: Plan) -> None:
        plan.feed.admit(session)
        retained = plan.newest_retained()
        if retained is not None:
            self._replayer.send_retained(session, plan.feed, retained)
        _tell_part(session, plan)
        channel, by_pattern = plan.feed.channel, plan.wanted.by_pattern
        if channel not in (session.feeds or ()):
            self.join(session, plan.feed, by_pattern)
        elif not by_pattern and self._unobserve(session, plan.feed):
            self._joined(session, plan.feed)  # it follows the channel by its name from now on

    def tell_state(self, session: SessionState, feed: Feed, retained: Message | None) -> None:
        """Sends the rest of the channel's state to a session that now follows it."""
        if retained is not None:
            self._replayer.send_retained(session, feed, retained)
        if feed.part is not None:
            session.send(feed.part.info())

    async def _replay(
        self, session: SessionState, plan: Plan, missed: Missed, epoch: str, serial: int
    ) -> None:
        """Sends the missed messages page by page, and joins the live feed exactly where they end.
        The confirmation named this epoch and, if messages were lost, the serial after which they
        begin. No page is kept in memory while the client reads."""
        feed, by_pattern = plan.feed, plan.wanted.by_pattern
        held = session.feeds.pop(feed.channel, None) if session.feeds else None
        if held is not None and not self._remove(session, held):
            self._chronicle.unsubscribed(session, feed.channel)
            by_pattern = False
        retained = plan.retained  # a newer one is among what follows
        if retained is not None and not missed.includes(retained, epoch):
            self._replayer.send_retained(session, plan.feed, retained)
        replay, page = CatchUp(session, feed, serial), plan.take_page()
        if missed.continues(epoch):
            replay = CatchUp(session, feed, missed.start)
            if page is not None:
                await self._replayer.send(replay, page)
        del missed, page
        while feed.epoch == epoch and not session.closed:
            await session.connection.drain()
            if replay.reached >= feed.position:
                break
            try:
                following = await self._replayer.page_after(feed, replay.reached)
            except HubbubError as error:
                session.connection.disconnect(error)  # nothing is lost: it will ask again
                return
            if following is None:
                break
            await self._replayer.send(replay, following)
            del following
        sent: int | None = replay.sent
        if (feed.epoch, feed.position) != (epoch, replay.reached):
            recovered = feed.is_at_beginning() and replay.reached == 0
            session.send(ChannelReset(feed.channel, feed.epoch, feed.position, recovered))
            sent = None
        # From the check of the position to here nothing waited: no message fits in between.
        if not session.closed:
            _tell_part(session, plan)
            self.join(session, feed, by_pattern, sent)

    def join(
        self,
        session: SessionState,
        feed: Feed,
        by_pattern: bool = False,
        sent: int | None = None,
    ) -> None:
        """`sent`: the last serial of a replay. Raises `NotPermitted`, and `TooManyMatches` for a
        subscription by a pattern."""
        if by_pattern:
            self.patterns.bounds.check_match(session, feed.channel)
        feed.add(session, session.connection, sent)
        if session.feeds is None:
            session.feeds = {}
        session.feeds[feed.channel] = feed
        session.hub.counters.subscriptions += 1
        if by_pattern:
            self._observe(session, feed)
        else:
            self._joined(session, feed)

    def _joined(self, session: SessionState, feed: Feed) -> None:
        self._chronicle.subscribed(session, feed.channel)
        self._restore_keys.touched(session)

    def _remove(self, session: SessionState, feed: Feed) -> bool:
        """Returns whether the session followed the channel only by patterns."""
        feed.remove(session.connection)
        session.hub.counters.subscriptions -= 1
        return self._unobserve(session, feed)

    def _observe(self, session: SessionState, feed: Feed) -> None:
        """The session continues to follow the channel only by patterns."""
        if session.matched is None:
            session.matched = {}
        session.matched[feed.channel] = None
        feed.observers += 1
        if session.hub.patterns is not None:
            session.hub.patterns.count(session, 1)

    def _unobserve(self, session: SessionState, feed: Feed) -> bool:
        """Returns whether the session followed the channel only by patterns."""
        if session.matched is None or session.matched.pop(feed.channel, self) is self:
            return False
        feed.observers -= 1
        session.matches_left_out = False
        if session.hub.patterns is not None:
            session.hub.patterns.count(session, -1)
        return True

    def feed_of(self, hub: Hub, channel: str) -> Feed:
        """The feed, which exists while it is used (`drop_if_unused`)."""
        feed = hub.feeds.get(channel)
        if feed is None:
            feed = Feed(
                hub, channel, self._bus, self._fanout, self._clock, self._access, self._room_feeds
            )
            hub.add_feed(feed)
        return feed

    def drop_if_unused(self, hub: Hub, feed: Feed) -> None:
        """Closes a feed that is not used. If it is followed only by patterns, its owner is told."""
        if feed.users or feed.occupants or hub.feeds.get(feed.channel) is not feed:
            return
        if not feed.subscribers:
            hub.remove_feed(feed)
        if feed.direct or not feed.attached:
            feed.direct = False
            self._bus.tell(Detach(hub.name, feed.channel))


def _tell_part(session: SessionState, plan: Plan) -> None:
    """Sends the state that a room adds to the channel, and the missed changes. Nothing is awaited
    between this and the start of the live feed."""
    part = plan.feed.part
    if part is not None:
        session.send(part.info(), *part.catch_up(plan.wanted, plan.part_missed))


async def _bring_up_to(feed: Feed, missed: Missed) -> None:
    """A session that was on another node may be ahead of this node's feed, which would send
    duplicates: the feed catches up first. Raises `Unavailable` if the owner does not respond."""
    epoch, start = missed.epoch, missed.start
    if epoch != feed.epoch or start > feed.position:
        await feed.reach(epoch, start)
        if epoch == feed.epoch and start > feed.position:
            raise Unavailable(
                f"this node is behind in {feed.channel!r} and cannot ask its owner; try again"
            )
