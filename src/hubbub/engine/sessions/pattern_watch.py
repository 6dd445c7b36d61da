"""Registers a node's patterns with the owners of channels, and follows the matching channels that
they report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from hubbub.domain.errors import HubbubError, NotPermitted, TooManyMatches
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import Hub, SessionState
from hubbub.engine.limits import EngineLimits
from hubbub.engine.sessions.pattern_bounds import has_hook
from hubbub.ports.bus import Bus, Matches, Watch, WatchPatterns
from hubbub.ports.clock import Clock
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

PAGE = 200
"""Channels processed in one turn of the event loop."""
RETRY_SECONDS = 0.2


class Feeds(Protocol):
    """The feeds of a node."""

    def feed_of(self, hub: Hub, channel: str) -> Feed:
        """The feed, which exists while it is used (`drop_if_unused`)."""

    def drop_if_unused(self, hub: Hub, feed: Feed) -> None:
        """Closes a feed that is not used."""


class PatternWatch:
    """The registered patterns of one node."""

    def __init__(
        self,
        feeds: Feeds,
        bus: Bus,
        limits: EngineLimits,
        clock: Clock,
        access: AccessRegistry,
        tasks: TaskSet,
    ) -> None:
        self._feeds = feeds
        self._bus = bus
        self._limits = limits
        self._clock = clock
        self._access = access
        self._tasks = tasks
        self._version = 0
        self._due: dict[Hub, bool] = {}
        """Hubs whose patterns are to be registered and matched again, and whether messages since
        the opening of their channels were missed here."""
        self._looking = False

    # -- telling owners -------------------------------------------------------------------------

    def watches(self, hubs: Iterable[Hub]) -> list[Watch]:
        """The patterns of this node, for a node that is about to own channels."""
        return [self._statement(hub) for hub in hubs if hub.patterns is not None]

    def _statement(self, hub: Hub, wanted: str = "") -> Watch:
        self._version = max(self._version + 1, int(self._clock.now() * 1e6))
        patterns = tuple(hub.patterns.sessions) if hub.patterns is not None else ()
        return Watch(hub.name, patterns, self._version, wanted, self._limits.session_matches)

    async def ask(self, hub: Hub, wanted: str) -> Matches:
        """Registers a hub's patterns with all nodes, since any node may own its channels, and
        returns the channels that match `wanted`. Raises `TooManyMatches`, and the error of a node
        that did not respond."""
        answers = await self._bus.ask_all(WatchPatterns(self._statement(hub, wanted)))
        for missing in answers.missing.values():
            if not missing.left:  # what a node that left would answer, its successor does
                raise missing.error
        found = answers.given.values()
        return Matches(
            tuple(dict.fromkeys(name for each in found for name in each.channels)),
            max(each.complete_since for each in found),
        )

    def forget(self, hub: Hub) -> None:
        """Unregisters a pattern. If the message is lost, later events are ignored."""
        self._tasks.start(self._tell(hub))

    async def _tell(self, hub: Hub) -> None:
        try:
            await self.ask(hub, "")
        except HubbubError as error:
            logger.info("not all nodes know the removed patterns of hub %r: %s", hub.name, error)

    def owners_changed(self, hubs: Iterable[Hub]) -> None:
        """New owners may not know this node's patterns yet."""
        for hub in hubs:
            if hub.patterns is not None:
                self.look_again(hub, missed=True)

    # -- following what matches -----------------------------------------------------------------

    def look_again(self, hub: Hub, missed: bool = False) -> None:
        """Registers the patterns again, and follows all matching channels that are not followed
        yet. `missed`: from the opening of the channel on."""
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
                    logger.info("patterns of hub %r will be registered again: %s", hub.name, error)
                    self._due[hub] = missed or self._due.get(hub, False)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._looking = False

    async def _look_at(self, hub: Hub, missed: bool) -> None:
        """Raises the error of an owner that did not respond."""
        for pattern in list(hub.patterns.sessions) if hub.patterns is not None else ():
            try:
                matches = await self.ask(hub, pattern)
            except TooManyMatches as error:
                logger.info("matching channels of hub %r are not followed: %s", hub.name, error)
                continue
            for number, channel in enumerate(matches.channels, 1):
                if number % PAGE == 0:
                    await asyncio.sleep(0)
                if self.is_wanted(hub, channel):
                    await self._try_follow(hub, channel, missed)

    def is_wanted(self, hub: Hub, channel: str) -> bool:
        """Whether a session should follow the channel and does not yet."""
        return hub.patterns is not None and any(
            channel not in (session.feeds or ()) and self.may_follow(session, channel)
            for session in hub.patterns.matching(channel)
        )

    async def _try_follow(self, hub: Hub, channel: str, missed: bool) -> None:
        """Raises errors after which a retry may succeed."""
        try:
            await self._follow(hub, channel, missed)
        except HubbubError as error:
            if error.retry:
                raise
            logger.info("channel %r of hub %r is not followed: %s", channel, hub.name, error)

    async def _follow(self, hub: Hub, channel: str, missed: bool) -> None:
        feed = self._feeds.feed_of(hub, channel)
        feed.users += 1
        try:
            if feed.attached:
                hub.feed_began(feed, None)
            else:
                await feed.attach(by_pattern=True, missed=missed)
        finally:
            feed.users -= 1
            self._feeds.drop_if_unused(hub, feed)

    def may_follow(self, session: SessionState, channel: str) -> bool:
        try:
            self._access.admit(session.hub.name, session, channel)
        except NotPermitted:
            return False
        return not has_hook(session, channel)
