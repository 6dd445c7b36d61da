"""Runs batches of operations on a SQLite connection, one transaction each."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from hubbub.domain.errors import STORE_AWAY, STORE_FULL, Conflict, HubbubError
from hubbub.storage.sql.connection import complete
from hubbub.storage.sql.reads import Reads
from hubbub.storage.sql.transactions import (
    ROW_REFUSED,
    Result,
    StoreCall,
    Transactions,
    explain,
)
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite.errors import describe
from hubbub.storage.sqlite.reserve import Reserve, SparingTransactions
from hubbub.storage.sqlite.sql import SqliteSql
from hubbub.storage.sqlite.worker_protocol import (
    Batch,
    BatchOutcome,
    Fault,
    Outcome,
    WorkerOperation,
    arguments_decoder,
    encoder,
)


class BatchProgress:
    """The last committed batch of a link, stored in that batch's own transaction. After a writer
    process dies, its successor tells the hub whether the batch in progress was committed."""

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
        """No statement is ever deferred."""

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
            return Conflict(ROW_REFUSED, f"the database {self._path} refused a row ({error})")
        return describe(error, self._path) if isinstance(error, sqlite3.Error) else None


class BatchRunner:
    """Runs writes if there is a `progress` to record, else reads. With `reserve`, it detects a full
    disk and lets deletions and administration continue, and notices a disk that takes nothing."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        page_bytes: int,
        progress: BatchProgress | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        self._connection = connection
        self._reserve = reserve
        begin = "BEGIN" if progress is None else "BEGIN IMMEDIATE"
        self._sql = SqliteTransaction(connection, path, begin)
        target = Reads(self._sql, page_bytes) if progress is None else Writes(self._sql)
        self._methods = type(target)
        self._transactions = Transactions(self._sql, target)
        if reserve is not None:
            self._sparing = SparingTransactions(self._sql, target, connection, reserve)
        self._progress = progress
        self._fails = False
        """Whether the last write failed."""

    def run(self, batch: Batch) -> BatchOutcome:
        reserve = self._reserve
        if reserve is None:
            return self._attempt(batch)[0]
        if reserve.released:
            reserve.take_again(self._connection)
        changes = self._connection.total_changes
        outcome, error = self._attempt(batch)
        if not reserve.released and reserve.is_needed(error):
            reserve.release()
            outcome, error = self._attempt(batch)  # nothing of it took effect
        if error is not None:
            self._fails = self._sql.concerns_all(error)
        elif self._fails and self._connection.total_changes == changes:
            self._fails = not self._records(batch, outcome)
        else:
            self._fails = False
        if reserve.released:
            return msgspec.structs.replace(outcome, problem=STORE_FULL)
        return msgspec.structs.replace(outcome, problem=STORE_AWAY) if self._fails else outcome

    def _records(self, batch: Batch, outcome: BatchOutcome) -> bool:
        """Whether the database can be written again, after a batch that changed nothing."""
        assert self._progress is not None
        try:
            self._progress.record(batch.number, outcome)
        except sqlite3.Error:
            return False
        return True

    def _attempt(self, batch: Batch) -> tuple[BatchOutcome, Exception | None]:
        try:
            return complete(self._run(batch)), None
        except Exception as error:  # noqa: BLE001 - the process goes on; the hub is told
            return BatchOutcome(self._fault(error), []), error

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

        spares = self._reserve is not None and self._reserve.released
        transactions = self._sparing if spares else self._transactions
        await transactions.run([c for c in calls if isinstance(c, StoreCall)], record)
        return outcome

    def _call(self, operation: WorkerOperation) -> StoreCall | HubbubError:
        method = getattr(self._methods, operation.method)
        try:
            return StoreCall(
                operation.method,
                arguments_decoder(method).decode(operation.arguments),
                operation.bound,
                operation.audit,
            )
        except msgspec.DecodeError as error:
            return explain(self._sql, error)

    def _outcome(self, result: Result) -> Outcome:
        if isinstance(result, HubbubError):
            return Outcome(self._fault(result))
        return Outcome(None, msgspec.Raw(encoder.encode(result)))

    def _fault(self, error: Exception) -> Fault:
        explained = explain(self._sql, error)
        return Fault(explained.code, explained.message, explained.detail)
