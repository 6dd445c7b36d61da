"""Runs modules of this package in separate processes."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen

import hubbub


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this process's interpreter."""
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment of this process, extended so that the same package is imported."""
    root = str(Path(hubbub.__file__).parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


class ChildProcess(asyncio.Protocol):
    """A child process and the socket to it, as the event loop sees them. What the process says
    comes to `data_received`, its end to `connection_lost`.

    Its start takes the loop for half a millisecond of CPU: `Popen` does not copy the hub's page
    tables, as uvloop's own subprocesses do (3 ms, and as long as the copy waits for a CPU)."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def spawn(self, make: Callable[[socket.socket], Popen[bytes]]) -> None:
        """`make` starts the process with its end of the socket. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = make(theirs)
        except BaseException:
            ours.close()
            raise
        try:
            self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)
        except BaseException:
            ours.close()
            self._process.kill()
            self._process.wait()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._gone.done()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set_result(None)

    async def gone(self) -> None:
        """Waits until the process has ended."""
        await asyncio.shield(self._gone)  # others may wait for it, too
        await self._loop.run_in_executor(None, self._process.wait)
