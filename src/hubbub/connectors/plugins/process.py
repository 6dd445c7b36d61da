"""A plugin worker and the socket to it, as the event loop sees them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

import hubbub
from hubbub.connectors.plugins.protocol import (
    MAX_FRAME_BYTES,
    FromHub,
    FromWorker,
    Loaded,
    LoadFile,
    SandboxOptions,
    SandboxReady,
    frame,
    from_worker,
)
from hubbub.frames import FrameTooLarge, LengthPrefixReader
from hubbub.processes import ChildProcess

START_SECONDS = 20.0
LOAD_SECONDS = 5.0

MAX_UNREAD_BYTES = 8 * MAX_FRAME_BYTES
"""The most unread bytes of a process, enough if all its calls wait for a large response."""

NICENESS = 10
"""Plugins yield to the hub when both need a processor, even while their process starts."""

_BOOT = (
    f"import os, sys; os.nice({NICENESS}); sys.path += sys.argv[2:];"
    "from hubbub.connectors.plugins.worker import main; main()"
)


class WorkerLost(Exception):
    """The process ended, or was killed for a protocol violation."""


class PluginProcess(ChildProcess):
    """One run of a worker. `on_message` receives its messages once the plugins are loaded;
    `on_lost` is called once, when the socket is closed."""

    def __init__(
        self,
        memory_bytes: int,
        cpu_seconds: int,
        on_message: Callable[[FromWorker], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__()
        self._limits = memory_bytes, cpu_seconds
        self._on_message = on_message
        self._on_lost = on_lost
        self._frames = LengthPrefixReader(MAX_FRAME_BYTES)
        self._expected: asyncio.Future[FromWorker] | None = self._loop.create_future()
        self.why = ""
        """Why the hub killed it; empty if it ended by itself."""

    async def start(self) -> None:
        """After this, `end` must be called. Raises `OSError`."""
        await self.spawn(lambda link: _spawn(link, *self._limits))

    async def ready(self) -> SandboxReady:
        """Waits until the sandbox is active. Raises `WorkerLost`."""
        ready = await self._next(START_SECONDS, "it was not ready in time")
        if not isinstance(ready, SandboxReady):
            self.kill("it said something else before it was ready")
            raise WorkerLost(self.why)
        return ready

    async def load(self, load: LoadFile) -> Loaded:
        """Raises `WorkerLost`."""
        self.send(load)
        seconds = f"loading {load.name} took more than {LOAD_SECONDS:g} s"
        loaded = await self._next(LOAD_SECONDS, seconds)
        if not isinstance(loaded, Loaded):
            self.kill(f"loading {load.name} said something else")
            raise WorkerLost(self.why)
        return loaded

    async def _next(self, seconds: float, late: str) -> FromWorker:
        """The response to the last message."""
        expected = self._expected = self._expected or self._loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                return await expected
        except TimeoutError:
            self.kill(late)
            raise WorkerLost(late) from None
        finally:
            self._expected = None

    def send(self, message: FromHub) -> None:
        """Messages to a dead process are lost."""
        if self._transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self.kill(f"it left {MAX_UNREAD_BYTES} bytes unread")
        self._transport.write(frame(message))

    def kill(self, why: str) -> None:
        """Kills the process at once. `on_lost` follows."""
        self.why = self.why or why
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._transport.abort()

    async def end(self) -> None:
        """Kills the process and waits until it has ended."""
        self.kill("the hub has no more use for it")
        await self.gone()

    def data_received(self, data: bytes) -> None:
        try:
            messages = [from_worker.decode(body) for body in self._frames.feed(data)]
        except (FrameTooLarge, msgspec.DecodeError, RecursionError) as error:
            self.kill(f"it said what cannot be read: {error}")
            return
        for message in messages:
            if self._transport.is_closing():
                return  # nothing that it says counts any longer
            if self._expected is None:
                self._on_message(message)
            elif not self._expected.done():
                self._expected.set_result(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self.kill("")
        if self._expected is not None and not self._expected.done():
            self._expected.set_exception(WorkerLost(self.why or "the process ended by itself"))
        super().connection_lost(exc)
        self._on_lost()


def _spawn(link: socket.socket, memory_bytes: int, cpu_seconds: int) -> subprocess.Popen[bytes]:
    """An isolated interpreter: no environment, no `site`, no files but the socket."""
    options = SandboxOptions(link.fileno(), memory_bytes, cpu_seconds)
    paths = {str(Path(str(package.__file__)).parents[1]) for package in (hubbub, msgspec)}
    return subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
        [
            *(sys.executable, "-I", "-S", "-B", "-c", _BOOT),
            *(msgspec.json.encode(options).decode(), *sorted(paths)),
        ],
        pass_fds=[link.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={},
    )
