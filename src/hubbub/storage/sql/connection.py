"""The database connection, as used by the SQL operations.

Statements are in PostgreSQL's syntax, with `$1` for the first value. Operations are coroutines. For
a synchronous database, `complete` runs them to the end at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

Row = tuple[Any, ...]
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class ManyRows(msgspec.Struct, frozen=True):
    """A statement over many rows in two forms: an embedded database runs `single` for each row; a
    networked one runs `arrays` once, with an array per column."""

    table: str
    single: str
    arrays: str


class Sql(Protocol):
    """A connection, inside a transaction."""

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]: ...

    async def fetch_sized(self, statement: str, room: int, *values: object) -> Sequence[Row]:
        """Rows of a statement whose last column, `size`, is the size of a row in bytes: up to and
        including the first row that exceeds the `room`. Later rows are not loaded."""

    async def execute(self, statement: str, *values: object) -> int:
        """Returns how many rows were affected."""

    async def fetch_many(self, many: ManyRows, rows: Sequence[Row]) -> Iterable[Row]: ...

    async def execute_many(self, many: ManyRows, rows: Sequence[Row]) -> None:
        """May be deferred and sent together with others, but runs before any other statement."""

    async def find_words(
        self,
        places: Sequence[tuple[int, int]],
        phrases: Sequence[Sequence[str]],
        limit: int,
        with_words: bool,
    ) -> Sequence[Row]:
        """Rows of `search_texts` (place, at, words) that hold all phrases: for each range of
        places (both ends included) at most `limit`, the greatest places first. Words are empty
        unless asked for. Phrases hold nothing but letters and digits."""

    async def lock(self, table: str) -> None:
        """Locks out other writers of the table until the transaction ends."""


def holds(columns: Iterable[str], place: int) -> str:
    """SQL that tests whether one of the columns contains the non-empty text in this parameter."""
    return " OR ".join(f"replace({column}, ${place}, '') <> {column}" for column in columns)


def rows_of(columns: Mapping[str, str]) -> str:
    """SQL for a table `item` made from array parameters of these columns (type by name)."""
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(columns.values(), 1))
    return f"unnest({arrays}) AS item ({', '.join(columns)})"


def insert(table: str, columns: Mapping[str, str], ending: str = "") -> ManyRows:
    """Inserts rows with these columns (type by name); `ending` is an ON CONFLICT or RETURNING
    clause."""
    target = f"INSERT INTO {table} ({', '.join(columns)})"
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    return ManyRows(
        table=table,
        single=f"{target} VALUES ({values}) {ending}",
        arrays=f"{target} SELECT * FROM {rows_of(columns)} {ending}",  # noqa: S608 - names only
    )


def replacing(columns: Iterable[str], *key: str) -> str:
    """The ON CONFLICT clause that overwrites these columns."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


def put(table: str, columns: Sequence[str], *key: str) -> str:
    """Inserts or replaces one row by key."""
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    ending = replacing(columns, *key)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) {ending}"  # noqa: S608


def single_statement(read: F) -> F:
    """Marks a read that needs no transaction, because a single statement sees one snapshot."""
    read.single_statement = True  # type: ignore[attr-defined]
    return read


def complete(operation: Coroutine[Any, Any, R]) -> R:
    """Runs a coroutine that never suspends."""
    try:
        operation.send(None)
    except StopIteration as stop:
        answer: R = stop.value
        return answer
    operation.close()
    raise AssertionError("an operation on an embedded database waited for something")
