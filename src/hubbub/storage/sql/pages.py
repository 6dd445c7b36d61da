"""Pages of rows that are bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.domain.history import PageRoom
from hubbub.storage.sql.connection import Row, Sql


class Page:
    """At most `limit` rows of `page_bytes` together, or a single larger one. The last column of
    what is taken is the size of a row, and not kept."""

    def __init__(self, limit: int, page_bytes: int) -> None:
        self.more = False
        self.room = PageRoom(limit, page_bytes)
        self.rows: list[Row] = []

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if not self.room.take(row[-1]):
                self.more = True
                return
            self.rows.append(row[:-1])


class Pages:
    """Part of `Reads`."""

    _sql: Sql
    _page_bytes: int

    def _page(self, limit: int) -> Page:
        return Page(limit, self._page_bytes)

    async def _fill(self, page: Page, statement: str, *values: int | str, start: int) -> None:
        """The last two values of the statement are the position behind which it goes on, which is
        the first column of its rows, and how many rows it may answer. One row more than there is
        room for tells that there are more."""
        while not page.more:
            wanted, room = page.room.messages + 1, max(0, page.room.size)
            rows = await self._sql.fetch_sized(statement, room, *values, start, wanted)
            page.take(rows)
            if not rows or (len(rows) < wanted and page.room.size >= 0):
                return
            start = rows[-1][0]
