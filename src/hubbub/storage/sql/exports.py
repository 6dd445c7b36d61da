"""SQL for the journal's export position in each channel."""

from __future__ import annotations

import msgspec

from hubbub.ports.storage.exports import Exported
from hubbub.storage.sql.connection import ManyRows, Sql, rows_of, single_statement
from hubbub.storage.sql.restoring import LIVE

_ROW = {"hub": "text", "name": "text", "epoch": "text", "exported": "bigint"}
_MOVE = ManyRows(
    table="channels",
    single="UPDATE channels SET exported = $4"
    " WHERE hub = $1 AND name = $2 AND epoch = $3 AND exported < $4",
    arrays="UPDATE channels SET exported = item.exported"  # noqa: S608 - names only
    f" FROM {rows_of(_ROW)} WHERE channels.hub = item.hub AND channels.name = item.name"
    " AND channels.epoch = item.epoch AND channels.exported < item.exported",
)


class ExportWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def save_exported(self, exported: list[Exported]) -> None:
        rows = sorted(msgspec.structs.astuple(each) for each in exported)
        await self._sql.execute_many(_MOVE, rows)


class ExportReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def read_exported(self, hub: str, channel: str) -> int:
        rows = await self._sql.fetch(
            "SELECT exported FROM channels WHERE hub = $1 AND name = $2", hub, channel
        )
        return int(rows[0][0]) if rows else 0

    @single_statement
    async def read_unexported(
        self, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        rows = await self._sql.fetch(
            "SELECT hub, name FROM channels WHERE exported < head AND (hub, name) > ($1, $2)"  # noqa: S608
            f" AND {LIVE}"
            " ORDER BY hub, name LIMIT $3",
            *(after or ("", "")),
            limit,
        )
        return [(hub, name) for hub, name in rows]
