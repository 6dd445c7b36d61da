"""Migrates a PostgreSQL database once, although several hubs may start at the same time.

During a rolling upgrade, old nodes continue with the new schema: migrations only add. A starting
hub rejects a schema newer than its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import asyncpg

from hubbub.storage.sql.schema import Migration, refuse_newer

_log = logging.getLogger(__name__)
_LOCK = 0x6875_6262_7562  # any number that other programs will not use
_PATIENCE_SECONDS = 300.0

_OWN_TABLES = (
    "CREATE TABLE IF NOT EXISTS schema_versions"
    " (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)",
    # The last batch that each writer has committed, kept in the batch's own transaction.
    "CREATE TABLE IF NOT EXISTS writer_progress (link_id TEXT NOT NULL PRIMARY KEY,"
    " batch BIGINT NOT NULL, noted_at TIMESTAMPTZ NOT NULL DEFAULT now())"
    " WITH (fillfactor = 50)",
)


async def migrate(
    connection: asyncpg.Connection[asyncpg.Record],
    address: str,
    migrations: Sequence[Migration],
) -> None:
    """Applies the missing migrations, all or none. Concurrent callers wait for the first. Raises
    driver's exceptions, and `StoreUnavailable` for a newer schema."""
    async with connection.transaction():
        milliseconds = int(_PATIENCE_SECONDS * 1000)
        await connection.execute(f"SET LOCAL statement_timeout = {milliseconds}")
        await connection.execute("SET LOCAL lock_timeout = 0")
        await connection.execute(
            "SELECT pg_advisory_xact_lock($1)", _LOCK, timeout=_PATIENCE_SECONDS
        )
        await _apply(connection, address, migrations)


async def _apply(
    connection: asyncpg.Connection[asyncpg.Record],
    address: str,
    migrations: Sequence[Migration],
) -> None:
    if await _is_new(connection):
        for statement in _OWN_TABLES:
            await connection.execute(statement)
    current = await connection.fetchval("SELECT coalesce(max(version), 0) FROM schema_versions")
    refuse_newer(f"the database {address}", current, migrations[-1].version)
    for migration in migrations[current:]:
        for statement in migration.statements:
            await connection.execute(statement, timeout=_PATIENCE_SECONDS)
        await connection.execute(
            "INSERT INTO schema_versions VALUES ($1, $2)",
            migration.version,
            int(time.time() * 1000),
        )
        _log.info("the schema of %s is at version %d", address, migration.version)


async def _is_new(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Checked first: a user without the right to create tables can still use existing ones."""
    return bool(await connection.fetchval("SELECT to_regclass('writer_progress') IS NULL"))
