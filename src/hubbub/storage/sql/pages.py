"""Pages of rows that are bounded in number and in bytes."""

from __future__ import annotations

from collections.abc import Iterable

from hubbub.domain.history import PageRoom
from hubbub.storage.sql.connection import Row, Sql


class RowPage:
    """At most `limit` rows with `page_bytes` together, or a single larger one. The last column is
    the size of a row, and is dropped."""

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
    """Base of the parts of `Reads` that read pages."""

    _sql: Sql
    _page_bytes: int

    def _page(self, limit: int) -> RowPage:
        return RowPage(limit, self._page_bytes)

    async def _fill(self, page: RowPage, statement: str, *values: object, start: int) -> None:
        """The statement's last two parameters are the position after which it continues (the first
        column of its rows) and the maximum number of rows. One extra row tells whether there are
        more."""
        while not page.more:
            wanted, room = page.room.messages + 1, max(0, page.room.size)
            rows = await self._sql.fetch_sized(statement, room, *values, start, wanted)
            page.take(rows)
            if not rows or (len(rows) < wanted and page.room.size >= 0):
                return
            start = rows[-1][0]
