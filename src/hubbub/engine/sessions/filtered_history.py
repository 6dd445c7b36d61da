"""History through filters: as many messages as were asked for, of those that pass."""

from __future__ import annotations

import msgspec

from hubbub.domain.filters.filters import Screen
from hubbub.domain.history import HistoryQuery, PageRoom, size_of
from hubbub.domain.messages import Message
from hubbub.domain.notices import HistoryPage
from hubbub.engine.delivery.screening import screened
from hubbub.ports.bus import Bus
from hubbub.ports.clock import Clock

READ_AT_ONCE = 500
MOST_READ = 10_000
"""Messages that one request looks at. Where fewer pass than were asked for, the answer says where
to go on."""


class FilteredHistory:
    """One page."""

    def __init__(self, bus: Bus, clock: Clock, screen: Screen) -> None:
        self._bus = bus
        self._clock = clock
        self._screen = screen

    async def read(self, query: HistoryQuery) -> HistoryPage:
        """What passes, in rising order. `next` says where the page after it begins."""
        forwards = query.after is not None or query.after_time is not None
        room, found, read = PageRoom(query.limit), list[Message](), 0
        query = msgspec.structs.replace(query, limit=READ_AT_ONCE)
        recovered = True
        while True:
            page = await self._bus.history(query)
            recovered = recovered and page.recovered
            read += len(page.messages)
            for message in await self._passing(page, forwards):
                if not room.take(size_of(message)):
                    return _page(page, found, forwards, recovered, found[-1].serial)
                found.append(message)
            if not page.more or not page.messages or not recovered:
                return _page(page, found, forwards, recovered, None)
            end = page.messages[-1 if forwards else 0].serial
            if read >= MOST_READ:
                return _page(page, found, forwards, recovered, end)
            query = msgspec.structs.replace(
                query,
                after=end if forwards else None,
                before=None if forwards else end,
                after_time=None,
                before_time=None,
                epoch=page.epoch,
            )

    async def _passing(self, page: HistoryPage, forwards: bool) -> list[Message]:
        """In the direction of reading."""
        messages = page.messages if forwards else page.messages[::-1]
        return await screened(self._screen, messages, int(self._clock.now() * 1000))


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
