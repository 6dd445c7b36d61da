"""The SQLite files of outboxes, inboxes and copies: opening, writing and locking."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hubbub.client.errors import FileInUse, FileUnusable
from hubbub.domain.errors import HubbubError

logger = logging.getLogger("hubbub.client")

BUSY_SECONDS = 10.0
T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Converts errors of SQLite to `FileUnusable`, which names the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise FileUnusable(f"{path} cannot be used: {error}") from error


def open_file(path: Path) -> sqlite3.Connection:
    """Commits are durable. Transactions are begun explicitly; any thread may use the connection,
    one at a time."""
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Waits for other writers at the beginning, so that it never has to be retried."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        raise


def join_transaction(connection: sqlite3.Connection) -> None:
    """Makes following statements part of the application's transaction."""
    if connection.in_transaction:
        return
    by_hand = connection.isolation_level is None or getattr(connection, "autocommit", -1) is True
    if by_hand:
        raise ValueError("begin a transaction on the connection first: BEGIN IMMEDIATE")
    connection.execute("BEGIN IMMEDIATE")


class FileLock:
    """Held until it is closed or the process ends in any way. It is SQLite's own lock on an empty
    file beside the real one, so it works on every platform with SQLite."""

    def __init__(self, path: Path) -> None:
        """Raises `FileInUse`."""
        beside = path.with_name(f"{path.name}.lock")
        with clear_errors(beside):
            self._connection = sqlite3.connect(
                beside, timeout=0, isolation_level=None, check_same_thread=False
            )
        try:
            self._connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            self._connection.close()
            if "locked" in str(error):
                raise FileInUse(
                    f"{path} is open in another process; a file has one process at a time: end "
                    "the other, or give this one a file of its own"
                ) from None
            raise FileUnusable(f"{beside} cannot be used: {error}") from error

    def close(self) -> None:
        self._connection.close()


class FileThread:
    """A connection with its own thread: the event loop never waits for the disk. Writes requested
    during a commit share the next one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="hubbub-file")
        self._connection: sqlite3.Connection | None = None
        self._waiting: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def open(self, first: Work[T]) -> T:
        """Opens the file and runs `first` in one transaction."""
        with clear_errors(self._path):
            self._connection = await self._in_thread(lambda: open_file(self._path))
        return await self.write(first)

    async def close(self) -> None:
        """Closes the file after the writes in progress."""
        while self._committing is not None:
            await asyncio.wait([self._committing])
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._in_thread(connection.close)
        self._executor.shutdown(wait=False)

    async def read(self, work: Work[T]) -> T:
        connection = self._open_connection()
        with clear_errors(self._path):
            return await self._in_thread(lambda: work(connection))

    def write(self, work: Work[T]) -> asyncio.Future[T]:
        """The future completes when the write is on disk. If `work` raises an error of the SDK, it
        has changed nothing."""
        self._open_connection()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        if self._committing is None:
            self._committing = loop.create_task(self._commit())
        return done

    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise FileUnusable(f"{self._path} is not open")
        return self._connection

    async def _commit(self) -> None:
        connection = self._open_connection()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                with clear_errors(self._path):
                    results = await self._in_thread(
                        lambda works: _run(connection, works), [work for work, _ in batch]
                    )
            except HubbubError as error:
                results = [error] * len(batch)
            except Exception as error:
                logger.exception("writing to %s failed", self._path)
                results = [HubbubError(f"writing to {self._path} failed: {error!r}")] * len(batch)
            for (_, done), result in zip(batch, results, strict=True):
                _conclude(done, result)
        self._committing = None

    def _in_thread(self, work: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)


def _run(connection: sqlite3.Connection, works: list[Work[Any]]) -> list[Any]:
    results: list[Any] = []
    with transaction(connection):
        for work in works:
            connection.execute("SAVEPOINT work")
            try:
                results.append(work(connection))
            except HubbubError as error:
                connection.execute("ROLLBACK TO work")
                results.append(error)
            connection.execute("RELEASE work")
    return results


def _conclude(done: asyncio.Future[Any], result: Any) -> None:
    if done.done():  # nobody waits any more
        return
    if isinstance(result, HubbubError):
        done.set_exception(result)
    else:
        done.set_result(result)
