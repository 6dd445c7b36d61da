"""A server that is killed while it restores a hub: the hub is as it was, or as in the backup."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness.hub_process import HubProcess
from harness.restoring import Rows, left_over, rows_of

pytestmark = pytest.mark.spec("OPS-03", "OPS-04")

RULES = {
    "public": True,
    "clientPublish": True,
    "allowAnonymous": True,
    "store": True,
    "storeByDefault": True,
}
OPEN = {
    "settings": {"allowAnonymous": True, "defaultRules": "default"},
    "rules": {"default": RULES},
}
RESTORES = "/v1/admin/restores"


class Restoring:
    """A server in a process of its own with the hubs `acme` and `other`, and a backup of `acme`
    with 6,000 messages; since then 3,000 more were stored."""

    def __init__(self, folder: Path) -> None:
        self.process = HubProcess(folder, {"acme": OPEN, "other": OPEN}, journal={"enabled": False})
        self.archive = folder / "backup.tar.gz"
        self.backed_up: Rows = {}
        self.current: Rows = {}
        self.token = ""

    @property
    def database(self) -> Path:
        return self.process.data / "hubbub.db"

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"http://127.0.0.1:{self.process.port}{path}"
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession(headers=headers) as http,
            http.request(method, url, json=body) as answer,
        ):
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def publish(self, count: int, hub: str = "acme") -> None:
        item = {"channel": "log", "payload": {"text": "x" * 200}}
        for _ in range(count // 100):
            await self.ask("POST", f"/v1/admin/hubs/{hub}/messages", {"publishes": [item] * 100})

    async def prepare(self) -> None:
        await self.process.start()
        self.token = await self.process.token("*", "root", "admin")
        await self.publish(6000)
        self.backed_up = rows_of(self.database, "acme")
        command = self.process.command("backup", str(self.archive), "--with-secrets")
        made = await asyncio.create_subprocess_exec(*command)
        assert await made.wait() == 0
        await self.publish(3000)
        self.current = rows_of(self.database, "acme")

    async def begin(self) -> str:
        wanted = {"hub": "acme", "archive": str(self.archive)}
        begun = await self.ask("POST", RESTORES, wanted)
        return str(begun["id"])

    async def reach(self, restore: str, *states: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                view: dict[str, Any] = await self.ask("GET", f"{RESTORES}/{restore}")
                assert view["state"] != "failed", view
                if view["state"] in states and (view["rows"] or "checking" in states):
                    return view

    async def is_tidy(self) -> None:
        """What the restore left is deleted beside everything else."""
        async with asyncio.timeout(60):
            while left_over(self.database):
                await asyncio.sleep(0.02)
        assert not (self.process.data / ".hub-restore").exists()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Restoring]:
    restoring = Restoring(tmp_path)
    async with restoring.process:
        await restoring.prepare()
        yield restoring


@pytest.mark.parametrize(
    ("moment", "old", "new"),
    [
        (("checking", "loading"), True, False),
        (("loading",), True, False),
        (("switching", "clearing", "done"), True, True),
        (("clearing", "done"), False, True),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
async def test_after_a_kill_there_is_the_old_hub_or_the_new_one(
    server: Restoring, moment: tuple[str, ...], old: bool, new: bool
) -> None:
    restore = await server.begin()
    await server.reach(restore, *moment)
    await server.process.kill()
    await server.process.start()
    await server.is_tidy()
    found = rows_of(server.database, "acme")
    assert (old and found == server.current) or (new and found == server.backed_up)
    await server.publish(100)  # it works
    again = await server.begin()
    await server.reach(again, "done")
    assert rows_of(server.database, "acme") == server.backed_up


async def test_the_command_restores_a_hub_of_a_running_server(server: Restoring) -> None:
    url = ("--url", f"http://127.0.0.1:{server.process.port}")
    dry = await command(server, "--dry-run", *url)
    assert dry[0] == 0, dry
    assert "would replace hub 'acme' by 'acme'" in dry[1]
    assert "messages" in dry[1]
    assert rows_of(server.database, "acme") == server.current
    unsure = await command(server, *url)
    assert unsure[0] == 2, "without a terminal it has to be confirmed"
    done = await command(server, "--yes", *url)
    assert done[0] == 0, done
    assert "restored hub 'acme' from the backup of" in done[1]
    assert rows_of(server.database, "acme") == server.backed_up
    copied = await command(server, "--as", "copy", "--yes", "--json", *url)
    assert copied[0] == 0, copied
    assert '"state":"done"' in copied[1].replace(" ", "")
    missing = await command(server, "--yes", *url, hub="none")
    assert missing[0] == 1
    assert "holds no hub 'none'" in missing[2]
    assert "(archive_refused)" in missing[2]


async def command(server: Restoring, *options: str, hub: str = "acme") -> tuple[int, str, str]:
    wanted = ("restore", str(server.archive), "--hub", hub, *options)
    started = await asyncio.create_subprocess_exec(
        *server.process.command(*wanted),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await started.communicate()
    assert started.returncode is not None
    return started.returncode, out.decode(), err.decode()
