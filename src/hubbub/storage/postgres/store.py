"""The production store: a PostgreSQL server that several hubs may share."""

from __future__ import annotations

import logging

from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.history import PAGE_BYTES
from hubbub.storage.postgres.connection import PostgresOptions, unavailable
from hubbub.storage.postgres.pool import Pool
from hubbub.storage.postgres.reader import PostgresReader
from hubbub.storage.postgres.schema import migrate
from hubbub.storage.postgres.writer import PostgresWriter
from hubbub.storage.sql.fair_queue import QueueLimits
from hubbub.storage.sql.schema import POSTGRES, load_migrations
from hubbub.storage.sql.store import SqlStore

_log = logging.getLogger(__name__)


class PostgresStore(SqlStore):
    """Implements `hubbub.ports.storage.Store`. `page_bytes` bounds a page of
    history. One connection writes, the others of `options.most_connections` read."""

    def __init__(
        self,
        options: PostgresOptions,
        *,
        limits: QueueLimits = QueueLimits(),  # noqa: B008 - immutable
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self._pool = Pool(options)
        self._writer = PostgresWriter(self._pool, limits)
        at_once = max(1, options.most_connections - 1)
        self._reader = PostgresReader(self._pool, limits, page_bytes, at_once)
        super().__init__(self._writer, self._reader)

    async def open(self) -> None:
        try:
            await self._prepare()
            await self._writer.open()
            self._reader.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()
        await self._pool.close()

    async def _prepare(self) -> None:
        """Migrates the schema, and checks that the server's commits are durable."""
        connection = await self._pool.acquire()
        address = self._pool.options.address
        try:
            if await connection.driver.fetchval("SHOW transaction_read_only") == "on":
                raise StoreUnavailable.because(
                    f"the database {address} is read-only: point storage.postgres.host at the"
                    " primary server"
                )
            await migrate(connection.driver, address, load_migrations(POSTGRES))
            if await connection.driver.fetchval("SHOW fsync") == "off":
                _log.warning(
                    "the database %s runs with fsync = off: what the hub acknowledges can be lost",
                    address,
                )
        except Exception as error:
            raise unavailable(error, self._pool.options) from error
        finally:
            self._pool.release(connection)
