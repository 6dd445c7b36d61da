"""A hub's connections to its PostgreSQL server."""

from __future__ import annotations

import asyncio
import logging
import random

import asyncpg

from hubbub.domain.errors import HubbubError
from hubbub.storage.postgres.connection import PostgresOptions, connect
from hubbub.storage.postgres.sql import PostgresSql
from hubbub.storage.sql.links import copy
from hubbub.tasks import TaskSet

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 2.0
_LEAST_DELAY_SECONDS, _MOST_DELAY_SECONDS = 0.1, 5.0

READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""All statements of a read see the same snapshot."""
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""A statement that waited for a lock sees changes committed meanwhile."""


class PooledConnection:
    """A connection and its expiry time."""

    def __init__(
        self, driver: asyncpg.Connection[asyncpg.Record], address: str, expires_at: float
    ) -> None:
        self.driver = driver
        self.expires_at = expires_at
        self._address = address

    def sql(self, begin: str) -> PostgresSql:
        return PostgresSql(self.driver, begin, self._address)

    @property
    def usable(self) -> bool:
        return not self.driver.is_closed() and asyncio.get_running_loop().time() < self.expires_at


class Pool:
    """The callers limit how many connections are in use; up to `idle_connections` recently used
    ones are kept open."""

    def __init__(self, options: PostgresOptions) -> None:
        self.options = options
        self._idle: list[PooledConnection] = []
        self._closing = TaskSet()
        self._failure: HubbubError | None = None
        self._delay_seconds = 0.0
        self._next_attempt_at = 0.0

    @property
    def retry_seconds(self) -> float:
        """How long to wait before connecting again after a failure."""
        return max(0.0, self._next_attempt_at - asyncio.get_running_loop().time())

    async def acquire(self) -> PooledConnection:
        """Raises `StoreUnavailable`, for a while without contacting an unreachable server."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            self.discard(connection)
        if self._failure is not None and self.retry_seconds:
            raise copy(self._failure)
        return await self._connect()

    async def _connect(self) -> PooledConnection:
        try:
            driver = await connect(self.options)
        except HubbubError as error:
            self._failure = error
            self._delay_seconds = min(
                max(2 * self._delay_seconds, _LEAST_DELAY_SECONDS), _MOST_DELAY_SECONDS
            )
            wait_seconds = self._delay_seconds * random.uniform(0.5, 1)
            self._next_attempt_at = asyncio.get_running_loop().time() + wait_seconds
            raise
        self._failure = None
        self._delay_seconds = 0.0
        lifetime_seconds = self.options.connection_lifetime_seconds * random.uniform(0.9, 1)
        expires_at = asyncio.get_running_loop().time() + lifetime_seconds
        return PooledConnection(driver, self.options.address, expires_at)

    def release(self, connection: PooledConnection) -> None:
        room = len(self._idle) < self.options.idle_connections
        if room and connection.usable and not connection.driver.is_in_transaction():
            self._idle.append(connection)
        else:
            self.discard(connection)

    def discard(self, connection: PooledConnection, broken: bool = False) -> None:
        """Closes the connection. If it is broken, idle ones are closed too, since they use the same
        server."""
        if broken:
            connection.driver.terminate()
            self._discard_idle()
        self._closing.start(_close(connection))

    def _discard_idle(self) -> None:
        while self._idle:
            self.discard(self._idle.pop())

    async def close(self) -> None:
        self._discard_idle()
        await self._closing.settle()


async def _close(connection: PooledConnection) -> None:
    try:
        await connection.driver.close(timeout=_CLOSE_SECONDS)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        _log.debug("a connection could not be closed in good order: %s", error)
        connection.driver.terminate()
