"""Several workers on one machine: processes that share a port and serve the same hubs.

Each worker is a node of a cluster. Unless one is configured, they get a private NATS server and a
secret generated for this run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from hubbub.server.lifecycle import raise_file_limit
from hubbub.server.nats_server import USER, NatsServer
from hubbub.server.secrets import load_or_create
from hubbub.server.settings import Settings, SettingsError
from hubbub.server.settings.cluster_checks import worker_name
from hubbub.server.supervisor import Supervised, Supervisor, hubbub_command

logger = logging.getLogger(__name__)

NATS_WATCH_SECONDS = 0.5


def run_workers(
    settings: Settings, count: int, arguments: Sequence[str], started: Callable[[int], None]
) -> None:
    """Runs until SIGTERM or SIGINT. `arguments` are those of `serve` for each worker; `started` is
    called with the port. Raises `SettingsError`, `NotReady`, `OSError`, `Unavailable`."""
    if settings.storage.postgres.host is None:
        raise SettingsError(
            [
                "several workers share a PostgreSQL database, which is not configured; set "
                "storage.postgres.host, or run one process without --workers"
            ]
        )
    data = Path(settings.storage.path)
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    load_or_create(data, settings.auth)  # one file of keys, before several could make it
    raise_file_limit()
    uvloop.run(_serve(settings, count, arguments, started))


async def _serve(
    settings: Settings, count: int, arguments: Sequence[str], started: Callable[[int], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with _reserved(settings) as port:
        async with _fabric(settings) as environment:
            workers = Supervisor(
                [
                    _worker(settings, number, port, arguments, environment)
                    for number in range(1, count + 1)
                ]
            )
            await workers.start()
            started(port)
            await stop.wait()
            logger.info("stopping %d workers", count)
            await workers.stop(settings.listener.shutdown_timeout + 1)


@contextlib.contextmanager
def _reserved(settings: Settings) -> Iterator[int]:
    """Reserves the port while workers come and go. A socket that does not listen receives no
    connections."""
    listener = settings.listener
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    with socket.socket(family) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((listener.host, listener.port))
        yield int(reserved.getsockname()[1])


@asynccontextmanager
async def _fabric(settings: Settings) -> AsyncIterator[dict[str, str]]:
    """Environment variables with which the workers find each other."""
    if settings.cluster.secret_key is not None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="hubbub-nats-") as folder:
        server = NatsServer(Path(folder))
        await server.start()
        watching = asyncio.get_running_loop().create_task(_keep(server))
        try:
            yield {
                "HUBBUB_BROKER_HOST": server.url,
                "HUBBUB_BROKER_USER": USER,
                "HUBBUB_BROKER_PASSWORD": server.password,
                "HUBBUB_CLUSTER_SECRET_KEY": secrets.token_hex(32),
            }
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await server.stop()


async def _keep(server: NatsServer) -> None:
    while True:
        await asyncio.sleep(NATS_WATCH_SECONDS)
        if not server.alive:
            logger.warning("nats-server ended; starting it again")
            await server.stop()
            await server.start()


def _worker(
    settings: Settings,
    number: int,
    port: int,
    arguments: Sequence[str],
    environment: dict[str, str],
) -> Supervised:
    node = worker_name(settings, number)
    command = hubbub_command(
        "serve", *arguments, "--worker", str(number), "--port", str(port), "--host",
        settings.listener.host,
    )  # fmt: skip
    return Supervised(f"worker {number}", command, {**environment, "HUBBUB_CLUSTER_NODE": node})
