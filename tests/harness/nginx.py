"""A real nginx in front of a test server, configured as the documentation says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.servers import free_port

_MAIN = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{described}
}}
"""


@asynccontextmanager
async def running_nginx(described: str, hub_port: int, folder: Path) -> AsyncIterator[str]:
    """Answers the address that it listens on, without TLS, whose keys a test does not have."""
    port = free_port()
    described = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", described)
    described = re.sub(r"^ *ssl_certificate.*\n", "", described, flags=re.MULTILINE)
    described = described.replace("127.0.0.1:8000", f"127.0.0.1:{hub_port}")
    file = folder / "nginx.conf"
    file.write_text(_MAIN.format(folder=folder, described=described))
    process = await asyncio.create_subprocess_exec(
        "nginx", "-c", str(file), "-p", str(folder), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await accepting(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def accepting(port: int, process: asyncio.subprocess.Process) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            assert process.returncode is None, "nginx refuses the configuration"
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
