"""Renewal: a node repeats its subscriptions to the owners when owners change or lose contact with
it.

The response contains the channel's position, from which a feed detects and fetches the messages it
missed during the move."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from hubbub.domain.errors import HubbubError
from hubbub.domain.notices import Member
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.hub import Hub
from hubbub.ports.bus import Bus, FollowedState
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)

AT_ONCE = 2000
"""Channels renewed in one turn of the event loop."""
RETRY_SECONDS = 0.2


class Renewal:
    """Renews all feeds of a node. Failures are retried while the feed exists."""

    def __init__(self, bus: Bus, hubs: Mapping[str, Hub], tasks: TaskSet) -> None:
        self._bus = bus
        self._hubs = hubs
        self._tasks = tasks
        self._due: dict[Feed, Hub] = {}
        self._changed: set[int] = set()
        """Partitions whose feeds are still to be collected."""
        self._running = False

    @property
    def due(self) -> int:
        """The number of channels, or partitions, still to be renewed."""
        return len(self._due) + len(self._changed)

    def owners_changed(self, partitions: Collection[int]) -> None:
        """Scans all feeds, once for all changes in a turn of the event loop."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._look)
        self._changed.update(partitions)

    def _look(self) -> None:
        changed, self._changed = self._changed, set()
        for hub in self._hubs.values():
            for feed in hub.feeds.values():
                if feed.partition in changed:
                    self._due[feed] = hub
        if self._due and not self._running:
            self._running = True
            self._tasks.start(self._run())

    async def _run(self) -> None:
        told = 0
        try:
            while self._due:
                feeds = list(self._due.items())
                self._due.clear()
                parts = [feeds[at : at + AT_ONCE] for at in range(0, len(feeds), AT_ONCE)]
                tasks = []
                for part in parts:
                    tasks.append(asyncio.ensure_future(self._renew(part)))
                    await asyncio.sleep(0)
                told += len(feeds)
                failed = [feed for feeds in await asyncio.gather(*tasks) for feed in feeds]
                if failed:
                    await asyncio.sleep(RETRY_SECONDS)
                    told -= len(failed)
                    self._due.update(failed)
            logger.info(
                "the owners know again what this node follows",
                extra={
                    "fields": {"channels": told, "monotonic": asyncio.get_running_loop().time()}
                },
            )
        finally:
            self._running = False

    async def _renew(self, feeds: Sequence[tuple[Feed, Hub]]) -> list[tuple[Feed, Hub]]:
        """Returns the feeds whose renewal failed."""
        feeds = [(feed, hub) for feed, hub in feeds if hub.feeds.get(feed.channel) is feed]
        present = _present(feeds)
        answers = await self._bus.follow(
            [
                FollowedState(
                    hub.name,
                    feed.channel,
                    tuple(present.get(feed, ())),
                    feed.occupants,
                    by_pattern=not (feed.occupants or feed.users),
                )
                for feed, hub in feeds
            ]
        )
        failed = []
        for (feed, hub), answer in zip(feeds, answers, strict=True):
            if not isinstance(answer, HubbubError):
                feed.renewed(answer)
            elif answer.retry:
                failed.append((feed, hub))
        return failed


def _present(feeds: Sequence[tuple[Feed, Hub]]) -> dict[Feed, list[Member]]:
    """The sessions in those channels that have presence enabled."""
    wanted = {feed: hub for feed, hub in feeds if hub.rules_for(feed.channel).presence}
    found: dict[Feed, list[Member]] = {}
    for hub in set(wanted.values()):
        for session in hub.sessions.values():
            for channel, feed in (session.feeds or {}).items():
                if feed in wanted and channel not in (session.matched or ()):
                    found.setdefault(feed, []).append(session.member(channel))
    return found
