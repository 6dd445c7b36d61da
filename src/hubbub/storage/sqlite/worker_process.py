"""A worker process and the socket to it, as the event loop sees them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.frames import LengthPrefixReader
from hubbub.processes import ChildProcess, module_command, module_environment
from hubbub.storage.sql.links import error_of
from hubbub.storage.sqlite.worker_protocol import (
    OPEN,
    WorkerOptions,
    WorkerReady,
    ready_decoder,
)


class WorkerProcess(ChildProcess):
    """One run of the worker. `on_frame` receives each response; `on_lost` is called once if the
    process ends unexpectedly."""

    def __init__(
        self,
        options: WorkerOptions,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__()
        self._options = options
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._ready: asyncio.Future[WorkerReady] = self._loop.create_future()
        self._ending = False
        self._frames = LengthPrefixReader()

    async def start(self) -> None:
        """Starts the process; it loads its code and waits for `open`."""
        await self.spawn(lambda link: _spawn(self._options, link))

    async def open(self) -> WorkerReady:
        """Makes it open the database. Raises `StoreUnavailable`; the process has ended then."""
        self.send(OPEN)
        try:
            ready = await self._ready
            if ready.fault is not None:
                raise error_of(ready.fault)
        except BaseException:
            await self.end()
            raise
        return ready

    def is_stopped(self) -> bool:
        """Whether a signal stopped the process; False if the system does not tell."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return status.rpartition(")")[2].split()[0] in ("T", "t")

    def kill(self) -> None:
        self._process.kill()

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    async def end(self) -> None:
        """Lets the process finish its input, and waits until it has ended."""
        self._ending = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        await self.gone()

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            if self._ready.done():
                self._on_frame(body)
            else:
                self._ready.set_result(ready_decoder.decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._ending:
            self._ready.cancel()
        elif not self._ready.done():
            self._ready.set_exception(
                StoreUnavailable.because(
                    f"the process that works on {self._options.path} ended as it started;"
                    " its own output tells why"
                )
            )
        else:
            self._on_lost()


def _spawn(options: WorkerOptions, link: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
        module_command(
            "hubbub.storage.sqlite.worker",
            msgspec.json.encode(options).decode(),
            str(link.fileno()),
        ),
        pass_fds=[link.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=module_environment(),
    )
