"""Filters of devices: several channels and patterns that are granted or refused as one, with the
retained messages of channels that nobody has open."""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from hubbub.domain.errors import HubbubError, NotPermitted
from hubbub.domain.patterns import PatternSet, is_pattern, literal_start
from hubbub.domain.requests import Position, SubscribeItem
from hubbub.engine.hub import SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.mqtt.requests import (
    FiltersFollowed,
    FiltersSettled,
    FollowFilters,
    WantedChannels,
)
from hubbub.engine.rooms import Room
from hubbub.engine.session_requests import InTurn
from hubbub.engine.sessions.patterns import Prepared
from hubbub.engine.sessions.subscriptions import Subscriptions
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store

_PAGE = 500


class FilterRequests(Room):
    def __init__(
        self, subscriptions: Subscriptions, store: Store, clock: Clock, limits: EngineLimits
    ) -> None:
        self._subscriptions = subscriptions
        self._store = store
        self._clock = clock
        self._limits = limits
        self.session_requests = (
            InTurn(FollowFilters, self._follow, lambda request: len(request.filters)),
        )

    async def _follow(self, session: SessionState, request: FollowFilters) -> None:
        if request.saving is not None:
            await request.saving()
        names = dict.fromkeys(name for wanted in request.filters for name in wanted.names)
        goes_on, since = request.places is not None, request.since or None
        known = {each.channel: _after(each) for each in request.places or ()}
        named = {
            name: known.get(name) or SubscribeItem(name) for name in names if not is_pattern(name)
        }
        patterns = [SubscribeItem(name, timestamp=since) for name in names if is_pattern(name)]
        subscriptions = self._subscriptions
        if patterns:
            session.planned = set(named)
        matched = {
            name: msgspec.structs.replace(each, by_pattern=True)
            for name, each in known.items()
            if name not in named
        }
        prepared = await subscriptions.patterns.prepare(session, patterns, {*named, *matched})
        if goes_on:
            prepared.matched.update(matched)
        else:
            await self._add_retained(session, prepared, named)
        plans, failures = await subscriptions.prepare(session, named.values())
        refused = {each.channel: each.error for each in (*failures, *prepared.failures)}
        errors = tuple(_refusal(wanted, refused) for wanted in request.filters)
        granted = {
            name
            for wanted, error in zip(request.filters, errors, strict=True)
            if error is None
            for name in wanted.names
        }
        session.send(FiltersFollowed(request.req_id, errors))
        try:
            await subscriptions.begin(session, plans)
            await subscriptions.patterns.begin(session, prepared.matched)
        finally:
            for name in names.keys() - granted - request.kept:
                self._end(session, name)
            session.send(FiltersSettled())

    def _end(self, session: SessionState, name: str) -> None:
        if is_pattern(name):
            self._subscriptions.patterns.end(session, name)
        else:
            self._subscriptions.end(session, name)

    async def _add_retained(
        self, session: SessionState, prepared: Prepared, named: Container[str]
    ) -> None:
        """Adds channels with a retained message that no owner has open, and those that the session
        follows already: a repeated filter brings retained messages again."""
        for confirmed in list(prepared.confirmed):
            matching = PatternSet((confirmed.pattern,))
            found = [name for name in session.matched or () if matching.matches(name)]
            found += await self._retained(session, confirmed.pattern, matching)
            for name in found:
                if name not in named:
                    again = SubscribeItem(name, by_pattern=True)
                    prepared.matched.setdefault(name, again)

    async def _retained(
        self, session: SessionState, pattern: str, matching: PatternSet
    ) -> list[str]:
        """The session follows these channels like those that are open, so that the same limit
        holds."""
        start, found = literal_start(pattern), dict[str, None]()
        room = self._limits.session_matches - len(session.matched or ())
        now, after = int(self._clock.now() * 1000), start
        while len(found) < room:
            page = await self._store.read_retained_channels(session.hub.name, after, now, _PAGE)
            for name in page:
                if not name.startswith(start):
                    return list(found)
                if matching.matches(name) and self._may_follow(session, name):
                    found[name] = None
            if len(page) < _PAGE:
                break
            after = page[-1]
        return list(found)[: max(0, room)]

    def _may_follow(self, session: SessionState, name: str) -> bool:
        return self._subscriptions.patterns.watch.may_follow(session, name)


def _after(place: Position) -> SubscribeItem:
    return SubscribeItem(place.channel, serial=place.serial, epoch=place.epoch or None)


def _refusal(wanted: WantedChannels, refused: Mapping[str, HubbubError]) -> HubbubError | None:
    """`a/#` stands for `a` and for all below it: whoever may follow only the latter follows
    that."""
    errors = {name: refused[name] for name in wanted.names if name in refused}
    if len(errors) < len(wanted.names):
        for name, error in errors.items():
            if is_pattern(name) or not isinstance(error, NotPermitted):
                return error
        return None
    return next(iter(errors.values()))
