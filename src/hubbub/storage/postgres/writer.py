"""Writes on PostgreSQL: one connection, one batch at a time; operations that arrive meanwhile form
the next batch.

One connection per hub process is enough, since a batch takes all queued operations (group commit),
and it preserves the order. Each transaction records the number of its batch; after a connection is
lost during a commit, the hub reads there whether the commit happened.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence

import asyncpg

from hubbub.domain.errors import HubbubError, StoreUnavailable
from hubbub.storage.postgres.connection import unavailable
from hubbub.storage.postgres.errors import (
    is_broken,
    is_read_only,
    is_surely_undone,
    is_worth_repeating,
)
from hubbub.storage.postgres.pool import WRITE, Pool, PooledConnection
from hubbub.storage.postgres.sql import PostgresSql
from hubbub.storage.sql.connection import insert
from hubbub.storage.sql.fair_queue import QueueLimits
from hubbub.storage.sql.links import Group, StoreLink
from hubbub.storage.sql.transactions import Result, StoreCall, Transactions, explain
from hubbub.storage.sql.writes import Writes

_log = logging.getLogger(__name__)
_MOST_ATTEMPTS = 4
_NOTE_BATCH = insert(
    "writer_progress",
    {"link_id": "text", "batch": "bigint"},
    "ON CONFLICT (link_id) DO UPDATE SET batch = excluded.batch, noted_at = now()",
)
# Waits for the transaction that has noted a batch and is not over yet, if there is one.
_LAST_BATCH = (
    "INSERT INTO writer_progress (link_id, batch) VALUES ($1, 0) ON CONFLICT (link_id)"
    " DO UPDATE SET batch = writer_progress.batch RETURNING batch"
)
_FORGET = "DELETE FROM writer_progress WHERE link_id = $1 OR noted_at < now() - interval '30 days'"


class PostgresWriter(StoreLink):
    def __init__(self, pool: Pool, limits: QueueLimits) -> None:
        super().__init__(limits, merged=Writes.append)
        self._pool = pool
        self._link_id = secrets.token_hex(8)
        self._batch = 0
        self._connection: PooledConnection | None = None
        self._work_waits = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._closing.clear()
        await self._connect()
        self._refusing = None
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Accepts no further operations and finishes the accepted ones."""
        self._refusing = StoreUnavailable("the store is closed")
        self._closing.set()
        self._work_waits.set()
        if self._task is not None:
            await self._task
            self._task = None
        if self._connection is not None:
            await self._forget(self._connection)
            self._drop()

    async def _forget(self, connection: PooledConnection) -> None:
        try:
            await connection.driver.execute(_FORGET, self._link_id)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            _log.debug("could not tidy up in the database: %s", error)

    # -- batches ------------------------------------------------------------------------------

    def _queued(self) -> None:
        self._work_waits.set()

    async def _work(self) -> None:
        while True:
            await self._work_waits.wait()
            self._work_waits.clear()
            while self._queue:
                await self._write(self._group(self._queue.take_batch()))
                if self._connection is None:
                    await self._reconnect()
            if self._closing.is_set():
                return

    async def _write(self, groups: Sequence[Group]) -> None:
        self._batch += 1
        calls = [
            StoreCall(
                group[0].method.__name__,
                self._arguments(group),
                group[0].bound,
                group[0].audit,
            )
            for group in groups
        ]
        try:
            results = await self._store(calls)
        except Exception as error:  # noqa: BLE001 - answered to all who wait
            failure = unavailable(error, self._pool.options)
            for group in groups:
                self._fail_group(group, failure)
            return
        for group, result in zip(groups, results, strict=True):
            if isinstance(result, HubbubError):
                self._fail_group(group, result)
            else:
                self._finish_group(group, result)

    async def _store(self, calls: Sequence[StoreCall]) -> Sequence[Result]:
        """Retries the batch if it had no effect and a retry may succeed."""
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            connection = await self._connect()
            sql = connection.sql(WRITE)
            results: Sequence[Result] = ()

            async def note(answers: Sequence[Result], sql: PostgresSql = sql) -> None:
                nonlocal results
                results = answers
                await sql.execute_many(_NOTE_BATCH, [(self._link_id, self._batch)])

            try:
                return await Transactions(sql, Writes(sql)).run(calls, note)
            except Exception as error:
                if sql.committing and not is_surely_undone(error):
                    self._drop(broken=True)
                    if await self._was_committed():
                        return results
                elif not self._may_repeat(error, connection) or attempt == _MOST_ATTEMPTS:
                    raise explain(sql, error) from error
        raise StoreUnavailable.because(
            f"the database {self._pool.options.address} was lost again and again over this"
        )

    def _may_repeat(self, error: Exception, connection: PooledConnection) -> bool:
        broken = connection.driver.is_closed() or is_broken(error)
        if broken or is_read_only(error):
            self._drop(broken)
        return (broken and not isinstance(error, TimeoutError)) or is_worth_repeating(error)

    async def _was_committed(self) -> bool:
        """Asks until the server responds, since callers must get the true outcome."""
        while True:
            try:
                connection = await self._connect()
                last = await connection.driver.fetchval(_LAST_BATCH, self._link_id)
            except Exception as error:
                self._drop(broken=True)
                failure = unavailable(error, self._pool.options)
                if self._closing.is_set():
                    unknown = "whether this was stored is not known"
                    raise StoreUnavailable(
                        f"{failure.message}; {unknown}", f"{failure}; {unknown}"
                    ) from error
                self._refuse(failure)
                await self._pause()
            else:
                self._accept()
                return bool(last == self._batch)

    # -- the connection -----------------------------------------------------------------------

    async def _connect(self) -> PooledConnection:
        if self._connection is None or not self._connection.usable:
            self._drop()
            self._connection = await self._pool.acquire()
        return self._connection

    def _drop(self, broken: bool = False) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.discard(connection, broken)

    async def _reconnect(self) -> None:
        """Retries until it succeeds or the store is closed. After the first failed attempt, queued
        and new calls are refused."""
        while not self._closing.is_set():
            try:
                await self._connect()
            except HubbubError as error:
                self._refuse(error)
                await self._pause()
            else:
                self._accept()
                return

    def _refuse(self, error: HubbubError) -> None:
        if self._refusing is None:
            _log.error("%s; trying again until it is back", error)
        if not self._closing.is_set():
            self._refusing = error
        self._fail_queue(error)

    def _accept(self) -> None:
        if self._refusing is not None and not self._closing.is_set():
            _log.warning("the database %s is back", self._pool.options.address)
            self._refusing = None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._pool.retry_seconds):
                await self._closing.wait()
        except TimeoutError:
            pass
