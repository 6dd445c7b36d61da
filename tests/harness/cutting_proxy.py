"""A way to a server that can be cut at a chosen moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class CuttingProxy:
    """Carries bytes between clients and a server. Once `cut_at` is set, a connection whose client
    sends these bytes is cut: before the server gets them, or after it has answered. With
    `refusing`, new connections are closed at once. With `swallowing`, what the server says is
    lost. After `hold` nothing comes through in either direction until `let_go`, as when a cable is
    pulled; after `cut_all` all connections are closed."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.cut_at: bytes | None = None
        self.answered = False
        self.refusing = False
        self.swallowing = False
        self.swallowed = asyncio.Event()
        self.cut = asyncio.Event()
        self.server_port = port
        self._open = asyncio.Event()
        self._open.set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str = "127.0.0.1") -> None:
        """At the same port, where it listened before."""
        self._server = await asyncio.start_server(self._accept, host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        """The system refuses new connections."""
        if self._server is not None:
            self._server.close()

    def hold(self) -> None:
        self._open.clear()

    def let_go(self) -> None:
        self._open.set()

    def cut_all(self) -> None:
        for task in list(self._carrying):
            task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        try:
            if not self.refusing:
                await self._open.wait()
                await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._carrying.discard(task)
            writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.server_port)
        answering = asyncio.ensure_future(self._answer(there, writer))
        try:
            while data := await reader.read(65536):
                await self._open.wait()
                if self.cut_at is not None and self.cut_at in data:
                    answering.cancel()
                    await self._cut(data, there, back)
                    return
                if back.is_closing():
                    return
                back.write(data)
        finally:
            answering.cancel()
            back.close()

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            ConnectionError
        ):  # the server was killed: the client must learn it
            while data := await there.read(65536):
                await self._open.wait()
                if self.swallowing:
                    self.swallowed.set()
                elif writer.is_closing():
                    return
                else:
                    writer.write(data)
        writer.close()

    async def _cut(
        self, data: bytes, there: asyncio.StreamReader, back: asyncio.StreamWriter
    ) -> None:
        self.cut_at = None
        if self.answered:
            await asyncio.sleep(0)  # let go of the reader
            back.write(data)
            await there.read(65536)
        self.cut.set()


@asynccontextmanager
async def cutting_proxy(port: int, host: str = "127.0.0.1") -> AsyncIterator[CuttingProxy]:
    proxy = CuttingProxy(port)
    await proxy.listen(host)
    try:
        yield proxy
    finally:
        await proxy.stop_listening()
        for task in list(proxy._carrying):
            task.cancel()
        await asyncio.gather(*proxy._carrying, return_exceptions=True)
