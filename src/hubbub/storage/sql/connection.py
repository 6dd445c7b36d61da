"""The connection to a database as the operations of the stores see it.

Statements are written as PostgreSQL reads them, with `$1` for the first value. Operations are
coroutines. Where a database answers without waiting, `complete` runs them to their end at once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

Row = tuple[Any, ...]
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


class ManyRows(msgspec.Struct, frozen=True):
    """A statement over many rows, as each kind of database does it best: an embedded one runs
    `single` for each row, one behind a network runs `arrays` once, with an array per column."""

    table: str
    single: str
    arrays: str


class Sql(Protocol):
    """A connection, inside a transaction."""

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]: ...

    async def fetch_sized(self, statement: str, room: int, *values: object) -> Sequence[Row]:
        """Rows of a statement whose last column, `size`, says how many bytes a row takes up: up to
        and including the first row that does not fit into the `room`. No further row is loaded."""

    async def execute(self, statement: str, *values: object) -> int:
        """Answers how many rows were touched."""

    async def fetch_many(self, many: ManyRows, rows: Sequence[Row]) -> Iterable[Row]: ...

    async def execute_many(self, many: ManyRows, rows: Sequence[Row]) -> None:
        """May be sent later, together with others, but before anything else is asked."""

    async def lock(self, table: str) -> None:
        """Keep other writers of the table out until the transaction ends."""


def holds(columns: Iterable[str], place: int) -> str:
    """Whether one of the columns holds the text at this place, which is not empty."""
    return " OR ".join(f"replace({column}, ${place}, '') <> {column}" for column in columns)


def rows_of(columns: Mapping[str, str]) -> str:
    """The rows that arrays of these columns (type by name) hold, as a table called `item`."""
    arrays = ", ".join(f"${n}::{kind}[]" for n, kind in enumerate(columns.values(), 1))
    return f"unnest({arrays}) AS item ({', '.join(columns)})"


def insert(table: str, columns: Mapping[str, str], ending: str = "") -> ManyRows:
    """Insert rows with these columns (type by name); `ending` is ON CONFLICT, RETURNING or so."""
    target = f"INSERT INTO {table} ({', '.join(columns)})"
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    return ManyRows(
        table=table,
        single=f"{target} VALUES ({values}) {ending}",
        arrays=f"{target} SELECT * FROM {rows_of(columns)} {ending}",  # noqa: S608 - names only
    )


def replacing(columns: Iterable[str], *key: str) -> str:
    """The ending of an insert that puts these columns in place of those of the row with the key."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes}"


def put(table: str, columns: Sequence[str], *key: str) -> str:
    """Insert one row, or put it in place of the one with the key."""
    values = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
    ending = replacing(columns, *key)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) {ending}"  # noqa: S608


def single_statement(read: F) -> F:
    """Marks a read that needs no transaction, because one statement sees one moment."""
    read.single_statement = True  # type: ignore[attr-defined]
    return read


def complete(operation: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that never waits."""
    try:
        operation.send(None)
    except StopIteration as stop:
        answer: R = stop.value
        return answer
    operation.close()
    raise AssertionError("an operation on an embedded database waited for something")
