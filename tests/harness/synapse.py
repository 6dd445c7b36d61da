"""A Matrix homeserver on loopback: matrix-synapse, in an environment of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest

PROGRAM = Path(__file__).parents[2] / ".synapse" / "bin" / "python"
_START_SECONDS = 60.0
_CONFIGURATION = """
server_name: hub.test
pid_file: {folder}/pid
listeners:
  - bind_addresses: [127.0.0.1]
    port: {port}
    resources: [{{names: [client], compress: false}}]
    tls: false
    type: http
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
log_config: {folder}/log.yaml
media_store_path: {folder}/media
signing_key_path: {folder}/signing.key
macaroon_secret_key: for-tests-only
form_secret: for-tests-only
report_stats: false
enable_registration: true
enable_registration_without_verification: true
trusted_key_servers: []
rc_message: {{per_second: 1000, burst_count: 1000}}
rc_registration: {{per_second: 1000, burst_count: 1000}}
"""
_LOG = "version: 1\nroot: {level: WARNING}\n"


class Account:
    def __init__(self, http: aiohttp.ClientSession, base: str, user: str, token: str) -> None:
        self._http = http
        self._base = base
        self.user = user
        self.token = token

    async def ask(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self.token}"}
        url = f"{self._base}/_matrix/client/v3{path}"
        sent = json.dumps(body) if method != "GET" else None
        async with self._http.request(method, url, data=sent, headers=headers) as answer:
            found: dict[str, Any] = await answer.json()
            assert answer.status == 200, found
            return found

    async def messages(self, room: str) -> list[dict[str, Any]]:
        """The texts of a room, the newest first."""
        found = await self.ask("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=100")
        return [each for each in found["chunk"] if each["type"] == "m.room.message"]

    async def write(self, room: str, text: str, answers: str = "", key: str = "1") -> str:
        content: dict[str, Any] = {"msgtype": "m.text", "body": text}
        if answers:
            content["m.relates_to"] = {"m.in_reply_to": {"event_id": answers}}
        path = f"/rooms/{quote(room)}/send/m.room.message/{key}"
        return str((await self.ask("PUT", path, **content))["event_id"])


class Homeserver:
    def __init__(self, port: int, http: aiohttp.ClientSession) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._http = http

    async def register(self, name: str) -> Account:
        body = {"username": name, "password": "for tests", "auth": {"type": "m.login.dummy"}}
        url = f"{self.url}/_matrix/client/v3/register"
        async with self._http.post(url, json=body) as answer:
            found = await answer.json()
            assert answer.status == 200, found
        return Account(self._http, self.url, found["user_id"], found["access_token"])


@contextlib.asynccontextmanager
async def homeserver(folder: Path) -> AsyncIterator[Homeserver]:
    """Skips where it is not installed."""
    if not PROGRAM.exists():
        pytest.skip("matrix-synapse is missing: sh scripts/synapse.sh")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    file = folder / "homeserver.yaml"
    file.write_text(_CONFIGURATION.format(folder=folder, port=port))
    (folder / "log.yaml").write_text(_LOG)
    command = [str(PROGRAM), "-m", "synapse.app.homeserver", "-c", str(file)]
    generated = [*command, "--generate-keys"]
    await asyncio.to_thread(subprocess.run, generated, check=True, capture_output=True, cwd=folder)
    process = await asyncio.create_subprocess_exec(*command, cwd=folder)
    try:
        async with aiohttp.ClientSession() as http:
            async with asyncio.timeout(_START_SECONDS):
                await _until_it_answers(http, port)
            yield Homeserver(port, http)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _until_it_answers(http: aiohttp.ClientSession, port: int) -> None:
    while True:
        with contextlib.suppress(aiohttp.ClientError):
            async with http.get(f"http://127.0.0.1:{port}/_matrix/client/versions") as answer:
                if answer.status == 200:
                    return
        await asyncio.sleep(0.1)
