"""Reads on PostgreSQL: several concurrently, each on a connection of the pool, hubs in turn."""

from __future__ import annotations

import msgspec

from hubbub.domain.errors import HubbubError, StoreUnavailable
from hubbub.storage.postgres.connection import unavailable
from hubbub.storage.postgres.errors import is_broken
from hubbub.storage.postgres.pool import READ, Pool
from hubbub.storage.postgres.sql import PostgresSql
from hubbub.storage.sql.fair_queue import QueuedCall, QueueLimits
from hubbub.storage.sql.links import StoreLink
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.transactions import Result, StoreCall, Transactions, explain
from hubbub.tasks import TaskSet

_MOST_ATTEMPTS = 2


class PostgresReader(StoreLink):
    def __init__(self, pool: Pool, limits: QueueLimits, page_bytes: int, at_once: int) -> None:
        super().__init__(msgspec.structs.replace(limits, batch_weight=1, turn_weight=1))
        self._pool = pool
        self._page_bytes = page_bytes
        self._at_once = at_once
        self._working = TaskSet()

    def open(self) -> None:
        self._refusing = None

    async def close(self) -> None:
        self._refusing = StoreUnavailable("the store is closed")
        await self._working.settle()

    def _queued(self) -> None:
        if len(self._working) < self._at_once:
            self._working.start(self._work())

    async def _work(self) -> None:
        while self._queue:
            for waiting in self._queue.take_batch():
                try:
                    answer = await self._read(waiting)
                except Exception as error:  # noqa: BLE001 - answered to whoever asked
                    self._finish(waiting, error=unavailable(error, self._pool.options))
                else:
                    self._finish(waiting, answer)

    async def _read(self, waiting: QueuedCall) -> Result:
        """A read whose connection was lost is repeated on a new one."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            connection = await self._pool.acquire()
            sql = connection.sql(READ)
            call = StoreCall(waiting.method.__name__, waiting.arguments)
            try:
                result = await self._run(call, sql)
            except Exception as error:
                broken = connection.driver.is_closed() or is_broken(error)
                self._pool.discard(connection, broken)
                if not broken or attempt == _MOST_ATTEMPTS or isinstance(error, TimeoutError):
                    raise explain(sql, error) from error
            else:
                self._pool.release(connection)
                return result
        raise AssertionError("unreachable")

    async def _run(self, call: StoreCall, sql: PostgresSql) -> Result:
        target = Reads(sql, self._page_bytes)
        method = getattr(target, call.method)
        if hasattr(method, "single_statement"):
            return await method(*call.arguments)
        (result,) = await Transactions(sql, target).run([call])
        if isinstance(result, HubbubError):
            raise result
        return result
