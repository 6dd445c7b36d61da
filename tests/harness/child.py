"""A Python program of the tests in a process of its own, which they kill."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

PATIENCE_SECONDS = 30


class Child:
    """A child process: its output and its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.said: list[str] = []

    async def until(self, line: str) -> None:
        """Wait until it says this."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            while line not in self.said:
                data = await self._process.stdout.readline()
                assert data, f"it ended after {self.said[-3:]}"
                self.said.append(data.decode().strip())

    async def kill(self) -> None:
        """Sends SIGKILL; the output until then is kept."""
        self._process.kill()
        out, _ = await self._process.communicate()
        self.said += out.decode().splitlines()

    async def ended(self) -> None:
        out, _ = await asyncio.wait_for(self._process.communicate(), PATIENCE_SECONDS)
        self.said += out.decode().splitlines()
        assert self._process.returncode == 0, self.said[-3:]


@asynccontextmanager
async def child(program: Path, *arguments: object) -> AsyncIterator[Child]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
