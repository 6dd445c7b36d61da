"""A server under measurement: started on a free loopback port, always ended by its pid."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.load import processes
from benchmarks.load.wire import Publication, Route

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


class NotStarted(Exception):
    """A server ended or stayed silent instead of listening."""


class Server(Protocol):
    """What a measurement needs to know of a server, whichever it is."""

    @property
    def name(self) -> str: ...

    @property
    def process(self) -> Running: ...

    def subscription(self, channel: str) -> Route:
        """How a WebSocket client subscribes; `stamp.INDEX` in the channel is its number."""

    def publication(self, channel: str, size: int) -> Publication:
        """How a client publishes a payload of `size` bytes."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server's process."""

    pid: int

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.pid)

    def scheduled_seconds(self) -> float:
        return processes.scheduled_seconds(self.pid)

    def resident_kilobytes(self) -> int:
        return processes.resident_kilobytes(self.pid)


def free_port() -> int:
    """Below the ports that the kernel gives to connections, which would take the port of a server
    that is down for a moment."""
    while True:
        port = random.randrange(10_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def workplace(parent: Path | None = None) -> Iterator[Path]:
    """A directory for a server's files, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as directory:
        yield Path(directory).resolve()


@contextlib.contextmanager
def running(
    command: Sequence[str],
    port: int,
    directory: Path,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """The command's process, from when it listens on `port` until the block ends. `environment`
    adds to this process's own."""
    log = directory / "output.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
    try:
        _wait_until_listening(process, port, log)
        yield Running(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    said = log.read_text(errors="replace")[-2000:]
    raise NotStarted(f"{process.args!r} is not listening on port {port}: {said}")
