"""The tables that a restore of one hub replaces: all of the schema but the named exceptions."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from hubbub.storage.sql import hub_tables as module
from hubbub.storage.sql.hub_tables import NOT_RESTORED, hub_tables
from hubbub.storage.sql.schema import SQLITE, Migration, load_migrations

pytestmark = pytest.mark.spec("OPS-04")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Tests change the schema."""
    hub_tables.cache_clear()
    yield
    hub_tables.cache_clear()


def with_table(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    migrations = load_migrations(SQLITE)
    more = Migration(migrations[-1].version + 1, (f"CREATE TABLE later ({columns})",))
    monkeypatch.setattr(module, "load_migrations", lambda _: (*migrations, more))


def test_every_table_is_restored_or_named_with_a_reason() -> None:
    with closing(sqlite3.connect(":memory:")) as schema:
        for migration in load_migrations(SQLITE):
            for statement in migration.statements:
                schema.execute(statement)
        names = {name for (name,) in schema.execute("SELECT name FROM pragma_table_list")}
    present = {name for name in names if not name.startswith("sqlite_")}
    assert present == hub_tables().keys() | NOT_RESTORED.keys()
    assert not hub_tables().keys() & NOT_RESTORED.keys()
    assert all(NOT_RESTORED.values())


def test_every_number_that_names_a_row_elsewhere_is_mapped() -> None:
    for table in hub_tables().values():
        for column, kind in table.columns.items():
            if kind == "bigint" and re.fullmatch(r".+_id", column) and column != "partition_id":
                assert hub_tables()[table.parents[column]].counted, (table.name, column)


def test_rows_come_after_those_that_they_belong_to() -> None:
    seen: set[str] = set()
    for table in hub_tables().values():
        assert seen.issuperset(table.parents.values()), table.name
        seen.add(table.name)


def test_a_table_of_hubs_that_is_added_later_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    with_table(monkeypatch, "hub TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (hub, name)")
    assert hub_tables()["later"].of_hub


def test_a_table_of_unknown_rows_that_is_added_later_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_table(monkeypatch, "thing_id BIGINT NOT NULL PRIMARY KEY")
    with pytest.raises(LookupError, match="table later belong"):
        hub_tables()


def test_tables_know_their_keys_and_count_only_ids() -> None:
    channels, messages = hub_tables()["channels"], hub_tables()["messages"]
    assert channels.counted
    assert channels.key == ("hub", "name")
    assert "id" not in channels.columns
    assert messages.key == ("channel_id", "serial")
    assert messages.owner == ("channel_id", "channels")
    assert messages.columns["id"] == "text"
    assert messages.place("hub") is None
    assert msgspec.structs.asdict(channels)["parents"] == {}
