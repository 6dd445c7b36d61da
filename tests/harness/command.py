"""The command `hubbub` as a process of its own, as users run it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

PATIENCE_SECONDS = 20
COMMAND = (sys.executable, "-m", "hubbub.cli.main")


class Ended(msgspec.Struct, frozen=True):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HUBBUB_")}
    return {**ours, **more}


async def hubbub(
    *arguments: str,
    folder: Path | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command to its end. It must never show a traceback."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=_environment(env or {}),
    )
    out, err = await asyncio.wait_for(process.communicate(stdin), PATIENCE_SECONDS)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def on_terminal(
    *arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command to its end on a terminal: its exit code, and what the terminal was told."""
    ours, theirs = pty.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={"TERM": "xterm", **_environment(env or {})},
        )
        os.close(theirs)
        shown = await asyncio.wait_for(asyncio.to_thread(_read_to_end, ours), PATIENCE_SECONDS)
        return await process.wait(), shown
    finally:
        os.close(ours)


def _read_to_end(terminal: int) -> str:
    shown = b""
    with contextlib.suppress(OSError):  # the other end was closed
        while data := os.read(terminal, 65536):
            shown += data
    return shown.decode()


class Running:
    """A command that goes on until it is told to stop."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def line(self, containing: str = "") -> str:
        """The next line of its output that has this in it."""
        assert self._process.stdout is not None
        while True:
            data = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
            assert data, "the command ended"
            line = data.decode().rstrip("\n")
            if containing in line:
                return line

    async def remark(self, containing: str) -> str:
        """The next line on stderr that has this in it."""
        assert self._process.stderr is not None
        while True:
            data = await asyncio.wait_for(self._process.stderr.readline(), PATIENCE_SECONDS)
            assert data, "the command ended"
            if containing in data.decode():
                return data.decode()

    async def stop(self, number: signal.Signals = signal.SIGINT) -> Ended:
        self._process.send_signal(number)
        out, err = await asyncio.wait_for(self._process.communicate(), PATIENCE_SECONDS)
        assert b"Traceback" not in err, err.decode()
        assert self._process.returncode is not None
        return Ended(self._process.returncode, out.decode(), err.decode())


@asynccontextmanager
async def running_hubbub(
    *arguments: str, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=_environment(env or {}),
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
