"""Replaces a hub's rows by those of a backup: staged under another name, then switched at once.

Staged rows have a name that no hub can have: reads of a hub do not find them, and reads of all hubs
exclude them (`LIVE`). One transaction renames the staged rows to the hub, and the old rows to
another name. It updates only tables with a column `hub`, not their children, such as messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import Conflict
from hubbub.storage.sql.connection import ManyRows, Sql, insert, single_statement
from hubbub.storage.sql.hub_tables import HubTable, hub_tables
from hubbub.storage.sql.records import ENVELOPE_COLUMNS, envelope_size
from hubbub.storage.sql.usage import PUT_BYTES, count_bytes

_MARK = "#"
"""No hub's name begins with it."""
_BEHIND_MARK = "$"
"""The next character after the mark: every text that begins with the mark sorts before it."""
_UNDER_WAY = "restoring"
"""The kind of the setting that marks a restore in progress."""
_USAGE = "hub_usage"
_CONTENTS = {
    "messages": "payload",
    "notifications": "payload",
    "document_changes": "ops",
    "document_snapshots": "content",
}
"""By table, the column whose bytes `hub_usage` counts as stored."""
_COUNTED = {
    "messages": "SELECT COALESCE(sum(head - first_serial + 1), 0) FROM channels WHERE hub = $1",
    "notifications": "SELECT COALESCE(sum(total), 0) FROM notification_channels WHERE hub = $1",
}
"""SQL counts without scanning the rows."""


def live(column: str = "hub") -> str:
    """SQL that tests whether a row belongs to a hub, not to a restore."""
    return f"substr({column}, 1, 1) <> '{_MARK}'"


LIVE = live()


def staged(restore: str) -> str:
    """The hub name of rows staged by a restore."""
    return f"{_MARK}new:{restore}"


def replaced(restore: str) -> str:
    """The hub name of rows that a restore replaced."""
    return f"{_MARK}old:{restore}"


@cache
def _insert(name: str) -> ManyRows:
    table = hub_tables()[name]
    ending = f"RETURNING id, {', '.join(table.key)}" if table.counted else ""
    return insert(name, table.columns, ending)


def _deletion(table: HubTable) -> str:
    """SQL that deletes at most $2 rows of the hub $1."""
    key = ", ".join(table.key)
    if table.of_hub:
        picked = f"SELECT {key} FROM {table.name} WHERE hub = $1 LIMIT $2"  # noqa: S608
    else:
        column, parent = table.owner
        qualified = ", ".join(f"{table.name}.{each}" for each in table.key)
        picked = (
            f"SELECT {qualified} FROM {parent} JOIN {table.name}"  # noqa: S608
            f" ON {table.name}.{column} = {parent}.id WHERE {parent}.hub = $1 LIMIT $2"
        )
    return f"DELETE FROM {table.name} WHERE ({key}) IN ({picked})"  # noqa: S608


class RestoreWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def _note(self, entry: AuditEntry | None) -> None:
        raise NotImplementedError

    async def pass_lane(self) -> None:
        """Does nothing: when it returns, all earlier calls in its lane have ended."""

    async def mark_restore(self, restore: str) -> None:
        """Marks a restore in progress; without the mark, `switch_hub` is refused."""
        await self._sql.execute(
            "INSERT INTO settings (kind, hub, name, value, version) VALUES ($1, $2, '', $3, 1)"
            " ON CONFLICT (kind, hub, name) DO NOTHING",
            _UNDER_WAY,
            staged(restore),
            b"{}",
        )

    async def unmark_restore(self, restore: str) -> bool:
        """Returns whether there was a mark."""
        return (
            await self._sql.execute(
                "DELETE FROM settings WHERE kind = $1 AND hub = $2", _UNDER_WAY, staged(restore)
            )
            > 0
        )

    async def stage_rows(self, hub: str, name: str, rows: list[list[Any]]) -> list[int]:
        """Inserts rows of a table under the name `hub`; returns the ids, in order, for a table with
        generated ids. Sizes are counted again: those in the archive are not trusted."""
        if name == _USAGE:
            return []
        table = hub_tables()[name]
        values = [tuple(row) for row in rows]
        await self._count_staged(table, hub, rows)
        if not table.counted:
            await self._sql.execute_many(_insert(name), values)
            return []
        columns = list(table.columns)
        places = [columns.index(column) for column in table.key]
        found = await self._sql.fetch_many(_insert(name), values)
        ids = {tuple(key): int(given) for given, *key in found}
        return [ids[tuple(row[place] for place in places)] for row in values]

    async def _count_staged(self, table: HubTable, hub: str, rows: list[list[Any]]) -> None:
        """Counts rows that no trigger counts."""
        content = _CONTENTS.get(table.name)
        payloads = others = 0
        if content is not None:
            place = list(table.columns).index(content)
            payloads = sum(len(row[place]) for row in rows)
        if table.name == "messages":
            places = [list(table.columns).index(column) for column in ENVELOPE_COLUMNS]
            others = sum(envelope_size(*(row[place] for place in places)) for row in rows)
        elif table.name == "document_puts":
            others = PUT_BYTES * len(rows)
        if payloads or others:
            await count_bytes(self._sql, {hub: payloads}, {hub: others})

    async def switch_hub(self, restore: str, hub: str) -> None:
        """Renames the staged rows to the hub; its old rows are deleted later. Raises `Conflict` if
        the restore was given up."""
        await self._sql.lock("settings")
        if not await self.unmark_restore(restore):
            raise Conflict(f"the restore of hub {hub!r} was given up meanwhile; begin again")
        ((newest,),) = await self._sql.fetch(
            "SELECT COALESCE(max(version), 0) FROM settings WHERE hub = $1", hub
        )
        # A version that somebody has seen of the replaced settings means none of the restored.
        await self._sql.execute(
            "UPDATE settings SET version = version + $2 WHERE hub = $1", staged(restore), newest
        )
        await self._sql.execute("DELETE FROM sessions WHERE hub = $1", hub)
        for table in hub_tables().values():
            if table.of_hub:
                rename = f"UPDATE {table.name} SET hub = $2 WHERE hub = $1"  # noqa: S608
                await self._sql.execute(rename, hub, replaced(restore))
                await self._sql.execute(rename, staged(restore), hub)

    async def discard_rows(self, name: str, limit: int) -> int:
        """Deletes about `limit` rows under a restore's name, children first."""
        deleted = 0
        for table in reversed(list(hub_tables().values())):
            if deleted < limit:
                deleted += await self._sql.execute(_deletion(table), name, limit - deleted)
        return deleted


class RestoreReads:
    """Part of `Reads`."""

    _sql: Sql

    async def read_restores(self) -> list[str]:
        """The restores with staged or replaced rows."""
        found: set[str] = set()
        for table in hub_tables().values():
            if table.of_hub:
                which = f"FROM {table.name} WHERE hub >= $1 AND hub < $2"
                rows = await self._sql.fetch(
                    f"SELECT DISTINCT hub {which}",
                    _MARK,
                    _BEHIND_MARK,
                )
                found.update(name.partition(":")[2] for (name,) in rows)
        return sorted(found)

    @single_statement
    async def count_rows(self, hub: str, name: str) -> int:
        table = hub_tables()[name]
        count = _COUNTED.get(name) or f"SELECT count(*) FROM {table.name} WHERE hub = $1"  # noqa: S608
        ((rows,),) = await self._sql.fetch(count, hub)
        return int(rows)


def counted_tables() -> Sequence[str]:
    """The tables that `count_rows` can count."""
    return [name for name, table in hub_tables().items() if table.of_hub or name in _COUNTED]
