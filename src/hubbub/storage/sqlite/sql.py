"""A SQLite connection for the SQL operations shared by all stores."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from functools import cache

import msgspec

from hubbub.storage.sql.connection import ManyRows, Row
from hubbub.storage.sql.words import blocks, single_words

_ANY = re.compile(r"= ANY\(\$(\d+)\)")
# Rows are taken in rising order, in which FTS5 skips what is outside of the range, and sorted then.
_FIND_WORDS = """
SELECT place, at, CASE WHEN ? THEN words ELSE '' END FROM search_texts WHERE place IN (
    SELECT search_index.rowid FROM search_index CROSS JOIN search_texts AS texts
    ON texts.place = search_index.rowid
    WHERE search_index MATCH ? AND search_index.rowid BETWEEN ? AND ? {}
    ORDER BY search_index.rowid + 0 DESC LIMIT ?
) ORDER BY place DESC
"""
_HOLDS = " AND instr(' ' || texts.words || ' ', ?) > 0"
_LOCK = re.compile(r" FOR (SHARE|UPDATE)\b")


@cache
def _respelled(statement: str) -> str:
    """Rewrites PostgreSQL syntax: SQLite has no arrays (they are passed as JSON) and no row locks
    (there is one writer)."""
    statement = _ANY.sub(r"IN (SELECT value FROM json_each($\1))", statement)
    return _LOCK.sub("", statement).replace("$", "?")


def _bound(statement: str, values: Sequence[object]) -> tuple[str, Sequence[object]]:
    """Returns the statement and its values as SQLite takes them. Its JSON ends a text at a NUL:
    `a\\0b` would find `a`. Such texts are values of their own."""
    spelled = _respelled(statement)
    if not any(isinstance(value, list) for value in values):
        return spelled, values
    bound = list(values)
    for place, value in enumerate(values, 1):
        if isinstance(value, list):
            apart = [item for item in value if _has_nul(item)]
            kept = [item for item in value if not _has_nul(item)] if apart else value
            bound[place - 1] = msgspec.json.encode(kept).decode()
            if apart:
                each = f"json_each(?{place})"
                more = ", ".join(f"(?{len(bound) + number})" for number in range(1, len(apart) + 1))
                spelled = spelled.replace(each, f"{each} UNION ALL VALUES {more}")
                bound += apart
    return spelled, bound


def _has_nul(item: object) -> bool:
    return type(item) is str and "\0" in item


class SqliteSql:
    """Implements `storage.sql.connection.Sql`; its coroutines never suspend."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        return self._connection.execute(*_bound(statement, values)).fetchall()

    async def fetch_sized(self, statement: str, room: int, *values: object) -> Sequence[Row]:
        rows: list[Row] = []
        for row in self._connection.execute(*_bound(statement, values)):
            rows.append(row)
            room -= row[-1]
            if room < 0:
                break
        return rows

    async def execute(self, statement: str, *values: object) -> int:
        return self._connection.execute(*_bound(statement, values)).rowcount

    async def fetch_many(self, many: ManyRows, rows: Sequence[Row]) -> Sequence[Row]:
        statement, execute = _respelled(many.single), self._connection.execute
        return [found for row in rows for found in execute(statement, row)]

    async def execute_many(self, many: ManyRows, rows: Sequence[Row]) -> None:
        self._connection.executemany(_respelled(many.single), rows)

    async def find_words(
        self,
        places: Sequence[tuple[int, int]],
        phrases: Sequence[Sequence[str]],
        limit: int,
        with_words: bool,
    ) -> Sequence[Row]:
        words = " AND ".join(f'"{word}"' for word in single_words(phrases))
        texts = [f" {' '.join(phrase)} " for phrase in phrases if len(phrase) > 1]
        statement = _FIND_WORDS.format(_HOLDS * len(texts))
        found: list[Row] = []
        for low, high in places:
            within = " OR ".join(f'"{block}"' for block in blocks(low, high))
            asked = f"({within}) AND {words}"
            values = (with_words, asked, low, high, *texts, limit)
            found += self._connection.execute(statement, values)
        return found

    async def lock(self, table: str) -> None:
        """Does nothing: there is only one writer."""
