"""The tables with rows of hubs, derived from the schema: a new table is included automatically,
unless it is listed as an exception."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache

import msgspec

from hubbub.storage.sql.schema import SQLITE, load_migrations

NOT_RESTORED = {
    "partitions": "owners and terms are those of the running nodes",
    "nodes": "says which nodes run",
    "sessions": "restore keys of the backup may have been used since",
    "session_holders": "says which processes run",
    "audit": "what administrators did stays known, the restore itself included",
    "revocations": "merged: those of the backup are added, none is taken away",
    "metering": "what the hub did stays counted, whatever it holds again",
    "comm_tokens": "a peer's token that was revoked or replaced since must not come back",
    **dict.fromkeys(
        (
            "search_index",
            "search_index_config",
            "search_index_data",
            "search_index_idx",
        ),
        "triggers keep it up with search_texts",
    ),
}
"""Tables that a restore leaves unchanged, and why."""

DERIVED = frozenset(("search_texts",))
"""Tables whose rows are made again from other rows: a restore deletes the old ones and stages none,
since an archive could claim anything."""

_PARENTS = {
    ("messages", "channel_id"): "channels",
    ("messages", "producer_id"): "producers",
    ("threads", "channel_id"): "channels",
    ("thread_messages", "channel_id"): "channels",
    ("search_texts", "channel_id"): "channels",
    ("notifications", "channel_id"): "notification_channels",
    ("document_changes", "document_id"): "documents",
    ("document_snapshots", "document_id"): "documents",
    ("document_puts", "producer_id"): "producers",
}
"""The referenced table by (table, column)."""
_TYPES = {"TEXT": "text", "BIGINT": "bigint", "INTEGER": "bigint", "BLOB": "bytea"}
_IDENTITY = "id"


class HubTable(msgspec.Struct, frozen=True):
    """`columns` are PostgreSQL types by name, without a generated id (`counted`). `key` identifies
    a row. A row belongs to a hub by its column `hub`, or through a parent row: `parents` maps
    columns to tables."""

    name: str
    columns: Mapping[str, str]
    counted: bool
    key: tuple[str, ...]
    parents: Mapping[str, str]

    @property
    def of_hub(self) -> bool:
        return "hub" in self.columns

    @property
    def owner(self) -> tuple[str, str]:
        """Column and table of the parent row, for rows without a column `hub`."""
        columns = (*self.key, *self.columns)
        return next((each, self.parents[each]) for each in columns if each in self.parents)

    def place(self, column: str) -> int | None:
        """The index of a column in a row; None if there is no such column."""
        return list(self.columns).index(column) if column in self.columns else None


@cache
def hub_tables() -> Mapping[str, HubTable]:
    """Tables by name, each after its parents. Raises `LookupError` for a table without a known
    owner."""
    with closing(sqlite3.connect(":memory:")) as schema:
        for migration in load_migrations(SQLITE):
            for statement in migration.statements:
                schema.execute(statement)
        names = schema.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        tables = [_table(schema, name) for (name,) in names if name not in NOT_RESTORED]
    for table in tables:
        if not table.of_hub and not table.parents:
            raise LookupError(
                f"nobody knows to which hub the rows of the table {table.name} belong: name it in"
                " `_PARENTS` or in `NOT_RESTORED`"
            )
    return {each.name: each for each in sorted(tables, key=lambda table: not table.of_hub)}


def _table(schema: sqlite3.Connection, name: str) -> HubTable:
    rows = schema.execute("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (name,))
    found = [(column, kind, key) for column, kind, key in rows]
    counted = any(column == _IDENTITY and kind == "INTEGER" for column, kind, _ in found)
    key = () if counted else tuple(column for column, _, key in found if key)
    if not key:
        (index,) = schema.execute(
            "SELECT name FROM pragma_index_list(?) WHERE [unique] AND NOT partial", (name,)
        ).fetchone()
        columns = schema.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))
        key = tuple(column for (column,) in columns)
    return HubTable(
        name=name,
        columns={
            column: _TYPES[kind]
            for column, kind, _ in found
            if not (counted and column == _IDENTITY)
        },
        counted=counted,
        key=key,
        parents={column: parent for (table, column), parent in _PARENTS.items() if table == name},
    )
