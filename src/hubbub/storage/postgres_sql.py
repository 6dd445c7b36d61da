"""A PostgreSQL connection for the operations that all stores share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from hubbub.domain.errors import HubbubError
from hubbub.storage.postgres_errors import describe, is_about_one_operation
from hubbub.storage.sql import ManyRows, Row

_ESCAPE = "\x01"


def escape(value: Any) -> Any:
    """PostgreSQL has no NUL in texts: it is written as an escape, as is the escape itself."""
    if type(value) is str and ("\x00" in value or _ESCAPE in value):
        return value.replace(_ESCAPE, _ESCAPE + "1").replace("\x00", _ESCAPE + "0")
    return value


def unescape(value: Any) -> Any:
    if type(value) is str and _ESCAPE in value:
        return value.replace(_ESCAPE + "0", "\x00").replace(_ESCAPE + "1", _ESCAPE)
    return value


def _arrays(rows: Sequence[Row]) -> list[Sequence[Any]]:
    """A list for each column."""
    return [
        [escape(value) for value in column]
        if any(type(value) is str for value in column)
        else column
        for column in zip(*rows, strict=True)
    ]


def _readable(records: Sequence[asyncpg.Record]) -> list[Row]:
    return [tuple([unescape(value) for value in record.values()]) for record in records]


class PostgresSql:
    """Implements `hubbub.storage.transactions.Connection`. Once `committing` is set, only the
    server knows what became of the transaction."""

    def __init__(
        self, connection: asyncpg.Connection[asyncpg.Record], begin: str, address: str
    ) -> None:
        self._connection = connection
        self._begin = begin
        self._address = address
        self.committing = False

    # -- statements ---------------------------------------------------------------------------

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        return _readable(await self._connection.fetch(statement, *map(escape, values)))

    async def execute(self, statement: str, *values: object) -> int:
        status = await self._connection.execute(statement, *map(escape, values))
        count = status.rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    async def fetch_many(self, many: ManyRows, rows: Sequence[Row]) -> Sequence[Row]:
        if not rows:
            return []
        return _readable(await self._connection.fetch(many.arrays, *_arrays(rows)))

    async def execute_many(self, many: ManyRows, rows: Sequence[Row]) -> None:
        if rows:
            await self._connection.execute(many.arrays, *_arrays(rows))

    async def lock(self, table: str) -> None:
        await self._connection.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    # -- transactions -------------------------------------------------------------------------

    async def begin(self) -> None:
        self.committing = False
        await self._connection.execute(self._begin)

    async def commit(self) -> None:
        self.committing = True
        await self._connection.execute("COMMIT")
        self.committing = False

    async def roll_back(self) -> None:
        connection = self._connection
        if not self.committing and not connection.is_closed() and connection.is_in_transaction():
            await self._connection.execute("ROLLBACK")

    def concerns_all(self, error: Exception) -> bool:
        return not is_about_one_operation(error)

    def describe(self, error: Exception) -> HubbubError | None:
        return describe(error, self._address)
