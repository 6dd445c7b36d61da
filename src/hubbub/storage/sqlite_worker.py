"""The process that works on a SQLite file for a hub: `python -m hubbub.storage.sqlite_worker`.

A process, not a thread: beside an event loop that runs Python in slices below the switch
interval, a thread of the same interpreter hardly ever gets the lock back (see
`docs/adr/` and `benchmarks/store_append.py`), while a process does not notice.

It reads batches from a socket, runs each in one transaction, and answers. It ends when the
socket closes, be it that the hub is done or that it died; the batch it has begun is finished.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from hubbub.domain.errors import Conflict, HubbubError, Internal
from hubbub.storage.sqlite_connection import connect_reader, connect_writer, describe, lock_file
from hubbub.storage.sqlite_reads import Reads
from hubbub.storage.sqlite_writes import Writes
from hubbub.storage.worker_protocol import (
    HEADER_BYTES,
    BatchOutcome,
    Fault,
    Operation,
    Outcome,
    Ready,
    WorkerOptions,
    arguments_decoder,
    batch_decoder,
    encoder,
    frame,
)

_log = logging.getLogger(__name__)


class BatchRunner:
    """Runs batches on a connection, through the methods of `target`."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, target: Writes | Reads, begin: str
    ) -> None:
        self._connection = connection
        self._path = path
        self._target = target
        self._begin = begin

    def run(self, operations: list[Operation]) -> BatchOutcome:
        try:
            return self._run_together(operations)
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            self._roll_back()
            if not isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
                return BatchOutcome(_fault(describe(error, self._path)), [])
            failure: Exception = Conflict(f"{self._path} refused a row: {error}")
        except Exception as error:  # noqa: BLE001 - a fault of one operation, answered to it
            self._roll_back()
            failure = Internal(f"an operation cannot be stored in {self._path}: {error!r}")
        return self._run_apart(operations, failure)

    def _run_together(self, operations: list[Operation]) -> BatchOutcome:
        self._connection.execute(self._begin)
        outcomes = [self._run_operation(operation) for operation in operations]
        self._connection.execute("COMMIT")
        return BatchOutcome(None, outcomes)

    def _run_operation(self, operation: Operation) -> Outcome:
        method = getattr(type(self._target), operation.method)
        arguments = arguments_decoder(method).decode(operation.arguments)
        try:
            answer = method(self._target, *arguments)
        except HubbubError as error:
            return Outcome(_fault(error))
        return Outcome(None, msgspec.Raw(encoder.encode(answer)))

    def _run_apart(self, operations: list[Operation], failure: Exception) -> BatchOutcome:
        """One operation is at fault: let it fail alone, in a transaction of its own."""
        if len(operations) == 1:
            _log.error("%s", failure)
            return BatchOutcome(None, [Outcome(_fault(failure))])
        outcomes: list[Outcome] = []
        for operation in operations:
            result = self.run([operation])
            outcomes += result.outcomes or [Outcome(result.fault)]
        return BatchOutcome(None, outcomes)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _fault(error: Exception) -> Fault:
    return Fault(error.code if isinstance(error, HubbubError) else Internal.code, str(error))


def _open(options: WorkerOptions) -> tuple[sqlite3.Connection, BatchRunner]:
    path = Path(options.path)
    if options.role == "reader":
        connection = connect_reader(path)
        return connection, BatchRunner(
            connection, path, Reads(connection, options.page_bytes), "BEGIN"
        )
    lock_file(path, options.lock_patience_seconds)
    connection = connect_writer(path, options.max_bytes)
    return connection, BatchRunner(connection, path, Writes(connection), "BEGIN IMMEDIATE")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _read_frame(stream: _Readable) -> bytes | None:
    """None when the other side has closed, even in the middle of a frame."""
    header = stream.read(HEADER_BYTES)
    body = stream.read(int.from_bytes(header, "little")) if len(header) == HEADER_BYTES else b""
    return body or None


def serve(options: WorkerOptions, link: socket.socket) -> None:
    try:
        connection, runner = _open(options)
    except HubbubError as error:
        link.sendall(frame(Ready(_fault(error))))
        return
    link.sendall(frame(Ready(None)))
    with link.makefile("rb", buffering=1 << 16) as stream:
        try:
            while (body := _read_frame(stream)) is not None:
                link.sendall(frame(runner.run(batch_decoder.decode(body).operations)))
        except ConnectionError:
            pass  # the hub died; nobody waits for the answer
    connection.close()


def main() -> None:
    # The hub decides when its workers end; a Ctrl-C or a supervisor's signal to the whole group
    # must not take them away while the hub still finishes its writes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    options = msgspec.json.decode(sys.argv[1], type=WorkerOptions)
    with socket.socket(fileno=int(sys.argv[2])) as link:
        serve(options, link)
        # Skips the interpreter's teardown: all that matters is closed, and the hub is waiting.
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
