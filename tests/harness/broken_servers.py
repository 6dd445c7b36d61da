"""Servers that nobody can talk with: they say nothing, or nonsense in every protocol."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

Broken = Literal["hangs", "garbage", "closes"]
_NONSENSE = b"\x00\xff\xfe 999 * ]] }{ \r\n" * 50


@contextlib.asynccontextmanager
async def broken_server(how: Broken) -> AsyncIterator[int]:
    """The port of a server that takes connections and is silent, talks nonsense, or ends them."""
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        if how == "garbage":
            writer.write(_NONSENSE)
        if how != "hangs":
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
