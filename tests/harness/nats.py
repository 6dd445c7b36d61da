"""A real NATS server for tests, and buses between nodes that speak over it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hubbub.cluster.nats_connection import NatsConnection
from hubbub.cluster.nats_settings import NatsSettings
from hubbub.cluster.nats_transport import NatsTransport
from hubbub.cluster.sealing import Seals
from hubbub.server.nats_server import NatsServer, program

SECRET = "a secret between the nodes of a test"


@asynccontextmanager
async def nats_server(folder: Path, jetstream: bool = False) -> AsyncIterator[NatsServer]:
    server = NatsServer(folder, jetstream)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def open_nats_server(
    folder: Path, port: int, max_payload_bytes: int = 1 << 20
) -> AsyncIterator[None]:
    """A server without passwords, as started for a first try, with JetStream."""
    config = folder / "open-nats.conf"
    config.write_text(f"max_payload: {max_payload_bytes}\n")
    options = ["-c", str(config), "-a", "127.0.0.1", "-p", str(port), "-js"]
    options += ["-sd", str(folder / "nats")]
    async with running_nats(options, port):
        yield


@asynccontextmanager
async def running_nats(
    options: list[str], port: int, environment: dict[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        program(),
        *options,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.01)
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class NatsNetwork:
    """Gives each node a transport with a connection of its own."""

    def __init__(self, options: NatsSettings, secret: str = SECRET) -> None:
        self._options = options
        self._secret = secret
        self.connections: list[NatsConnection] = []

    async def transport(self, node: str, incarnation: str = "1") -> NatsTransport:
        connection = NatsConnection(self._options, f"hubbub/test/{node}")
        await connection.open()
        self.connections.append(connection)
        seals = Seals(node, incarnation, "test", self._secret, time.time)
        transport = NatsTransport(node, "test", connection, seals)
        await transport.start()
        return transport

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()
