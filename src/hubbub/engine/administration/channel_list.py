"""Lists a hub's channels: those with sessions, with their own settings, or with messages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice

import msgspec

from hubbub.domain.names import is_document
from hubbub.domain.rules import ChannelSettings, HubConfiguration
from hubbub.engine.administration.lists import (
    ListChannels,
    Ranked,
    cut,
    ranked,
    sifted,
)
from hubbub.engine.administration.survey import Survey
from hubbub.engine.node import Node
from hubbub.ports.storage.messages import MessageStore, StoredChannel

_REMEMBERED_HUBS = 100
_ROWS_AT_ONCE = 1000
_MOST_READS = 20
"""Maximum number of store reads per page: a search with few hits stops there and continues on the
next page."""
_BEHIND_ALL = "\U0010ffff"
_DOCUMENTS = "doc:"


class ListedChannel(msgspec.Struct, frozen=True):
    name: str
    sessions: int
    stored: StoredChannel | None
    """None if the channel holds no messages."""


class ChannelList:
    """Combines the sessions of all nodes with the store's index of channel names."""

    def __init__(self, node: Node, store: MessageStore, survey: Survey) -> None:
        self._node = node
        self._store = store
        self._survey = survey
        self._sorted: dict[str, tuple[Mapping[str, ChannelSettings], list[str]]] = {}

    async def page(
        self, question: ListChannels, live: bool, documents: bool
    ) -> tuple[list[ListedChannel], str | None, int]:
        """Returns a page in the requested order, the cursor of the next page, and the number of
        channels with sessions or settings. `live`: only channels with sessions; `documents` False:
        no document channels. Raises `HubNotFound`, `StoreUnavailable`."""
        configuration = self._node.directory.get(question.hub)
        one_more = msgspec.structs.replace(question, limit=question.limit + 1)
        answers, _ = await self._survey.ask(one_more)
        sessions: Counter[str] = Counter()
        for answer in answers:
            sessions.update({name: count for count, name in answer.rows})
        rows_total = sum(answer.total for answer in answers)
        stored: dict[str, StoredChannel] = {}
        looked_to = None
        if not live:
            full = question.sort != "name" and len(sessions) > question.limit
            named, more = await self._without_sessions(configuration, question)
            rows_total += more
            sessions.update(dict.fromkeys(named, 0))
            if not full:
                stored, looked_to = await self._stored(question)
                sessions.update(dict.fromkeys(stored, 0))
        rows = [Ranked(count, name) for name, count in sessions.items()]
        page, following = _ordered(rows, question, looked_to)
        if not documents:
            page = [each for each in page if not is_document(each.name)]
            following = _behind_documents(question, following)
        missing = [each.name for each in page if each.name not in stored]
        if missing:
            found = await self._store.read_channels_named(question.hub, missing)
            stored.update((each.name, each) for each in found)
        listed = [ListedChannel(name, count, stored.get(name)) for count, name in page]
        return listed, following, rows_total

    async def _stored(self, question: ListChannels) -> tuple[dict[str, StoredChannel], str | None]:
        """Channels with messages that may belong to the page, and the last name read, if there may
        be more."""
        hub, prefix, wanted = question.hub, question.prefix, question.limit + 1
        backwards = question.sort != "name"
        here = self._node.hubs.get(hub)
        feeds = here.feeds if backwards and here is not None else {}
        found: dict[str, StoredChannel] = {}

        def take(rows: Iterable[StoredChannel]) -> None:
            for each in rows:
                matching = each.name.startswith(prefix) and question.q in each.name
                if matching and each.name not in feeds and len(found) < wanted:
                    found[each.name] = each

        at = _start(question)
        if not backwards and at < prefix:
            take(await self._store.read_channels_named(hub, [prefix]))
            at = prefix
        size = _ROWS_AT_ONCE if backwards or question.q else wanted
        for _ in range(_MOST_READS):
            rows = await self._store.read_channels(hub, at, size, backwards)
            take(rows)
            if len(rows) < size or len(found) == wanted:
                return found, None
            at = rows[-1].name
            if not at.startswith(prefix) and (at > prefix) is not backwards:
                return found, None
        return found, at

    async def _without_sessions(
        self, configuration: HubConfiguration, question: ListChannels
    ) -> tuple[list[str], int]:
        """Channels with settings but without sessions that may belong to the page, and how many
        match."""
        names, q, prefix = self._in_order(configuration), question.q, question.prefix
        if q or prefix:
            names = await sifted(
                names, lambda part: [name for name in part if q in name and name.startswith(prefix)]
            )
        here = self._node.hubs.get(question.hub)
        feeds = here.feeds if here is not None else {}
        silent = len(names) - sum(map(feeds.__contains__, names))
        wanted = question.limit + 1
        if question.sort == "name":
            start = bisect_right(names, question.after)
            return names[start : start + wanted], silent
        figure, name = ranked(question.after)
        end = len(names) if figure else bisect_left(names, name)
        backwards = (names[at] for at in range(end - 1, -1, -1) if names[at] not in feeds)
        return list(islice(backwards, wanted)), silent

    def _in_order(self, configuration: HubConfiguration) -> list[str]:
        """Channels with settings, sorted; sorted again only after a change."""
        known = self._sorted.get(configuration.hub)
        if known is None or known[0] is not configuration.channels:
            if len(self._sorted) >= _REMEMBERED_HUBS:
                self._sorted.clear()
            known = configuration.channels, sorted(configuration.channels)
            self._sorted[configuration.hub] = known
        return known[1]


def _start(question: ListChannels) -> str:
    """The name after which the store is read, or before which in reverse order."""
    if question.sort == "name":
        return question.after.partition("\0")[0]
    figure, name = ranked(question.after)
    return question.prefix + _BEHIND_ALL if figure else name.partition("\0")[0]


def _ordered(
    rows: list[Ranked], question: ListChannels, looked_to: str | None
) -> tuple[list[Ranked], str | None]:
    """The page, and the cursor of the next one. Rows beyond `looked_to` are left to the next page,
    since the store was read only up to there."""
    if question.sort == "name":
        rows.sort(key=lambda each: each.name)
        if looked_to is not None:
            rows = [each for each in rows if each.name <= looked_to]
        page, following = cut(rows, question.limit, lambda each: each.name)
        return page, following or looked_to
    after = ranked(question.after)
    rows = sorted((each for each in rows if each < after), reverse=True)
    if looked_to is None:
        return cut(rows, question.limit, _cursor)
    last = Ranked(0, looked_to)
    page, following = cut([each for each in rows if each >= last], question.limit, _cursor)
    return page, following or last.cursor


def _cursor(row: Ranked) -> str:
    return row.cursor


def _behind_documents(question: ListChannels, following: str | None) -> str | None:
    """Returns the cursor unchanged unless it names a document; then a cursor that skips all
    documents."""
    if following is None:
        return None
    if question.sort == "name":
        return f"{_DOCUMENTS}{_BEHIND_ALL}" if is_document(following) else following
    last = ranked(following)
    return Ranked(last.figure, _DOCUMENTS).cursor if is_document(last.name) else following
