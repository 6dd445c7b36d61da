"""Words of one hub are deleted without reading those of others."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from hubbub.storage.sql import restoring
from hubbub.storage.sql.connection import complete
from hubbub.storage.sql.hub_tables import hub_tables
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite.sql import SqliteSql

pytestmark = pytest.mark.spec("LIVE-24")


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in load_migrations(SQLITE):
            for statement in migration.statements:
                connection.execute(statement)
        yield connection


def plan(connection: sqlite3.Connection, statement: str) -> list[str]:
    asked = connection.execute(f"EXPLAIN QUERY PLAN {statement.replace('$', '?')}", ("acme", 9))
    return [str(row[3]) for row in asked]


def test_a_replaced_hub(connection: sqlite3.Connection) -> None:
    found = plan(connection, restoring._deletion(hub_tables()["search_texts"]))
    assert not any(step.startswith("SCAN search_texts") for step in found), found


def test_a_deleted_hub(connection: sqlite3.Connection) -> None:
    asked: list[str] = []
    connection.set_trace_callback(asked.append)
    complete(Writes(SqliteSql(connection)).delete_data_of("acme", 9))
    (deletion,) = [each for each in asked if each.startswith("DELETE FROM search_texts")]
    connection.set_trace_callback(None)
    found = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {deletion}")]
    assert not any(step.startswith("SCAN search_texts") for step in found), found
