"""A worker process and the socket to it, as the event loop sees them."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Callable

import msgspec

from hubbub.domain.errors import StoreUnavailable
from hubbub.frames import FrameReader
from hubbub.processes import module_command, module_environment
from hubbub.storage.sql.links import error_of
from hubbub.storage.sqlite.worker_protocol import (
    OPEN,
    Ready,
    WorkerOptions,
    ready_decoder,
)


class WorkerProcess(asyncio.Protocol):
    """One run of the worker. `on_frame` gets each answer; `on_lost` is called once if the process
    ends without having been asked to."""

    def __init__(
        self,
        options: WorkerOptions,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._options = options
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Ready] = self._loop.create_future()
        self._disconnected: asyncio.Future[None] = self._loop.create_future()
        self._ending = False
        self._frames = FrameReader()

    async def start(self) -> None:
        """Start the process; it loads its code and waits for `open`."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = _spawn(self._options, theirs)
        self._transport, _ = await self._loop.create_unix_connection(lambda: self, sock=ours)

    async def open(self) -> Ready:
        """Have it open the database. Raises `StoreUnavailable`; it has ended then."""
        self.send(OPEN)
        try:
            ready = await self._ready
            if ready.fault is not None:
                raise error_of(ready.fault)
        except BaseException:
            await self.end()
            raise
        return ready

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    async def end(self) -> None:
        """Let it finish what it was sent, and wait until it is gone."""
        self._ending = True
        if not self._transport.is_closing():
            self._transport.write_eof()
        await self._disconnected
        await self._loop.run_in_executor(None, self._process.wait)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            if self._ready.done():
                self._on_frame(body)
            else:
                self._ready.set_result(ready_decoder.decode(body))

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnected.set_result(None)
        if self._ending:
            self._ready.cancel()
        elif not self._ready.done():
            self._ready.set_exception(
                StoreUnavailable(
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
