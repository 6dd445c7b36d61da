"""Pages of long lists: the channels and sessions of a hub on one node.

Names are kept sorted (`Hub.channel_names`, `Hub.session_ids`), and sessions sorted by age
(`Hub.sessions_by_age`). Searches, and orders by changing figures, scan everything in slices,
between which other tasks run."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from heapq import nlargest
from itertools import compress, islice
from operator import attrgetter
from typing import Literal, NamedTuple, TypeVar

import msgspec

from hubbub.domain.asking import NodeRequest
from hubbub.domain.sorted_names import SortedNames, holding
from hubbub.engine.administration.views import SessionView
from hubbub.engine.delivery.audience import Audience
from hubbub.engine.hub import Hub, SessionState

SLICE = 4000
_BLOCKS_IN_A_TURN = 8
MOST_ROWS = 200
"""Maximum number of rows per page."""

MOST_FOUND = 2000
"""Maximum number of sessions that a search returns."""
_SHORTEST_ID = 4
"""Shorter search texts are not compared with ids, which share their first characters."""

S = TypeVar("S")
T = TypeVar("T")
ChannelSort = Literal["name", "-sessions"]
SessionSort = Literal["id", "-opened"]


class Ranked(NamedTuple):
    """Orders names by a figure, descending; of equal figures the last name comes first."""

    figure: int
    name: str

    @property
    def cursor(self) -> str:
        return f"{self.figure} {self.name}"


_BEFORE_ALL = Ranked(2**63, "")


def ranked(cursor: str) -> Ranked:
    """Parses a cursor; any text is valid."""
    if not cursor:
        return _BEFORE_ALL
    figure, _, name = cursor.partition(" ")
    if not figure.isascii() or not figure.isdigit() or len(figure) > 18:
        return Ranked(0, cursor)
    return Ranked(int(figure), name)


class ListedChannels(msgspec.Struct, frozen=True):
    """Each row begins with the number of sessions."""

    rows: list[tuple[int, str]]
    total: int


class ListedSessions(msgspec.Struct, frozen=True):
    rows: list[SessionView]
    total: int


class ListChannels(NodeRequest[ListedChannels], frozen=True, tag="list-channels"):
    """Requests channels with sessions, after the cursor `after`."""

    hub: str
    limit: int
    after: str = ""
    prefix: str = ""
    q: str = ""
    sort: ChannelSort = "name"


class ListSessions(NodeRequest[ListedSessions], frozen=True, tag="list-sessions"):
    """`q`: part of the user's id, or the beginning of the session's id."""

    hub: str
    limit: int
    after: str = ""
    user_id: str | None = None
    channel: str | None = None
    q: str = ""
    sort: SessionSort = "id"


async def pause() -> None:
    """Lets other tasks of the event loop run."""
    await asyncio.sleep(0)


async def _blocks(names: SortedNames, prefix: str = "") -> AsyncIterator[str]:
    """The names as text, block by block, from the first with the prefix to the end of the last."""
    start, turn = prefix, 0
    while (block := names.lines(start)) is not None:
        lines, start = block
        yield lines
        if not start.startswith(prefix) and start > prefix:
            return
        turn += 1
        if turn % _BLOCKS_IN_A_TURN == 0:
            await pause()


async def page_of_names(
    names: SortedNames, after: str, prefix: str, q: str, limit: int
) -> tuple[list[str], int]:
    """The names after `after`, and the number of all names."""
    if not q:
        return names.behind(after, prefix, limit), names.count(prefix)
    page: list[str] = []
    total = 0
    async for lines in _blocks(names, prefix):
        matching = [name for name in holding(lines, q) if name.startswith(prefix)]
        total += len(matching)
        if len(page) < limit and matching and matching[-1] > after:
            page += matching[bisect_right(matching, after) :]
    return page[:limit], total


async def busiest(
    hub: Hub, limit: int, after: Ranked = _BEFORE_ALL, q: str = "", prefix: str = ""
) -> tuple[list[Ranked], int]:
    """Channels ordered by their number of sessions, and how many match.

    `Hub.channel_sizes` counts the channels of each size, so the size at which the page ends is
    known; only names of that size are compared."""
    sizes, total, some = hub.channel_sizes, len(hub.feeds), bool(q or prefix)
    feeds: Sequence[Audience] = ()
    if some:
        feeds = await sifted(
            list(hub.feeds.values()),
            lambda part: [
                each for each in part if q in each.channel and each.channel.startswith(prefix)
            ],
        )
        sizes, total = Counter(map(_SUBSCRIBERS, feeds)), len(feeds)
    sizes = {0: total - sum(sizes.values()), **sizes}
    least, so_many = 0, 0
    for figure in sorted((each for each in sizes if each <= after.figure), reverse=True):
        least, so_many = figure, so_many + (sizes[figure] if figure < after.figure else 0)
        if so_many >= limit or (figure == 1 and not sizes[0]):
            break
    common = sizes[least] * 20 > len(hub.feeds) and not some
    fewest = least + common
    if not some:
        feeds = list(hub.shared_feeds if fewest > 1 else hub.feeds.values())
    enough = fewest.__le__
    large = await sifted(
        feeds, lambda part: list(compress(part, map(enough, map(_SUBSCRIBERS, part))))
    )
    every = ((feed.subscribers, feed.channel) for feed in large)
    found = nlargest(limit, (each for each in every if each < after))
    if common and len(found) < limit:
        last = after.name if least == after.figure else None
        found += [(least, name) for name in _named(hub, least, last, limit - len(found))]
    return [Ranked(*each) for each in found], total


_SUBSCRIBERS = attrgetter("subscribers")
_OPENED = attrgetter("opened_at")


def _named(hub: Hub, figure: int, before: str | None, limit: int) -> Iterator[str]:
    """Channels with the given number of sessions, of which there are many; the last name first."""
    names = hub.channel_names.backwards(before)
    return islice((name for name in names if hub.feeds[name].subscribers == figure), limit)


async def newest(sessions: Sequence[SessionState], limit: int, after: Ranked) -> list[Ranked]:
    """Sessions by the millisecond at which they were opened. They are stored in that order, except
    for restored ones."""
    found: list[tuple[int, str]] = []
    latest = (after.figure + 1) / 1000
    size = SLICE // 4
    for end in range(len(sessions), 0, -size):
        soonest = found[-1][0] / 1000 if len(found) == limit else 0.0
        part = sessions[max(0, end - size) : end]
        opened = list(map(_OPENED, part))
        if max(opened) >= soonest and min(opened) <= latest:
            fresh = [(int(each.opened_at * 1000), each.id) for each in part]
            found = nlargest(limit, found + [each for each in fresh if each < after])
        await pause()
    return [Ranked(*each) for each in found]


async def channel_page(hub: Hub, question: ListChannels) -> tuple[list[Ranked], int]:
    """Channels with their number of sessions on this node, and how many match."""
    if question.sort == "name":
        names, total = await page_of_names(
            hub.channel_names, question.after, question.prefix, question.q, question.limit
        )
        feeds = hub.feeds
        return [
            Ranked(feeds[name].subscribers if name in feeds else 0, name) for name in names
        ], total
    return await busiest(hub, question.limit, ranked(question.after), question.q, question.prefix)


async def session_page(hub: Hub, question: ListSessions) -> tuple[list[SessionState], int]:
    """The sessions of this node in the requested order, and how many match."""
    some = await _some(hub, question)
    after, limit, by_age = question.after, question.limit, question.sort == "-opened"
    if some is None:
        if by_age:
            youngest = hub.sessions_by_age.backwards(ranked(after))
            return list(islice(youngest, limit)), len(hub.sessions)
        ids = hub.session_ids.behind(after, "", limit)
        return [hub.sessions[each] for each in ids], len(hub.sessions)
    if by_age:
        ids = [each.name for each in await newest(some, limit, ranked(after))]
    else:
        ids = await _first(some, after, limit)
    return [hub.sessions[each] for each in ids if each in hub.sessions], len(some)


async def _first(sessions: Sequence[SessionState], after: str, limit: int) -> list[str]:
    """The smallest ids after `after`."""
    page: list[str] = []
    for at in range(0, len(sessions), SLICE):
        most = page[-1] if len(page) == limit else None
        page += [
            each.id
            for each in sessions[at : at + SLICE]
            if each.id > after and (most is None or each.id < most)
        ]
        page = sorted(page)[:limit]
        await pause()
    return page


async def _some(hub: Hub, question: ListSessions) -> list[SessionState] | None:
    """The matching sessions; None if all match."""
    user, channel, q = question.user_id, question.channel, question.q
    found: list[SessionState] | None = None
    if user is not None:
        found = hub.sessions_of(user)
        if q:
            found = [each for each in found if q in user or each.id.startswith(q)]
    elif q:
        found = await _searched(hub, q)
    if channel is not None:
        if found is not None:
            return [each for each in found if channel in each.followed()]
        if channel not in hub.feeds:
            return []
        found = await sifted(
            list(hub.feeds[channel].followers()),
            lambda part: [each for each in part if isinstance(each, SessionState)],
        )
    return found


async def _searched(hub: Hub, q: str) -> list[SessionState]:
    """At most `MOST_FOUND` matching sessions."""
    found: dict[str, SessionState] = {}
    if len(q) >= _SHORTEST_ID:
        for session_id in hub.session_ids.behind("", q, MOST_FOUND):
            found[session_id] = hub.sessions[session_id]
    async for lines in _blocks(hub.user_ids):
        for user in holding(lines, q):
            found.update({each.id: each for each in hub.sessions_of(user)})
            if len(found) >= MOST_FOUND:
                return list(found.values())
    return list(found.values())


async def some_sessions(hub: Hub, channels: set[str], limit: int) -> dict[str, list[str]]:
    """The ids of at most `limit` sessions per channel."""
    found: dict[str, list[str]] = {}
    looked_at = 0
    for session in list(hub.sessions.values()) if limit and channels else []:
        feeds = session.feeds or {}
        for channel in channels & feeds.keys():
            ids = found.setdefault(channel, [])
            if len(ids) < limit:
                ids.append(session.id)
        looked_at += 1 + min(len(feeds), len(channels))
        if looked_at >= SLICE:
            looked_at = 0
            await pause()
    return found


async def sifted(items: Sequence[S], sift: Callable[[Sequence[S]], list[T]]) -> list[T]:
    """The items kept by `sift`, which processes one slice per turn of the loop."""
    found: list[T] = []
    for at in range(0, len(items), SLICE):
        found += sift(items[at : at + SLICE])
        await pause()
    return found


def cut(
    items: Sequence[T], limit: int, cursor_of: Callable[[T], str]
) -> tuple[list[T], str | None]:
    """The first `limit` items, and the cursor of the next page if there are more."""
    page = list(items[:limit])
    return page, cursor_of(page[-1]) if len(items) > limit else None
