"""Filters of sessions: sets, removes and lists them, and applies them to the channels they
follow."""

from __future__ import annotations

import asyncio

from hubbub.domain.filters.filters import Filter, Filters, compile_filter
from hubbub.domain.notices import FilterList, FilterSet, FilterUnset
from hubbub.domain.patterns import is_pattern
from hubbub.domain.requests import FilterRequest, SetFilter, UnsetFilter
from hubbub.engine.hub import SessionState
from hubbub.engine.sessions.pattern_bounds import check_readable
from hubbub.engine.sessions.queries import Queries
from hubbub.engine.sessions.restore_keys import RestoreKeys

_CHANNELS_IN_A_TURN = 50


class SessionFilters:
    """Serves all sessions of a node."""

    def __init__(self, restore_keys: RestoreKeys, queries: Queries) -> None:
        self._restore_keys = restore_keys
        self._queries = queries

    async def answer(self, session: SessionState, request: FilterRequest) -> None:
        """Raises `IncompleteFilter`, `InvalidFilter`, `InvalidName`, `NotPermitted`,
        `TooManyFilters` and `NotFound`."""
        session.check_identity()
        if isinstance(request, SetFilter):
            await self.set(session, compile_filter(request.definition))
            made = request.definition
            session.send(FilterSet(made.name, made.channel, request.req_id))
        elif isinstance(request, UnsetFilter):
            count = await self.unset(session, request.name, request.channel)
            session.send(FilterUnset(request.name, request.channel, count, request.req_id))
        else:
            session.send(FilterList(session.filters.listed(request.channel), request.req_id))

    async def set(self, session: SessionState, new: Filter) -> None:
        """The filter applies to all messages published from now on. Raises `NotPermitted` for a
        channel or pattern that the session may not follow, and `TooManyFilters`."""
        channel = new.definition.channel
        if channel is not None and is_pattern(channel):
            check_readable(session.hub, session.identity, channel)
        elif channel is not None:
            self._queries.check(session.hub, session.identity, channel, "filter")
        await self._replace(session, session.filters.adding(new))

    async def unset(self, session: SessionState, name: str, channel: str | None) -> int:
        """Returns the number of removed filters; without a channel, all filters of the name are
        removed. Raises `NotFound`."""
        before = len(session.filters)
        await self._replace(session, session.filters.without(name, channel))
        return before - len(session.filters)

    async def _replace(self, session: SessionState, filters: Filters) -> None:
        session.filters = filters
        self._restore_keys.touched(session)
        for number, channel in enumerate(list(session.feeds or ()), 1):
            feed = (session.feeds or {}).get(channel)
            if feed is not None and not session.closed:
                feed.rescreen(session, session.connection)
            if number % _CHANNELS_IN_A_TURN == 0:
                await asyncio.sleep(0)
