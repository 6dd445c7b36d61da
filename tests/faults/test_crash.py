"""The end of a hub, sudden or orderly, and of what it stands on: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from harness.engine import Alone, FakeConnection, FaultyStore, publish
from harness.hub_process import HubProcess
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, Socket, open_hub
from hubbub.domain.names import partition_of
from hubbub.domain.notices import Published as Acknowledged
from hubbub.domain.rules import Rules
from hubbub.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.spec("OPS-03", "LIVE-12")

KEPT = {
    "store": True,
    "retain": True,
    "public": True,
    "clientPublish": True,
    "allowAnonymous": True,
}
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {"kept": KEPT},
    }
}
STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
CHANNELS = ("a", "b", "c")
PUBLISHERS = 4
DRAIN_SECONDS = 8.0


class Ledger:
    """What clients were promised: by channel, the message under each acknowledged serial."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[int, str]] = {channel: {} for channel in CHANNELS}
        self.count = 0
        self.grew = asyncio.Event()

    def note(self, channel: str, serial: int, text: str) -> None:
        assert serial not in self.stored[channel], "a serial was given out twice"
        self.stored[channel][serial] = text
        self.count += 1
        self.grew.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.count < count:
                self.grew.clear()
                await self.grew.wait()


async def keep_publishing(socket: Socket, name: str, ledger: Ledger) -> None:
    """Until the hub is gone: batches over all channels, noting down what was acknowledged."""
    number = 0
    try:
        while True:
            items = []
            for channel in CHANNELS:
                number += 1
                items.append(
                    {
                        "channel": channel,
                        "payload": {"text": f"{name}-{number}"},
                        "extra": {"store": True, "retain": number % 2 == 0},
                        "reqID": number,
                    }
                )
            await socket.send("Publish", publishes=items)
            results = {each["reqID"]: each for each in (await socket.find("Ack"))["published"]}
            for item in items:
                result = results[item["reqID"]]
                if result["success"]:
                    text = str(item["payload"]["text"])  # type: ignore[index]
                    ledger.note(str(item["channel"]), int(result["channelSerial"]), text)
                else:
                    assert result["error"]["retry"], result
    except (ConnectionClosed, TimeoutError):
        pass


async def everything_in(socket: Socket, channel: str) -> dict[int, str]:
    found: dict[int, str] = {}
    after = 0
    while True:
        await socket.send("History", channel=channel, reqID=1, after=str(after))
        page = await socket.find("History")
        assert page["recovered"], page
        for message in page["messages"]:
            after = int(message["channelSerial"])
            found[after] = message["payload"]["text"]
        if not page["more"]:
            return found


async def check(hub: HubProcess, ledger: Ledger) -> None:
    """Everything in the ledger is there, serials have no gap and go on."""
    socket = await hub.socket()
    for channel in CHANNELS:
        found = await everything_in(socket, channel)
        assert sorted(found) == list(range(1, len(found) + 1))
        for serial, text in ledger.stored[channel].items():
            assert found[serial] == text
        result = await socket.publish(channel, {"text": "after"}, store=True)
        assert int(result["channelSerial"]) == len(found) + 1
        ledger.note(channel, len(found) + 1, "after")


async def test_sigkill_under_load_loses_nothing_acknowledged_and_leaves_no_gap(
    tmp_path: Path,
) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        ledger = Ledger()
        for round_number in (1, 2):
            await hub.start()
            if round_number == 2:
                await check(hub, ledger)
            load = [
                asyncio.create_task(
                    keep_publishing(await hub.socket(), f"{round_number}{name}", ledger)
                )
                for name in "wxyz"[:PUBLISHERS]
            ]
            await ledger.until(ledger.count + 300)
            await hub.kill()
            await asyncio.gather(*load)
        await hub.start()
        await check(hub, ledger)


async def test_a_retained_message_that_was_acknowledged_is_there_after_sigkill(
    tmp_path: Path,
) -> None:
    rules = {"live": {**KEPT, "store": False}}
    settings = {"allowAnonymous": True, "defaultRules": "live"}
    async with HubProcess(tmp_path, {"acme": {"settings": settings, "rules": rules}}) as hub:
        await hub.start()
        socket = await hub.socket()
        for number in range(30):
            result = await socket.publish("state", {"json": number}, retain=True)
            assert result["success"]
        await hub.kill()
        await hub.start()
        socket = await hub.socket()
        await socket.subscribe("state")
        retained = await socket.expect("Publish")
        assert retained["retained"] is True
        assert retained["payload"] == {"json": 29}


@pytest.mark.spec("LIVE-04")
async def test_sigterm_under_load_drains_says_goodbye_and_ends_in_time(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        ledger = Ledger()
        listener = await hub.socket()
        await listener.subscribe("a")
        load = [
            asyncio.create_task(keep_publishing(await hub.socket(), name, ledger))
            for name in "wxyz"[:PUBLISHERS]
        ]
        await ledger.until(300)
        asked = time.monotonic()
        hub.signal(signal.SIGTERM)
        code, reason = await listener.closed()
        assert code == 1001
        assert reason.startswith("going_away")
        farewell = listener.backlog[-1]
        assert farewell["event"] == "Disconnect"
        assert farewell["payload"]["code"] == "going_away"
        assert farewell["payload"]["reconnect"] is True
        assert await hub.ended(DRAIN_SECONDS) == 0
        assert time.monotonic() - asked < DRAIN_SECONDS
        await asyncio.gather(*load)
        delivered = [e["payload"] for e in listener.backlog if e["event"] == "Publish"]
        serials = [int(each["channelSerial"]) for each in delivered]
        assert serials == list(range(1, len(serials) + 1))
        await hub.start()
        await check(hub, ledger)


async def test_sigterm_ends_in_time_although_a_client_reads_nothing(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        deaf, speaker = await hub.socket(), await hub.socket()
        await deaf.subscribe("a")
        deaf.connection.transport.pause_reading()
        for _ in range(40):
            await speaker.publish("a", {"text": "x" * 100_000}, store=True)
        hub.signal(signal.SIGTERM)
        assert await hub.ended(DRAIN_SECONDS) == 0
        deaf.connection.transport.abort()


async def test_a_session_can_be_restored_after_sigkill(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        guest = await hub.socket(token=await mint(hub, "ann"))
        key = (await guest.find("SessionRestore"))["restoreKey"]
        await guest.subscribe("a")
        assert (await guest.publish("a", {"text": "1"}, store=True))["success"]
        hashed = hashlib.sha256(key.encode()).digest()
        async with asyncio.timeout(10):
            # A snapshot with the subscription is written within a second.
            while not snapshot_with(hub.data, hashed, b"\xa1a"):
                await guest.send("Ping", reqID=1)
                await guest.find("Pong")
        await hub.kill()
        await hub.start()
        speaker = await hub.socket()
        await speaker.publish("a", {"text": "2"}, store=True)
        back = await hub.socket()
        await back.send(
            "SessionRestore", restoreKey=key, positions=[{"channel": "a", "serial": "1"}]
        )
        restored = await back.expect("SessionRestored")
        assert restored["userID"] == "ann"
        assert restored["channels"][0]["recovered"] is True
        assert (await back.find("Publish"))["payload"] == {"text": "2"}


def snapshot_with(data: Path, key_hash: bytes, channel: bytes) -> bool:
    """Whether a snapshot under this hash that follows the channel is on disk."""
    for file in data.glob("hubbub.db*"):
        content = file.read_bytes()
        at = content.find(key_hash)
        while at >= 0:
            if channel in content[at : at + 400]:
                return True
            at = content.find(key_hash, at + 1)
    return False


async def mint(hub: HubProcess, user: str) -> str:
    """A token from the command line, as an operator would get one."""
    process = await asyncio.create_subprocess_exec(
        *hub.command("token"), "--hub", "acme", "--user", user, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode().strip()


# -- settings --------------------------------------------------------------------------------------


async def test_a_setting_that_was_answered_is_there_after_sigkill(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("settings_writer.py")),
        str(tmp_path),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    last = 0
    try:
        async with asyncio.timeout(20):
            while last < 40:
                last = int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()
    whole_lines, _, _ = (await process.stdout.read()).rpartition(b"\n")
    last = int(whole_lines.splitlines()[-1]) if whole_lines else last
    async with RestartingHub(tmp_path, open_hub()) as life:
        hub = await life.restart()
        rules = hub.server.directory.get("acme").rules
        for number in range(1, last + 1):
            assert rules[f"r{number}"] == Rules(public=True, occupancy=number % 2 == 0)


# -- the store goes away ---------------------------------------------------------------------------


async def publish_until_refused(speaker: FakeConnection, channel: str, payload: bytes) -> int:
    """How many were taken before the store refused one, with a clear error."""
    taken = 0
    while True:
        publish(speaker, channel, payload, req_id=1, store=True)
        result = (await speaker.next(Acknowledged, len(speaker.all(Acknowledged)) + 1)).results[0]
        if result.error is not None:
            assert result.error.code == "store_unavailable"
            assert result.error.retry
            assert result.serial == 0
            return taken
        taken += 1
        assert result.serial == taken


async def test_a_full_store_gives_a_clear_error_and_goes_on_when_there_is_room(
    tmp_path: Path,
) -> None:
    store = FaultyStore(tmp_path / "hubbub.db", max_bytes=2_000_000)
    async with Alone(tmp_path, hubs=[open_hub(rules=STORED)], store=store) as alone:
        listener = await alone.node.subscribe("news")
        speaker = alone.node.connect()
        taken = await publish_until_refused(speaker, "news", b'"%s"' % (b"x" * 100_000))
        assert taken > 3
        await listener.delivered("news", taken)
        partition = partition_of("acme", "news")
        term = alone.node.owner.terms[partition]
        await store.delete_before("acme", "news", taken, partition, term)
        before = len(speaker.all(Acknowledged))
        publish(speaker, "news", b'"room again"', req_id=1, store=True)
        result = (await speaker.next(Acknowledged, before + 1)).results[0]
        assert result.serial == taken + 1, "what was refused left no gap"
        await listener.delivered("news", taken + 1)
        serials = [message.serial for message in listener.deliveries("news")]
        assert serials == list(range(1, taken + 2))


async def test_the_death_of_the_stores_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async with RestartingHub(
        tmp_path, open_hub(rules=STORED), session__messagesPerSecond=0
    ) as life:
        hub = await life.restart()
        speaker = await hub.socket()
        acknowledged: dict[int, int] = {}
        refused = 0
        for number in range(60):
            if number == 30:
                kill_writer(hub)
            result = await speaker.publish("news", {"json": number}, store=True)
            if result["success"]:
                acknowledged[int(result["channelSerial"])] = number
            else:
                assert result["error"]["code"] == "store_unavailable"
                refused += 1
        assert sorted(acknowledged) == list(range(1, len(acknowledged) + 1))
        assert len(acknowledged) >= 50, f"{refused} were refused"
        await speaker.send("History", channel="news", reqID=1, after="0")
        page: dict[str, Any] = await speaker.find("History")
        found = {int(m["channelSerial"]): m["payload"]["json"] for m in page["messages"]}
        assert found == acknowledged


def kill_writer(hub: RunningHub) -> None:
    store = hub.server.store
    assert isinstance(store, SqliteStore)
    os.kill(store.worker_pids[0], signal.SIGKILL)
