"""One pipeline at a time on a warehouse. The lock ends with the process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from hubbub.pipeline.errors import PipelineBusy


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Raises `PipelineBusy` if another process holds the lock. A file that a killed one left
    behind does not lock anything."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
            raise PipelineBusy(
                f"another pipeline (process {owner}) works on {path.parent.parent};"
                " wait until it is done, or end it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
