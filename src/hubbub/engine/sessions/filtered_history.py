"""History through filters: reads on until the requested number of messages has passed."""

from __future__ import annotations

import msgspec

from hubbub.domain.history import HistoryQuery, PageRoom, size_of
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage
from hubbub.engine.delivery.screening import Screening
from hubbub.ports.bus import Bus

READ_AT_ONCE = 500
MOST_READ = 10_000
"""Maximum number of messages read per request. If fewer than requested pass, the response says
where to continue."""
_FREE_CHECKS = 50
"""Comparisons per message above which fewer messages are read."""


class FilteredHistory:
    """The evaluation of one page."""

    def __init__(self, bus: Bus, screening: Screening) -> None:
        self._bus = bus
        self._screening = screening

    async def read(self, query: HistoryQuery) -> HistoryPage:
        """The messages that pass, in ascending order. `next` says where the next page begins."""
        forwards = query.after is not None or query.after_time is not None
        room, found, read = PageRoom(query.limit), list[Message](), 0
        query = msgspec.structs.replace(query, limit=READ_AT_ONCE)
        recovered, cost = True, max(self._screening.checks, _FREE_CHECKS)
        while True:
            page = await self._bus.ask(query)
            recovered = recovered and page.recovered
            read += len(page.messages) * cost
            for message in page.messages if forwards else reversed(page.messages):
                if not await self._screening.passes(message):
                    continue
                if not room.take(size_of(message)):
                    return _page(page, found, forwards, recovered, found[-1].serial)
                found.append(message)
            if not page.more or not page.messages or not recovered:
                return _page(page, found, forwards, recovered, None)
            end = page.messages[-1 if forwards else 0].serial
            if read >= MOST_READ * _FREE_CHECKS:
                return _page(page, found, forwards, recovered, end)
            query = msgspec.structs.replace(
                query,
                after=end if forwards else None,
                before=None if forwards else end,
                after_time=None,
                before_time=None,
                epoch=page.epoch,
            )


def _page(
    last: HistoryPage, found: list[Message], forwards: bool, recovered: bool, end: int | None
) -> HistoryPage:
    return msgspec.structs.replace(
        last,
        messages=tuple(found if forwards else reversed(found)),
        recovered=recovered,
        more=end is not None,
        next=end,
    )
