"""Replacing a hub's rows by those of a backup: loaded beside them under another name, then all at
once.

Rows of a backup lie under a name that no hub can have: reads of a hub do not find them, reads of
all hubs leave them out (`LIVE`). One transaction gives them the hub's name, and the rows that were
there another name. It changes only rows of tables with a column `hub`, not those that belong to
them, such as messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from hubbub.domain.errors import Conflict
from hubbub.ports.storage.administration import AuditEntry
from hubbub.storage.sql.connection import ManyRows, Sql, insert, single_statement
from hubbub.storage.sql.hub_tables import HubTable, hub_tables

_MARK = "#"
"""Begins no name of a hub."""
_BEHIND_MARK = "$"
"""The character after the mark: a text that begins with the mark comes before it."""
_UNDER_WAY = "restoring"
"""The kind of the setting that says that a restore has begun and is neither done nor given up."""
_COUNTED = {
    "messages": "SELECT COALESCE(sum(head - first_serial + 1), 0) FROM channels WHERE hub = $1",
    "notifications": "SELECT COALESCE(sum(total), 0) FROM notification_channels WHERE hub = $1",
}
"""Without a look at each of them."""


def live(column: str = "hub") -> str:
    """Whether a row is one of a hub, not of a restore."""
    return f"substr({column}, 1, 1) <> '{_MARK}'"


LIVE = live()


def staged(restore: str) -> str:
    """The name of the rows that are about to become the hub's."""
    return f"{_MARK}new:{restore}"


def replaced(restore: str) -> str:
    """The name of the rows that were the hub's."""
    return f"{_MARK}old:{restore}"


@cache
def _insert(name: str) -> ManyRows:
    table = hub_tables()[name]
    ending = f"RETURNING id, {', '.join(table.key)}" if table.counted else ""
    return insert(name, table.columns, ending)


def _deletion(table: HubTable) -> str:
    """Of at most $2 rows of the hub $1."""
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
        """Changes nothing: whoever waits for it knows that what came before it is done."""

    async def mark_restore(self, restore: str) -> None:
        """Until the mark is gone, the staged rows may take the place of the hub's."""
        await self._sql.execute(
            "INSERT INTO settings (kind, hub, name, value, version) VALUES ($1, $2, '', $3, 1)"
            " ON CONFLICT (kind, hub, name) DO NOTHING",
            _UNDER_WAY,
            staged(restore),
            b"{}",
        )

    async def unmark_restore(self, restore: str) -> bool:
        """Whether there was a mark."""
        return (
            await self._sql.execute(
                "DELETE FROM settings WHERE kind = $1 AND hub = $2", _UNDER_WAY, staged(restore)
            )
            > 0
        )

    async def stage_rows(self, name: str, rows: list[list[Any]]) -> list[int]:
        """Insert rows of a table; of one that counts ids, answers the ids in the rows' order."""
        table = hub_tables()[name]
        values = [tuple(row) for row in rows]
        if not table.counted:
            await self._sql.execute_many(_insert(name), values)
            return []
        columns = list(table.columns)
        places = [columns.index(column) for column in table.key]
        found = await self._sql.fetch_many(_insert(name), values)
        ids = {tuple(key): int(given) for given, *key in found}
        return [ids[tuple(row[place] for place in places)] for row in values]

    async def switch_hub(self, restore: str, hub: str, audit: AuditEntry | None) -> None:
        """The staged rows become the hub's; those that it had wait to be discarded. Raises
        `Conflict` where the restore was given up."""
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
        await self._note(audit)

    async def discard_rows(self, name: str, limit: int) -> int:
        """Delete at most about `limit` rows under a name that is no hub's, those that belong to
        others first."""
        deleted = 0
        for table in reversed(list(hub_tables().values())):
            if deleted < limit:
                deleted += await self._sql.execute(_deletion(table), name, limit - deleted)
        return deleted


class RestoreReads:
    """Part of `Reads`."""

    _sql: Sql

    async def read_restores(self) -> list[str]:
        """Those that have rows which are staged, or were replaced."""
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
    """Those that `count_rows` can count."""
    return [name for name, table in hub_tables().items() if table.of_hub or name in _COUNTED]
