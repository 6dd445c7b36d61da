"""A PostgreSQL connection for the SQL operations shared by all stores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import asyncpg

from hubbub.domain.errors import HubbubError
from hubbub.storage.postgres.errors import describe, is_about_one_operation
from hubbub.storage.sql.connection import ManyRows, Row
from hubbub.storage.sql.words import WORD_VECTOR, blocks, single_words

_ESCAPE = "\x01"
_VALUE = re.compile(r"\$(\d+)")


# Arithmetic keeps the planner from walking through a channel's rows: the index finds them.
_FIND_WORDS = f"""
SELECT found.place, found.at, CASE WHEN $6::boolean THEN found.words ELSE '' END
FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS part (low, high, asked),
LATERAL (
    SELECT place, at, words FROM search_texts
    WHERE {WORD_VECTOR} @@ asked::tsquery
        AND place + 0 >= low AND place + 0 <= high AND ' ' || words || ' ' LIKE ALL ($4::text[])
    ORDER BY place + 0 DESC LIMIT $5
) AS found
"""  # noqa: S608 - names only


def escape(value: Any) -> Any:
    """PostgreSQL does not allow NUL in texts: it is escaped, as is the escape character, also in
    the elements of an array."""
    if type(value) is list:
        return list(map(escape, value))
    if type(value) is str and ("\x00" in value or _ESCAPE in value):
        return value.replace(_ESCAPE, _ESCAPE + "1").replace("\x00", _ESCAPE + "0")
    return value


def unescape(value: Any) -> Any:
    if type(value) is str and _ESCAPE in value:
        return value.replace(_ESCAPE + "0", "\x00").replace(_ESCAPE + "1", _ESCAPE)
    return value


def _arrays(rows: Sequence[Row]) -> list[Sequence[Any]]:
    """Transposes rows to one list per column."""
    return [
        [escape(value) for value in column]
        if any(type(value) is str for value in column)
        else column
        for column in zip(*rows, strict=True)
    ]


def _readable(records: Sequence[asyncpg.Record]) -> list[Row]:
    return [tuple([unescape(value) for value in record.values()]) for record in records]


def _renumbered(statement: str, start: int) -> str:
    return _VALUE.sub(lambda value: f"${int(value[1]) + start}", statement)


@cache
def _joined(statements: tuple[str, ...]) -> str:
    """Combines the statements into one and renumbers their parameters."""
    if len(statements) == 1:
        return statements[0]
    parts: list[str] = []
    count = 0
    for statement in statements:
        parts.append(f"part{len(parts)} AS ({_renumbered(statement, count)})")
        count += max(int(number) for number in _VALUE.findall(statement))
    return f"WITH {', '.join(parts)} SELECT 1"


@cache
def _within(statement: str) -> str:
    """Limits the statement's rows to a total size, which is one more parameter, and adds the size
    of preceding rows as a column. The server does not load large values of other rows."""
    room = 1 + max(int(number) for number in _VALUE.findall(statement))
    before = "COALESCE(SUM(size) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)"
    return (
        f"SELECT * FROM (SELECT part.*, {before} AS before FROM ({statement}) AS part) AS parts"  # noqa: S608 - fixed texts
        f" WHERE before <= ${room}"
    )


class PostgresSql:
    """Implements `hubbub.storage.sql.transactions.Connection`. Once `committing` is set, only the
    server knows whether the transaction committed."""

    def __init__(
        self, connection: asyncpg.Connection[asyncpg.Record], begin: str, address: str
    ) -> None:
        self._connection = connection
        self._begin = begin
        self._address = address
        self.committing = False
        self._put_off: list[tuple[ManyRows, Sequence[Row]]] = []

    # -- statements ---------------------------------------------------------------------------

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        await self.settle()
        return _readable(await self._connection.fetch(statement, *map(escape, values)))

    async def fetch_sized(self, statement: str, room: int, *values: object) -> Sequence[Row]:
        rows = await self.fetch(_within(statement), *values, room)
        return [row[:-1] for row in rows]

    async def execute(self, statement: str, *values: object) -> int:
        await self.settle()
        status = await self._connection.execute(statement, *map(escape, values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def fetch_many(self, many: ManyRows, rows: Sequence[Row]) -> Sequence[Row]:
        if not rows:
            return []
        await self.settle()
        return _readable(await self._connection.fetch(many.arrays, *_arrays(rows)))

    async def execute_many(self, many: ManyRows, rows: Sequence[Row]) -> None:
        """Deferred, to save network round trips. Statements that are sent together do not see each
        other's changes; they touch different tables."""
        if any(other.table == many.table for other, _ in self._put_off):
            await self.settle()
        if rows:
            self._put_off.append((many, rows))

    async def settle(self) -> None:
        together, self._put_off = self._put_off, []
        if together:
            statement = _joined(tuple(many.arrays for many, _ in together))
            values = [array for _, rows in together for array in _arrays(rows)]
            await self._connection.execute(statement, *values)

    async def find_words(
        self,
        places: Sequence[tuple[int, int]],
        phrases: Sequence[Sequence[str]],
        limit: int,
        with_words: bool,
    ) -> Sequence[Row]:
        words = " & ".join(f"'{word}'" for word in single_words(phrases))
        lows, highs = [low for low, _ in places], [high for _, high in places]
        asked: list[str] = []
        for low, high in places:
            within = " | ".join(f"'{block}'" for block in blocks(low, high))
            asked.append(f"{words} & ({within})")
        texts = [f"% {' '.join(phrase)} %" for phrase in phrases if len(phrase) > 1]
        return await self.fetch(_FIND_WORDS, lows, highs, asked, texts, limit, with_words)

    async def lock(self, table: str) -> None:
        await self.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    # -- transactions -------------------------------------------------------------------------

    async def begin(self) -> None:
        self.committing = False
        self._put_off = []
        await self._connection.execute(self._begin)

    async def commit(self) -> None:
        await self.settle()
        self.committing = True
        await self._connection.execute("COMMIT")
        self.committing = False

    async def roll_back(self) -> None:
        self._put_off = []
        connection = self._connection
        if not self.committing and not connection.is_closed() and connection.is_in_transaction():
            await connection.execute("ROLLBACK")

    def concerns_all(self, error: Exception) -> bool:
        return not is_about_one_operation(error)

    def describe(self, error: Exception) -> HubbubError | None:
        return describe(error, self._address)
