"""Restores of one hub: asked for, waited for, and looked at row by row."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from harness.admin import Caller, admin_of
from harness.running_hub import RunningHub
from hubbub.domain.cursors import CursorRecord
from hubbub.storage.sql.hub_tables import HubTable, hub_tables
from hubbub.storage.sqlite.inspection import open_read_only

RESTORES = "/v1/admin/restores"
PATIENCE_SECONDS = 60.0


async def ended(admin: Caller, restore: str) -> dict[str, Any]:
    """Waits for the end of a restore, and returns its result."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            view: dict[str, Any] = (await admin("GET", f"{RESTORES}/{restore}")).json
            if view["endedAt"] is not None:
                return view
            await asyncio.sleep(0.01)


async def restore_hub(
    hub: RunningHub, archive: Path, name: str = "acme", **more: Any
) -> dict[str, Any]:
    admin = admin_of(hub)
    begun = await admin("POST", RESTORES, {"hub": name, "archive": str(archive), **more})
    assert begun.status == 202, begun.text
    return await ended(admin, begun.json["id"])


Rows = dict[str, Counter[tuple[Any, ...]]]


def rows_of(database: Path, hub: str) -> Rows:
    """All rows of a hub, by table: ids are replaced by what they stand for, epochs and versions of
    settings, which a restore changes, and the journal's progress are left out."""
    found: Rows = {}
    with closing(open_read_only(database)) as connection:
        keys: dict[str, dict[int, tuple[Any, ...]]] = {}
        for table in hub_tables().values():
            columns = list(table.columns)
            which = "hub = ?" if table.of_hub else _owned(table)
            rows = connection.execute(
                f"SELECT {'id' if table.counted else 'NULL'}, {', '.join(columns)}"
                f" FROM {table.name} WHERE {which}",
                (hub,),
            )
            counted: Counter[tuple[Any, ...]] = Counter()
            for old, *values in rows:
                row = dict(zip(columns, values, strict=True))
                if table.counted:
                    for changing in ("epoch", "exported"):
                        row.pop(changing, None)
                    key = tuple(row[column] for column in table.key)
                    keys.setdefault(table.name, {})[old] = key
                if table.name == "settings":
                    row.pop("version")
                if table.name == "cursors":
                    record = msgspec.msgpack.decode(row["state"], type=CursorRecord)
                    row["state"] = str(msgspec.structs.replace(record, epoch=""))
                for column, parent in table.parents.items():
                    row[column] = row[column] and keys[parent][row[column]]
                counted[tuple(row.values())] += 1
            found[table.name] = counted
    return found


def _owned(table: HubTable) -> str:
    column, parent = table.owner
    return f"{column} IN (SELECT id FROM {parent} WHERE hub = ?)"


def left_over(database: Path) -> list[str]:
    """Tables with rows of a restore that is not over."""
    with closing(open_read_only(database)) as connection:
        left = [
            table.name
            for table in hub_tables().values()
            if table.of_hub
            and connection.execute(
                f"SELECT 1 FROM {table.name} WHERE substr(hub, 1, 1) = '#'"
            ).fetchone()
        ]
        for table in hub_tables().values():
            for column, parent in table.parents.items():
                orphan = connection.execute(
                    f"SELECT 1 FROM {table.name} WHERE {column} IS NOT NULL"
                    f" AND {column} NOT IN (SELECT id FROM {parent})"
                ).fetchone()
                left += [f"{table.name}.{column}"] if orphan else []
    return left
