"""Queries of a session about a channel: its history and its members."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import BadRequest, HubbubError, NotFound
from hubbub.domain.filters.filters import NO_FILTERS, Filters, filter_of_request
from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import HistoryPage, Member, Presence, ThreadsPage
from hubbub.domain.patterns import is_pattern
from hubbub.domain.permissions import Identity, may_subscribe, refusal
from hubbub.domain.requests import History, PresenceQuery, Threads
from hubbub.domain.threads import DEFAULT_PAGE, MAX_PAGE, ThreadsQuery, no_threads
from hubbub.engine.delivery.screening import Screening
from hubbub.engine.hub import MEMBER_BYTES, Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.catch_up import shown_to
from hubbub.engine.sessions.filtered_history import FilteredHistory
from hubbub.engine.sessions.pattern_bounds import check_readable
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.bus import Bus, MembersQuery
from hubbub.ports.clock import Clock


class Queries:
    """Serves sessions and plain HTTP alike. A session's query waits until its client has read most
    of what was sent before: unread responses do not pile up, and later requests wait."""

    def __init__(
        self, bus: Bus, limits: EngineLimits, clock: Clock, subscriptions: Subscriptions
    ) -> None:
        self._subscriptions = subscriptions
        self._bus = bus
        self._clock = clock
        self._limits = limits

    async def history(self, session: SessionState, request: History) -> None:
        try:
            await session.connection.drain()
            session.check_identity()
            reader = session.reader_of(request.channel).identity
            page = await self.page(session.hub, reader, request, session.filters)
        except HubbubError as error:
            page = HistoryPage(request.channel, recovered=False, error=error, req_id=request.req_id)
        session.send(page)

    async def threads(self, session: SessionState, request: Threads) -> None:
        try:
            await session.connection.drain()
            session.check_identity()
            reader = session.reader_of(request.channel).identity
            page = await self.threads_page(session.hub, reader, request)
        except HubbubError as error:
            page = ThreadsPage(request.channel, error=error, req_id=request.req_id)
        session.send(page)

    async def presence(self, session: SessionState, request: PresenceQuery) -> None:
        try:
            await session.connection.drain()
            session.check_identity()
            if request.data is not None:
                self._subscriptions.attendance.show(session, request.channel, request.data)
            reader = session.reader_of(request.channel).identity
            members = await self.members(session.hub, reader, request.channel)
            answer = Presence(request.channel, members, request.req_id)
        except HubbubError as error:
            answer = Presence(request.channel, (), request.req_id, error)
        session.send(answer)

    async def page(
        self, hub: Hub, identity: Identity, request: History, filters: Filters = NO_FILTERS
    ) -> HistoryPage:
        """A page of a channel's history, to be encoded at once: the messages that pass these
        filters and that of the request. Raises `NotPermitted`, `InvalidName`, `InvalidFilter` and
        `BadRequest`."""
        self.check(hub, identity, request.channel, "read")
        bounds = (request.after, request.before, request.after_time, request.before_time)
        if sum(bound is not None for bound in bounds) > 1:
            raise BadRequest("give at most one of after, before, afterTime and beforeTime")
        if request.conversation_id is not None and not hub.rules_for(request.channel).store:
            raise no_threads(request.channel)
        if request.limit < 0:
            raise BadRequest(f"limit is {request.limit}; give a number from 1 on, or none")
        if request.filter is not None:
            filters = filters.beside(filter_of_request(request.filter))
        screen = filters.for_channel(request.channel)
        largest = self._limits.history_page
        query = HistoryQuery(
            hub.name,
            request.channel,
            min(request.limit or largest, largest),
            after=request.after,
            before=request.before,
            after_time=request.after_time,
            before_time=request.before_time,
            epoch=request.epoch or None,
            conversation=request.conversation_id,
        )
        await hub.consent(identity, request.channel)
        if screen is None:
            found = await self._bus.ask(query)
        else:
            screening = Screening(screen, int(self._clock.now() * 1000), hub.slices)
            found = await FilteredHistory(self._bus, screening).read(query)
        found = shown_to(hub, identity, query, found)
        await hub.take_turn(sum(len(message.payload) for message in found.messages))
        return msgspec.structs.replace(found, req_id=request.req_id)

    async def threads_page(self, hub: Hub, identity: Identity, request: Threads) -> ThreadsPage:
        """A page of a channel's conversations, for readers of its history. Raises `NotPermitted`,
        `InvalidName` and, if the channel stores no messages, `NotFound`."""
        self.check(hub, identity, request.channel, "read")
        if not hub.rules_for(request.channel).store:
            raise no_threads(request.channel)
        await hub.consent(identity, request.channel)
        found = await self._bus.ask(
            ThreadsQuery(
                hub.name,
                request.channel,
                min(request.limit or DEFAULT_PAGE, MAX_PAGE),
                request.after or 0,
                request.status,
            )
        )
        await hub.take_turn(sum(len(thread.first.payload) for thread in found.threads))
        return ThreadsPage(request.channel, found.threads, found.epoch, found.more, request.req_id)

    async def members(self, hub: Hub, identity: Identity, channel: str) -> tuple[Member, ...]:
        self.check(hub, identity, channel, "see who is in")
        if not hub.rules_for(channel).presence:
            raise NotFound(f"{channel!r} keeps no presence; its rules must switch it on")
        await hub.consent(identity, channel)
        members = await self._bus.ask(MembersQuery(hub.name, channel))
        await hub.take_turn(len(members) * MEMBER_BYTES)
        return members

    def check_any(self, hub: Hub, identity: Identity, channels: Sequence[str]) -> None:
        """Raises the first `NotPermitted` or `InvalidName` if none of the channels or patterns may
        be followed."""
        refusals: list[HubbubError] = []
        for channel in channels:
            try:
                if is_pattern(channel):
                    check_readable(hub, identity, channel)
                else:
                    self.check(hub, identity, channel, "subscribe to")
            except HubbubError as error:
                refusals.append(error)
            else:
                return
        raise refusals[0]

    @staticmethod
    def check(hub: Hub, identity: Identity, channel: str, action: str) -> None:
        """Raises `NotPermitted` if the channel may not be followed, and `InvalidName`."""
        rules = hub.rules_for(channel)
        if not may_subscribe(identity, channel, rules, hub.user_channels):
            raise refusal(identity, action, channel, rules)
