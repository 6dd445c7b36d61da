"""Running batches of operations on a SQLite connection, one transaction each."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import msgspec

from hubbub.domain.errors import Conflict, HubbubError, Internal
from hubbub.storage.sqlite_errors import describe
from hubbub.storage.sqlite_reads import Reads
from hubbub.storage.sqlite_writes import Refusal, Writes
from hubbub.storage.worker_protocol import (
    Batch,
    BatchOutcome,
    Fault,
    Operation,
    Outcome,
    arguments_decoder,
    encoder,
)

_log = logging.getLogger(__name__)


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


class BatchRunner:
    """Runs operations through the methods of `target`; with `progress`, as writes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        target: Writes | Reads,
        progress: Progress | None = None,
    ) -> None:
        self._connection = connection
        self._path = path
        self._target = target
        self._progress = progress
        self._begin = "BEGIN" if progress is None else "BEGIN IMMEDIATE"

    def run(self, batch: Batch) -> BatchOutcome:
        try:
            return self._run(batch, apart=False)
        except Exception as error:  # noqa: BLE001 - the process goes on; the hub is told
            self._roll_back()
            if _concerns_all(error):
                return BatchOutcome(self._fault(error), [])
        try:
            return self._run(batch, apart=True)
        except Exception as error:  # noqa: BLE001 - as above
            self._roll_back()
            return BatchOutcome(self._fault(error), [])

    def close(self) -> None:
        self._connection.close()

    def _run(self, batch: Batch, apart: bool) -> BatchOutcome:
        self._connection.execute(self._begin)
        run = self._run_apart if apart else self._run_operation
        outcome = BatchOutcome(None, [run(operation) for operation in batch.operations])
        if self._progress is not None:
            self._progress.record(batch.number, outcome)
        self._connection.execute("COMMIT")
        return outcome

    def _run_operation(self, operation: Operation) -> Outcome:
        method = getattr(type(self._target), operation.method)
        arguments = arguments_decoder(method).decode(operation.arguments)
        try:
            answer = method(self._target, *arguments)
        except HubbubError as error:
            return Outcome(self._fault(error))
        return Outcome(None, msgspec.Raw(encoder.encode(answer)))

    def _run_apart(self, operation: Operation) -> Outcome:
        """Some operation of the batch is at fault: let it fail without the others."""
        if operation.method == Writes.append.__name__:
            return Outcome(None, msgspec.Raw(encoder.encode(self._append_apart(operation))))
        self._connection.execute("SAVEPOINT apart")
        try:
            outcome = self._run_operation(operation)
        except Exception as error:
            if _concerns_all(error):
                raise
            self._connection.execute("ROLLBACK TO apart")
            outcome = Outcome(self._fault(error))
        self._connection.execute("RELEASE apart")
        return outcome

    def _append_apart(self, operation: Operation) -> list[Refusal]:
        assert isinstance(self._target, Writes)
        refusals: list[Refusal] = []
        (appends,) = arguments_decoder(Writes.append).decode(operation.arguments)
        for index, append in enumerate(appends):
            self._connection.execute("SAVEPOINT apart")
            try:
                found = self._target.append([append])
            except Exception as error:
                if _concerns_all(error):
                    raise
                self._connection.execute("ROLLBACK TO apart")
                fault = self._fault(error)
                refusals.append(Refusal(index, fault.code, fault.message))
            else:
                refusals += [Refusal(index, r.code, r.message) for r in found]
            self._connection.execute("RELEASE apart")
        return refusals

    def _fault(self, error: Exception) -> Fault:
        if isinstance(error, sqlite3.IntegrityError):
            error = Conflict(f"the database {self._path} refused a row ({error})")
        elif isinstance(error, sqlite3.Error):
            error = describe(error, self._path)
        elif not isinstance(error, HubbubError):
            _log.error("an operation failed on %s", self._path, exc_info=error)
            error = Internal(f"the database {self._path} cannot take this: {error!r}")
        return Fault(error.code, str(error))

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _concerns_all(error: Exception) -> bool:
    """A full disk, a damaged file: not the fault of one operation."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.IntegrityError | sqlite3.DataError | sqlite3.ProgrammingError
    )
