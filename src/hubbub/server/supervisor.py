"""Supervised processes: started together, restarted when one dies, and ended together."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

from hubbub.processes import module_command

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
READY = b" is ready at "
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
_STABLE_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1


class NotReady(Exception):
    """A process ended, or stayed silent, before it was ready."""


class Supervised:
    """A process that reports readiness on its standard output."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name = name
        self._command = list(command)
        self._environment = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.ready = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Raises `NotReady`."""
        self.ready.clear()
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,  # a Ctrl-C is for the supervisor, which passes it on
            preexec_fn=end_with_parent,
        )
        self._reading = asyncio.get_running_loop().create_task(self._read(self._process))
        ended = asyncio.get_running_loop().create_task(self._process.wait())
        getting_ready = asyncio.get_running_loop().create_task(self.ready.wait())
        await asyncio.wait(
            (ended, getting_ready),
            timeout=START_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        for task in (ended, getting_ready):
            task.cancel()
        if not self.ready.is_set():
            raise NotReady(f"{self.name} did not start; its log says why")

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Keeps reading after readiness, or the process would block on a full pipe."""
        assert process.stdout is not None
        async for line in process.stdout:
            if READY in line:
                self.ready.set()

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


class Supervisor:
    """`started_again` is called with the dead process."""

    def __init__(
        self,
        processes: Sequence[Supervised],
        started_again: Callable[[Supervised], None] = lambda process: None,
    ) -> None:
        self.processes = list(processes)
        self._started_again = started_again
        self._watching: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Raises `NotReady`, with nothing left running."""
        try:
            await asyncio.gather(*(process.start() for process in self.processes))
        except BaseException:
            await self.stop(5.0)
            raise
        loop = asyncio.get_running_loop()
        self._watching = [loop.create_task(self._watch(process)) for process in self.processes]

    async def _watch(self, process: Supervised) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            begun = asyncio.get_running_loop().time()
            code = await process.ended()
            if asyncio.get_running_loop().time() - begun > _STABLE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            logger.warning("%s ended with code %d; starting it again", process.name, code)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            try:
                await process.start()
            except NotReady as error:
                logger.error("%s", error)
            else:
                self._started_again(process)

    async def stop(self, within_seconds: float) -> None:
        """Ends all processes gracefully; kills those that take too long."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        running = [process for process in self.processes if process.pid is not None]
        for process in running:
            process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_seconds):
                await asyncio.gather(*(process.ended() for process in running))
        except TimeoutError:
            for process in running:
                process.signal(signal.SIGKILL)
            await asyncio.gather(*(process.ended() for process in running))
        for process in running:
            await process.close()


def end_with_parent() -> None:
    """Called in a new process: it must not survive a killed supervisor."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def hubbub_command(*arguments: str) -> list[str]:
    """The command line that runs this program in another process."""
    return module_command("hubbub.cli.main", *arguments)
