"""Running batches of operations on a SQLite connection, one transaction each."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hubbub.domain.errors import Conflict, HubbubError
from hubbub.storage.sql.connection import complete
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.transactions import Result, StoreCall, Transactions, explain
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite.errors import describe
from hubbub.storage.sqlite.sql import SqliteSql
from hubbub.storage.sqlite.worker_protocol import (
    Batch,
    BatchOutcome,
    Fault,
    Operation,
    Outcome,
    arguments_decoder,
    encoder,
)


class Progress:
    """The last committed batch of a link, kept in the transaction of that batch. A hub whose
    writer process died asks its successor what became of the batch that was under way."""

    def __init__(self, connection: sqlite3.Connection, link_id: str) -> None:
        self._sql = connection
        self._link_id = link_id
        connection.execute(
            "CREATE TABLE IF NOT EXISTS writer_progress (id INTEGER PRIMARY KEY,"
            " link_id TEXT NOT NULL, batch BIGINT NOT NULL, outcome BLOB NOT NULL)"
        )

    def read(self) -> tuple[int, bytes]:
        row = self._sql.execute(
            "SELECT batch, outcome FROM writer_progress WHERE link_id = ?", (self._link_id,)
        ).fetchone()
        return (0, b"") if row is None else row

    def record(self, batch: int, outcome: BatchOutcome) -> None:
        self._sql.execute(
            "INSERT OR REPLACE INTO writer_progress VALUES (1, ?, ?, ?)",
            (self._link_id, batch, encoder.encode(outcome)),
        )


class SqliteTransaction(SqliteSql):
    """Implements `hubbub.storage.sql.transactions.Connection`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, begin: str) -> None:
        super().__init__(connection)
        self._path = path
        self._begin = begin

    async def begin(self) -> None:
        self._connection.execute(self._begin)

    async def settle(self) -> None:
        """Nothing is ever put off."""

    async def commit(self) -> None:
        self._connection.execute("COMMIT")

    async def roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def concerns_all(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.DatabaseError) and not isinstance(
            error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError
        )

    def describe(self, error: Exception) -> HubbubError | None:
        if isinstance(error, sqlite3.IntegrityError):
            return Conflict(f"the database {self._path} refused a row ({error})")
        return describe(error, self._path) if isinstance(error, sqlite3.Error) else None


class BatchRunner:
    """Runs writes if there is `progress` to record, else reads."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        page_bytes: int,
        progress: Progress | None = None,
    ) -> None:
        self._connection = connection
        begin = "BEGIN" if progress is None else "BEGIN IMMEDIATE"
        self._sql = SqliteTransaction(connection, path, begin)
        target = Reads(self._sql, page_bytes) if progress is None else Writes(self._sql)
        self._methods = type(target)
        self._transactions = Transactions(self._sql, target)
        self._progress = progress

    def run(self, batch: Batch) -> BatchOutcome:
        try:
            return complete(self._run(batch))
        except Exception as error:  # noqa: BLE001 - the process goes on; the hub is told
            return BatchOutcome(self._fault(error), [])

    def close(self) -> None:
        self._connection.close()

    async def _run(self, batch: Batch) -> BatchOutcome:
        calls = [self._call(operation) for operation in batch.operations]
        outcome = BatchOutcome(None, [])
        changes = self._connection.total_changes

        async def record(results: Sequence[Result]) -> None:
            nonlocal outcome
            answers = iter(results)
            outcome = BatchOutcome(
                None,
                [self._outcome(next(answers) if isinstance(c, StoreCall) else c) for c in calls],
            )
            # A batch that changed nothing may run again, and works on a full disk.
            if self._progress is not None and self._connection.total_changes != changes:
                self._progress.record(batch.number, outcome)

        await self._transactions.run([c for c in calls if isinstance(c, StoreCall)], record)
        return outcome

    def _call(self, operation: Operation) -> StoreCall | HubbubError:
        method = getattr(self._methods, operation.method)
        try:
            return StoreCall(
                operation.method, arguments_decoder(method).decode(operation.arguments)
            )
        except msgspec.DecodeError as error:
            return explain(self._sql, error)

    def _outcome(self, result: Result) -> Outcome:
        if isinstance(result, HubbubError):
            return Outcome(self._fault(result))
        return Outcome(None, msgspec.Raw(encoder.encode(result)))

    def _fault(self, error: Exception) -> Fault:
        explained = explain(self._sql, error)
        return Fault(explained.code, explained.message)
