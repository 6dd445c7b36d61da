"""What deploy/compose starts, as processes instead of containers: the same files, with other
addresses. Parts of it die, and it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.postgres import PASSWORD
from benchmarks.servers import free_port
from harness.hub_process import HubProcess
from harness.nats_trio import SECRET, nats_trio
from harness.nginx import accepting
from harness.postgres import TestDatabase
from hubbub.client import Client, connect
from hubbub.domain.errors import HubbubError
from hubbub.domain.permissions import Identity, Level
from hubbub.server.access import make_tokens
from hubbub.server.clock import SystemClock
from hubbub.server.settings import load

COMPOSE = Path(__file__).parents[2] / "deploy" / "compose"

pytestmark = [
    pytest.mark.spec("CLU-01", "OPS-04"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


class NodeOfCompose(HubProcess):
    """A node with the settings of compose.yaml and hubbub.yaml, but for addresses."""

    def __init__(self, folder: Path, name: str, port: int, broker: str, db: TestDatabase) -> None:
        folder = folder / name
        folder.mkdir()
        settings: dict[str, Any] = yaml.safe_load((COMPOSE / "hubbub.yaml").read_text())
        hubs = settings.pop("hubs")
        options = db.options
        settings["listener"] |= {"port": port, "trustedProxies": ["127.0.0.1"]}
        settings["broker"] |= {"host": broker, "password": SECRET}
        settings["storage"]["path"] = str(folder / "data")
        settings["storage"]["postgres"] |= {
            "host": "127.0.0.1",
            "port": options.port,
            "user": options.user,
            "password": PASSWORD,
            "dbName": options.database,
        }
        settings["sql"] = {"maxConnections": 3, "idleConnections": 2}
        settings["cluster"] = {"node": name, "secretKey": SECRET, "silenceTimeout": 1.5}
        settings["auth"] = {"session": {"secret": f"s{SECRET}"}, "admin": {"secret": f"a{SECRET}"}}
        super().__init__(folder, hubs, **settings)


@asynccontextmanager
async def nginx_of_compose(folder: Path, ports: list[int]) -> AsyncIterator[str]:
    port = free_port()
    text = (COMPOSE / "nginx.conf").read_text().replace("listen 8000", f"listen 127.0.0.1:{port}")
    for number, hub in enumerate(ports, 1):
        text = text.replace(f"server hub{number}:8000", f"server 127.0.0.1:{hub}")
    text = re.sub(r"/dev/std\w+", str(folder / "nginx.log"), text)
    for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text = text.replace("http {", f"http {{ {what}_temp_path {folder}/{what};", 1)
    text = re.sub(r"(worker_rlimit_nofile|worker_connections) \d+;", "", text)
    file = folder / "nginx.conf"
    file.write_text(f"daemon off;\npid {folder}/nginx.pid;\n{text}")
    process = await asyncio.create_subprocess_exec(
        "nginx", "-c", str(file), "-p", str(folder), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(10):
            await accepting(port, process)
        yield f"ws://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def goes_through(writer: Client, heard: asyncio.Queue[Any], data: str) -> None:
    """While a part is replaced, a publish may fail, and a message of a channel that is not stored
    may be lost with a gap that is told. After that everything is as before."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(HubbubError, TimeoutError):
                await writer.publish("news", data)
                async with asyncio.timeout(1):
                    while await heard.get() != data:
                        pass
                return


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_the_cluster_of_the_compose_file_goes_on_when_parts_of_it_die(
    tmp_path: Path, database: TestDatabase
) -> None:
    async with AsyncExitStack() as stack:
        nats = await stack.enter_async_context(nats_trio(tmp_path))
        ports = [free_port() for _ in range(3)]
        nodes = [
            NodeOfCompose(tmp_path, f"hub{number}", port, nats.url, database)
            for number, port in enumerate(ports, 1)
        ]
        for node in nodes:
            await stack.enter_async_context(node)
        await asyncio.gather(*(node.start() for node in nodes))
        url = await stack.enter_async_context(nginx_of_compose(tmp_path, ports))
        settings = load(nodes[0].config, {})
        identity = Identity(user_id="ann", level=Level.SERVICE)
        token = make_tokens(settings, SystemClock()).issue("main", identity, 600)
        heard: asyncio.Queue[Any] = asyncio.Queue()
        async with (
            connect(url, hub="main", token=token) as reader,
            connect(url, hub="main", token=token) as writer,
        ):
            await reader.subscribe("news", handler=lambda message: heard.put_nowait(message.data))
            await goes_through(writer, heard, "all there")
            assert await writer.submit("clicks", {"n": 1})  # three copies in JetStream

            await nats.kill(0)
            await goes_through(writer, heard, "without one NATS server")

            await nodes[0].kill()
            await goes_through(writer, heard, "without a node")
