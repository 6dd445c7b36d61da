"""Data folders for tests: filled by a real server, looked at from outside, and mistreated."""

from __future__ import annotations

import ctypes
import hashlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec

from harness.running_hub import OPEN, RunningHub, hub_settings, open_hub
from hubbub.ports.clock import Clock
from hubbub.server.wiring import Server
from hubbub.storage.sql.schema import SQLITE, load_migrations
from hubbub.storage.sqlite.connection import migrate

KEPT = msgspec.structs.replace(OPEN, store=True, retain=True)
STORE = {"store": True}
HUBBUB = str(Path(sys.executable).with_name("hubbub"))


@asynccontextmanager
async def running(
    folder: Path, clock: Clock | None = None, **overrides: object
) -> AsyncIterator[RunningHub]:
    """A hub `acme` on `folder`/data: channels `log:…` store and retain, others have a live
    history. It keeps no journal: the tests look at each file of the folder."""
    quiet = {"journal__enabled": False, **overrides}
    settings = hub_settings(folder, open_hub(namespaces={"log": KEPT}), **quiet)
    server = Server(settings, clock)
    await server.start()
    hub = RunningHub(server)
    try:
        yield hub
    finally:
        await hub.close()


async def post(hub: RunningHub, channel: str, text: str, **query: str) -> dict[str, Any]:
    """Publish; answers status and body in one."""
    url = f"/v1/hubs/acme/channels/{channel}/messages"
    async with hub.http.post(url, params={"store": "true", **query}, data=text) as answer:
        return {"status": answer.status, **await answer.json()}


async def history(hub: RunningHub, channel: str, **query: int | str) -> dict[str, Any]:
    url = f"/v1/hubs/acme/channels/{channel}/messages"
    async with hub.http.get(url, params=query) as answer:
        page: dict[str, Any] = await answer.json()
        assert answer.status == 200, page
        return page


def serials(page: dict[str, Any]) -> list[int]:
    return [int(message["channelSerial"]) for message in page["messages"]]


def texts(page: dict[str, Any]) -> list[str]:
    return [message["payload"]["text"] for message in page["messages"]]


async def fill(folder: Path, count: int = 200, size: int = 500) -> None:
    """Runs a hub that stores messages in `log:a`, and stops it."""
    async with running(folder) as hub:
        for first in range(1, count + 1, 50):
            numbers = range(first, min(first + 50, count + 1))
            items = [
                {"channel": "log:a", "payload": {"text": f"{n}:{'x' * size}"}, "extra": STORE}
                for n in numbers
            ]
            async with hub.http.post("/v1/hubs/acme/messages", json={"publishes": items}) as answer:
                assert all(each["success"] for each in (await answer.json())["published"])


def as_version_1(path: Path) -> None:
    """A store as the first version wrote it, with three messages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, load_migrations(SQLITE)[:1])
        connection.execute("INSERT INTO channels VALUES (1, 'acme', 'log:a', 'ep', 3, 1, 5)")
        for serial in (1, 2, 3):
            row = (1, serial, serial, serial, f"m{serial}", "", "text/plain", None, 1, None, b"old")
            connection.execute(f"INSERT INTO messages VALUES ({', '.join('?' * 11)})", row)


def tree(folder: Path) -> dict[str, str]:
    """The content of a folder: a digest of each file, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def without_the_power_of_root() -> None:
    """Root may write anywhere; give up the capabilities that allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (1, 2, 3):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def run_hubbub(
    *arguments: str | Path, before: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command `hubbub`, as an operator runs it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HUBBUB_")}
    return subprocess.run(
        [HUBBUB, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        preexec_fn=before,
    )
