"""Rows of the audit log, written with the changes that they tell of."""

from __future__ import annotations

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.storage.sql.connection import Sql

AUDIT_COLUMNS = "at, hub, actor, level, action, name, before, after, token_id, id"

_INSERT_AUDIT = (
    f"INSERT INTO audit ({AUDIT_COLUMNS})"  # noqa: S608 - names only
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING"
)


async def append_audit(sql: Sql, entry: AuditEntry) -> None:
    columns = msgspec.structs.astuple(entry)[:-1]
    free_id = entry.id
    while not await sql.execute(_INSERT_AUDIT, *columns, free_id):
        free_id += 1
