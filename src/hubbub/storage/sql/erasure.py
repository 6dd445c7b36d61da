"""Removes a user's name from rows that belong to others."""

from __future__ import annotations

from hubbub.ports.storage.erasure import RetainedByUser
from hubbub.storage.sql.connection import Sql, single_statement
from hubbub.storage.sql.records import from_blob

_CHANGED = """
SELECT document_id, document_changes.version FROM documents
JOIN document_changes ON document_id = documents.id WHERE hub = $1 AND author = $2
"""
_PRODUCERS = "SELECT id FROM producers WHERE hub = $1 AND principal = $2"


class ErasureWrites:
    """Part of `Writes`; runs in its transactions."""

    _sql: Sql

    async def anonymise_changes(self, hub: str, user_id: str, most: int) -> int:
        return await self._sql.execute(
            "UPDATE document_changes SET author = NULL"  # noqa: S608
            f" WHERE (document_id, version) IN ({_CHANGED} LIMIT $3)",
            hub,
            user_id,
            most,
        )

    async def rename_producers(self, hub: str, principal: str, alias: str, most: int) -> int:
        return await self._sql.execute(
            f"UPDATE producers SET principal = $3 WHERE id IN ({_PRODUCERS} LIMIT $4)",  # noqa: S608
            hub,
            principal,
            alias,
            most,
        )


class ErasureReads:
    """Part of `Reads`."""

    _sql: Sql

    @single_statement
    async def find_retained(self, hub: str, user_id: str, after: str, most: int) -> RetainedByUser:
        rows = await self._sql.fetch(
            "SELECT channel, message FROM retained WHERE hub = $1 AND channel > $2"
            " ORDER BY channel LIMIT $3",
            hub,
            after,
            most,
        )
        found = [channel for channel, blob in rows if from_blob(blob).publisher == user_id]
        return RetainedByUser(tuple(found), rows[-1][0] if len(rows) == most else None)

    @single_statement
    async def count_named(self, hub: str, user_id: str, principal: str) -> int:
        ((count,),) = await self._sql.fetch(
            f"SELECT (SELECT count(*) FROM ({_CHANGED}) AS changed)"  # noqa: S608
            f" + (SELECT count(*) FROM ({_PRODUCERS.replace('$2', '$3')}) AS numbered)",
            hub,
            user_id,
            principal,
        )
        return int(count)
