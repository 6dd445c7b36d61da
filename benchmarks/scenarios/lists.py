"""Pages of the admin API's long lists: what one takes of the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import islice
from random import Random
from typing import Any, cast

import msgspec
import uvloop

from benchmarks.findings import Effort, Finding
from hubbub.domain.errors import HubbubError
from hubbub.domain.permissions import Identity
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.administration.lists import (
    ListChannels,
    ListSessions,
    Ranked,
    channel_page,
    session_page,
)
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import Group
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.hub import Hub, SessionState
from hubbub.server.clock import SystemClock

_MANY = 100_000
_REACH_MILLISECONDS = 10.0
_ROWS = 200
_HUB = "bench"


@cache
def _middle(hub: Hub) -> str:
    session = next(islice(hub.sessions.values(), len(hub.sessions) // 2, None))
    return Ranked(int(1000 * session.opened_at), session.id).cursor


Page = Callable[[Hub], Awaitable[tuple[list[Any], int]]]
_PAGES: dict[str, Page] = {
    "channels by name": lambda hub: channel_page(hub, ListChannels(_HUB, _ROWS, "room:8")),
    "channels, searched": lambda hub: channel_page(hub, ListChannels(_HUB, _ROWS, q="abc")),
    "channels by sessions": lambda hub: channel_page(
        hub, ListChannels(_HUB, _ROWS, sort="-sessions")
    ),
    "sessions by id": lambda hub: session_page(hub, ListSessions(_HUB, _ROWS, "sM")),
    "sessions of a channel": lambda hub: session_page(
        hub, ListSessions(_HUB, _ROWS, channel="room:0")
    ),
    "sessions, searched": lambda hub: session_page(hub, ListSessions(_HUB, _ROWS, q="user77")),
    "newest sessions": lambda hub: session_page(hub, ListSessions(_HUB, _ROWS, sort="-opened")),
    "sessions by age, from the middle": lambda hub: session_page(
        hub, ListSessions(_HUB, _ROWS, _middle(hub), sort="-opened")
    ),
}


def lists(effort: Effort) -> list[Finding]:
    """CPU of one page of 200 rows, the least of several rounds: other programs of the machine only
    add to it."""
    many = effort.scaled(_MANY)
    hub = _filled(many)
    findings = []
    for what, page in _PAGES.items():
        rounds = [uvloop.run(_measured(hub, page)) for _ in range(5 * effort.rounds)]
        milliseconds = [1000 * seconds for seconds, _ in rounds]
        turns = [1000 * longest for _, longest in rounds]
        findings.append(
            Finding(
                f"a page of {many:,} {what}: ms of the loop (longest turn)",
                f"at most {_REACH_MILLISECONDS:g}",
                f"{min(milliseconds):.2f} ({min(turns):.2f})",
                min(milliseconds) <= _REACH_MILLISECONDS,
                {"milliseconds": milliseconds, "longest_turns": turns},
            )
        )
    return findings


async def _measured(hub: Hub, page: Page) -> tuple[float, float]:
    """CPU in all, and of the longest turn of the loop."""
    turns: list[float] = []
    began = time.thread_time()
    task = asyncio.get_running_loop().create_task(_asked(hub, page))
    last = began
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        turns.append(now - last)
        last = now
    assert task.result()
    return time.thread_time() - began, max(turns)


async def _asked(hub: Hub, page: Page) -> int:
    rows, total = await page(hub)
    names = [row.id if isinstance(row, SessionState) else row for row in rows]
    assert len(msgspec.json.encode(names)) > 2
    return total


class _Quiet(SessionState):
    """A session that nothing happens to."""

    def lose(self, channels: Sequence[str], error: HubbubError) -> None:
        raise AssertionError(channels)

    def end(self, error: HubbubError) -> None:
        raise AssertionError(error)

    def check_rate(self, amount: int = 1) -> None:
        raise AssertionError(amount)

    def cancel_requests(self) -> None:
        raise AssertionError


def _filled(many: int) -> Hub:
    random, clock = Random(1), SystemClock()
    hub = Hub(HubConfiguration(_HUB), HubCounters(), 0.0)
    unused = cast(Any, None)
    encoder, queue = unused, hub.delivery_queue
    for number in range(many):
        name = f"room:{random.getrandbits(40):x}" if number else "room:0"
        if name not in hub.feeds:
            feed = Feed(hub, name, unused, unused, clock, unused, RoomFeeds())
            feed.subscribers = 1 if random.random() < 0.97 else random.randrange(1, 50)
            feed.groups[encoder] = Group(encoder, queue)
            sizes = hub.channel_sizes
            sizes[feed.subscribers] = sizes.get(feed.subscribers, 0) + 1
            if feed.subscribers > 1:
                hub.shared_feeds[feed] = None
            hub.add_feed(feed)
        connection = cast(Any, object())
        session = _Quiet(hub, connection, Identity(user_id=f"user{number}"), "::1", clock, unused)
        session.feeds = {name: hub.feeds[name]}
        hub.feeds[name].groups[encoder].connections[connection] = session
        hub.add_session(session)
    return hub
