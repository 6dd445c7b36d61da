"""A disk without room or that takes nothing, and a store whose process stands still: what goes on,
what is said, and how the hub recovers by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from msgspec import Raw

from harness.data_folder import history, post, running, serials
from harness.hub_process import HubProcess
from hubbub.domain.errors import STORE_AWAY, STORE_FULL
from hubbub.domain.names import partition_of
from hubbub.ports.storage.administration import Revocation
from hubbub.storage.sql.writes import Writes
from hubbub.storage.sqlite import reserve, worker_link
from hubbub.storage.sqlite.batches import BatchProgress, BatchRunner
from hubbub.storage.sqlite.connection import connect_trusted_writer, lock_file
from hubbub.storage.sqlite.reserve import Reserve
from hubbub.storage.sqlite.worker_protocol import Batch, WorkerOperation, encoder

HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "live"},
        "rules": {
            "live": {"public": True, "clientPublish": True, "allowAnonymous": True},
            "kept": {"store": True, "public": True, "clientPublish": True, "allowAnonymous": True},
        },
        "namespaces": {"log": "kept"},
    }
}


ROOM = 1 << 20


class Door:
    """Requests to a hub in a process of its own."""

    def __init__(self, hub: HubProcess, http: ClientSession) -> None:
        self.hub = hub
        self.http = http

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.hub.port}{path}"
        async with self.http.request(method, url, **options) as answer:
            return answer.status, await answer.json()

    async def publish(self, channel: str, text: str) -> tuple[int, Any]:
        path = f"/v1/hubs/acme/channels/{channel}/messages"
        path += "?store=true" if channel.startswith("log:") else ""
        return await self.ask("POST", path, data=text)

    async def fill(self, channel: str) -> int:
        """Publish until nothing more is stored; answers how many messages were."""
        stored = 0
        while (answered := await self.publish(channel, "x" * 20_000))[0] == 200:
            stored += 1
        status, answer = answered
        assert (status, answer["error"]["code"]) == (503, "store_unavailable")
        assert answer["error"]["message"] == STORE_FULL, "the path is for the log"
        return stored

    async def ready(self) -> tuple[int, Any]:
        return await self.ask("GET", "/readyz")


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await holds():
            await asyncio.sleep(0.05)


@pytest.mark.spec("OPS-03")
async def test_a_hub_that_was_killed_on_a_full_disk_starts_reads_deletes_and_recovers(
    small_disk: Path, tmp_path: Path
) -> None:
    async with HubProcess(tmp_path, HUBS) as hub, ClientSession() as http:
        hub.config.write_text(hub.config.read_text().replace(str(hub.data), str(small_disk / "d")))
        door = Door(hub, http)
        await hub.start()
        stored = await door.fill("log:a")
        assert stored > 10
        for _ in range(3):  # each start on the full disk
            await hub.kill()
            await hub.start()
            stored += await door.fill("log:a")  # the start has copied the log into the database
        assert stored < 100
        assert await door.ready() == (200, {"status": "degraded", "reason": STORE_FULL})
        assert (await door.publish("news", "live goes on"))[0] == 200
        path = "/v1/hubs/acme/channels/log:a/messages?after=0"
        assert len((await door.ask("GET", path))[1]["messages"]) > 0
        socket = await hub.socket()
        await socket.subscribe("news")
        log = hub.log.read_text()
        assert f"the disk of {small_disk}/d/hubbub.db is full" in log
        assert "Traceback" not in log
        subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)

        async def recovered() -> bool:
            return await door.ready() == (200, {"status": "ready"})

        await until(recovered)  # without a message that is stored
        status, answer = await door.publish("log:a", "room again")
        assert (status, answer["channelSerial"]) == (200, str(stored + 1))


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize("size", [20_000, 100_000], ids=["fits", "in-smaller-slices"])
async def test_deleting_makes_room_on_a_full_disk(small_disk: Path, size: int) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    async with running(small_disk, storage__reserveBytes=ROOM) as hub:
        stored = 0
        while (await post(hub, "log:a", "x" * size))["status"] == 200:
            stored += 1
        store = hub.server.store
        partition = partition_of("acme", "log:a")
        assert store.problem == STORE_FULL
        term = hub.server.owner.terms[partition]
        await store.delete_before("acme", "log:a", stored, partition, term)

        async def recovered() -> bool:
            return store.problem is None

        await until(recovered)
        assert (await post(hub, "log:a", "room again"))["channelSerial"] == str(stored + 1)


@pytest.mark.spec("OPS-03")
async def test_a_disk_that_becomes_read_only_is_told_and_what_is_not_stored_goes_on(
    failing_disk: tuple[Path, Path], tmp_path: Path
) -> None:
    disk, fails = failing_disk
    async with HubProcess(tmp_path, HUBS) as hub, ClientSession() as http:
        hub.config.write_text(hub.config.read_text().replace(str(hub.data), str(disk / "d")))
        door = Door(hub, http)
        await hub.start()
        assert (await door.publish("log:a", "before"))[0] == 200
        assert await door.ready() == (200, {"status": "ready"})
        fails.write_text("x")
        status, answer = await door.publish("log:a", "after")
        assert (status, answer["error"]["message"]) == (503, STORE_AWAY)
        assert (await door.publish("news", "live goes on"))[0] == 200
        path = "/v1/hubs/acme/channels/log:a/messages?after=0"
        assert len((await door.ask("GET", path))[1]["messages"]) == 1
        for _ in range(2):  # also after the hub has tried by itself
            assert await door.ready() == (200, {"status": "degraded", "reason": STORE_AWAY})
            await hub.socket()
            assert (await door.publish("log:a", "again"))[0] == 503
        lines = [line for line in hub.log.read_text().splitlines() if "nothing is stored" in line]
        assert len(lines) == 1, lines
        assert f"{disk}/d/hubbub.db" in lines[0]


def test_a_database_that_can_be_written_again_is_noticed_without_a_write_of_a_tenant(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hubbub.db"
    connection, _ = connect_trusted_writer(path, None, lock_file(path, 1.0), 0.0)
    progress = BatchProgress(connection, "link")
    runner = BatchRunner(connection, path, 4096, progress, Reserve(path, 0))
    stores = ("save_revocation", (Revocation("acme", "user", "ann", 1, 2), None))
    numbers = count(1)

    def run(method: str, arguments: tuple[object, ...]) -> str | None:
        encoded = WorkerOperation(method, Raw(encoder.encode(arguments)))
        return runner.run(Batch(next(numbers), [encoded])).problem

    nothing = ("pass_lane", ())
    assert [run(*each) for each in (stores, nothing)] == [None, None]
    connection.execute("PRAGMA query_only = ON")
    assert [run(*each) for each in (stores, nothing)] == [STORE_AWAY, STORE_AWAY]
    connection.execute("PRAGMA query_only = OFF")
    assert [run(*each) for each in (nothing, nothing)] == [None, None]
    assert progress.read()[0] == 5
    runner.close()


def test_what_makes_room_is_admitted_to_the_reserve_and_what_stores_is_not(tmp_path: Path) -> None:
    kept = Reserve(tmp_path / "hubbub.db", ROOM)
    methods = {name for name in dir(Writes) if not name.startswith("_")}
    assert methods > reserve._SMALL | reserve._ADMINISTRATION
    admitted = {name for name in methods if kept.admits(name)}
    assert {"acquire_partitions", "delete_before", "erase_messages", "append_audit"} < admitted
    growing = ("append", "save_", "create_", "add_", "stage_", "index_", "open_", "mark_", "note_")
    assert {name for name in admitted if name.startswith(growing)} == {
        "append_audit",
        "save_revocation",
    }


def test_a_reserve_that_was_given_up_is_not_taken_for_one_by_the_next_process(
    tmp_path: Path,
) -> None:
    first = Reserve(tmp_path / "hubbub.db", ROOM)
    first.open()
    (file,) = tmp_path.iterdir()
    assert file.stat().st_size > 0
    assert not first.released
    first.release()
    assert file.stat().st_size == 0
    second = Reserve(tmp_path / "hubbub.db", ROOM)
    second.open()
    assert second.released
    assert file.stat().st_size == 0


def test_a_reserve_follows_the_setting(tmp_path: Path) -> None:
    def size(wanted: int) -> int | None:
        Reserve(tmp_path / "hubbub.db", wanted).open()
        return next((file.stat().st_size for file in tmp_path.iterdir()), None)

    assert [size(n) for n in (ROOM, 2 * ROOM, ROOM, 0)] == [ROOM, 2 * ROOM, ROOM, None]


# -- a store that stands still ----------------------------------------------------------------


@pytest.mark.spec("OPS-03")
@pytest.mark.parametrize("which", [0, 1], ids=["writer", "reader"])
async def test_a_stopped_process_of_the_store_is_replaced_and_nothing_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    monkeypatch.setattr(worker_link, "SILENCE_SECONDS", 0.5)
    async with running(tmp_path) as hub:
        assert (await post(hub, "log:a", "before"))["channelSerial"] == "1"
        store = hub.server.store
        stopped = store.worker_pids[which]  # type: ignore[attr-defined]
        os.kill(stopped, signal.SIGSTOP)
        waiting = [asyncio.create_task(post(hub, "log:a", f"{n}")) for n in range(5)]
        reading = asyncio.create_task(history(hub, "log:a", after=0))
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*waiting)
            await reading
        stored = [answer for answer in answers if answer["status"] == 200]
        for answer in answers:
            if answer["status"] != 200:
                assert answer["error"]["message"] == STORE_AWAY
        assert stopped not in store.worker_pids  # type: ignore[attr-defined]
        assert store.problem is None
        found = serials(await history(hub, "log:a", after=0))
        assert found == list(range(1, len(stored) + 2))
