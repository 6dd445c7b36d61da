"""The process that works on a SQLite file for a hub: `python -m hubbub.storage.sqlite.worker`.

It is a process, not a thread: beside an event loop that runs Python in slices below the switch
interval, a thread rarely gets the interpreter lock back (prototypes with a writer thread stored 33
to 933 messages/s, a process 19,000). Beside a loop that mostly makes system calls, which release
the lock, a thread performed as well as a process.

It reads batches from a socket, runs each in one transaction, and responds. It ends when the socket
closes, whether the hub stopped or died, after finishing the batch in progress.
"""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Protocol

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.frames import HEADER_BYTES
from hubbub.storage.sqlite.batches import BatchProgress, BatchRunner
from hubbub.storage.sqlite.connection import connect_reader, connect_trusted_writer, lock_file
from hubbub.storage.sqlite.errors import describe
from hubbub.storage.sqlite.reserve import Reserve
from hubbub.storage.sqlite.worker_protocol import (
    Fault,
    WorkerOptions,
    WorkerReady,
    batch_decoder,
    frame,
)


def _open(options: WorkerOptions) -> tuple[BatchRunner, WorkerReady]:
    path = Path(options.path)
    if options.role == "reader":
        connection = connect_reader(path)
        return BatchRunner(connection, path, options.page_bytes), WorkerReady(None)
    lock = lock_file(path, options.lock_patience_seconds)
    reserve = Reserve(path, options.reserve_bytes)
    reserve.open()
    connection, notes = connect_trusted_writer(path, options.max_bytes, lock, options.check_seconds)
    try:
        if reserve.released:
            reserve.take_again(connection)
        reserve.bound_log(connection)
        progress = BatchProgress(connection, options.link_id)
        ready = WorkerReady(None, *progress.read(), notes)
    except sqlite3.Error as error:
        raise describe(error, path) from error
    return BatchRunner(connection, path, options.page_bytes, progress, reserve), ready


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _read_frame(stream: _Readable) -> bytes | None:
    """None if the other side has closed, even in the middle of a frame."""
    header = stream.read(HEADER_BYTES)
    body = stream.read(int.from_bytes(header, "little")) if len(header) == HEADER_BYTES else b""
    return body or None


def serve(options: WorkerOptions, link: socket.socket) -> None:
    """Waits for `OPEN`, opens the database, and runs batches until the other side closes."""
    with link.makefile("rb", buffering=1 << 16) as stream:
        if _read_frame(stream) is None:
            return
        try:
            runner, ready = _open(options)
        except HubbubError as error:
            link.sendall(frame(WorkerReady(Fault(error.code, error.message, error.detail))))
            return
        try:
            link.sendall(frame(ready))
            while (body := _read_frame(stream)) is not None:
                link.sendall(frame(runner.run(batch_decoder.decode(body))))
        except ConnectionError:
            pass  # the hub died; nobody waits for the answer
        runner.close()


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
