"""The journal when the hub is killed and when the disk does not take it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from websockets.exceptions import ConnectionClosed

from harness.hub_process import HubProcess
from harness.journal import QUIET, journal_events, journalled, stored_serials
from harness.running_hub import RunningHub, Socket, hub_settings, open_hub
from hubbub.domain.journal import PUBLISHED, SESSION_OPENED, TELEMETRY_LOST
from hubbub.domain.rules import Rules
from hubbub.journal.folder import JournalFolder
from hubbub.server.wiring import Server

pytestmark = pytest.mark.spec("PIPE-01")

KEPT = {"store": True, "public": True, "clientPublish": True, "allowAnonymous": True}
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {"kept": KEPT},
    }
}
OFF_DISK = {"seal": False, "minFreeBytes": 0}
STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
CHANNELS = ("a", "b", "c")
BALLAST_BYTES = 1_900_000
METRICS_TOKEN = "the-token-that-opens-the-metrics-only"
METRICS = {"metricsToken": METRICS_TOKEN}


class Ledger:
    """By channel: the id of the message under each acknowledged serial."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[int, str]] = {channel: {} for channel in CHANNELS}
        self.count = 0
        self._grew = asyncio.Event()

    def note(self, channel: str, result: dict[str, Any]) -> None:
        self.stored[channel][int(result["channelSerial"])] = result["msgID"]
        self.count += 1
        self._grew.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20):
            while self.count < count:
                self._grew.clear()
                await self._grew.wait()


async def keep_publishing(socket: Socket, ledger: Ledger) -> None:
    """Until the hub is gone."""
    number = 0
    try:
        while True:
            items = [
                {
                    "channel": channel,
                    "payload": {"json": (number := number + 1)},
                    "extra": {"store": True},
                    "reqID": index,
                }
                for index, channel in enumerate(CHANNELS)
            ]
            await socket.send("Publish", publishes=items)
            for result in (await socket.find("Ack"))["published"]:
                if result["success"]:
                    ledger.note(CHANNELS[result["reqID"]], result)
    except (ConnectionClosed, TimeoutError):
        pass


async def metric(port: int, name: str) -> float:
    url = f"http://127.0.0.1:{port}/metrics"
    scrape = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    async with aiohttp.ClientSession(headers=scrape) as session, session.get(url) as answer:
        found = re.search(rf"^{name} (\S+)$", await answer.text(), re.MULTILINE)
    assert found is not None
    return float(found.group(1))


async def stored_in(hub: HubProcess) -> dict[str, dict[int, str]]:
    """What the store holds, asked over the wire."""
    socket = await hub.socket()
    found: dict[str, dict[int, str]] = {}
    for channel in CHANNELS:
        after, more = 0, True
        while more:
            await socket.send("History", channel=channel, reqID=1, after=str(after))
            page = await socket.find("History")
            more = page["more"]
            for message in page["messages"]:
                after = int(message["channelSerial"])
                found.setdefault(channel, {})[after] = message["msgID"]
    return found


async def test_every_stored_message_is_in_the_journal_however_often_the_hub_is_killed(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "data" / "journal"
    async with HubProcess(tmp_path, HUBS, journal=OFF_DISK, admin=METRICS) as hub:
        ledger = Ledger()
        for _ in range(3):
            await hub.start()
            load = [
                asyncio.create_task(keep_publishing(await hub.socket(), ledger)) for _ in range(3)
            ]
            await ledger.until(ledger.count + 200)
            await hub.kill()
            await asyncio.gather(*load)
        await hub.start()
        stored = await stored_in(hub)
        await journalled(journal, lambda _: stored_serials(journal) == stored)
        for channel, messages in ledger.stored.items():
            assert messages.items() <= stored[channel].items(), "acknowledged, but not stored"
        assert sum(map(len, stored.values())) >= 600
        assert await metric(hub.port, "hubbub_journal_lost_total") == 0


async def test_an_orderly_end_leaves_nothing_to_catch_up_with(tmp_path: Path) -> None:
    journal = tmp_path / "data" / "journal"
    async with HubProcess(tmp_path, HUBS, journal=OFF_DISK) as hub:
        await hub.start()
        socket = await hub.socket()
        for number in range(20):
            await socket.publish("a", {"json": number}, store=True)
        hub.signal(signal.SIGTERM)
        await hub.ended()
        before = len(journal_events(journal, PUBLISHED))
        assert before == 20
        await hub.start()
        socket = await hub.socket()
        await socket.publish("a", {"json": 20}, store=True)
        await journalled(journal, lambda _: len(stored_serials(journal)["a"]) == 21)
        assert len(journal_events(journal, PUBLISHED)) == 21, "nothing was written twice"


async def test_what_was_written_before_sigkill_is_recovered_at_the_next_start(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "data" / "journal"
    async with HubProcess(tmp_path, HUBS, journal=OFF_DISK) as hub:
        await hub.start()
        await hub.socket()
        await journalled(journal, lambda found: any(e.kind == SESSION_OPENED for e in found))
        await hub.kill()
        (left,) = JournalFolder(journal).open.glob("*.hbj")
        with left.open("ab") as file:
            file.write(b"\x40\x00\x00\x00torn by the crash")
        await hub.start()
        closed = JournalFolder(journal).closed / left.name
        async with asyncio.timeout(10):
            while not closed.exists():
                await asyncio.sleep(0.02)
        assert [event.kind for event in journal_events(journal)][:1] == [SESSION_OPENED]


async def test_a_full_disk_costs_telemetry_but_neither_the_hub_nor_a_stored_message(
    tmp_path: Path, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    namespaces = {"log": STORED}
    settings = hub_settings(
        tmp_path,
        open_hub(namespaces=namespaces),
        journal__path=str(small_disk / "journal"),
        session__messagesPerSecond=0,
        admin__metricsToken=METRICS_TOKEN,
        **QUIET,
    )
    server = Server(settings)
    await server.start()
    hub = RunningHub(server)
    journal = server.journal
    assert journal is not None
    ballast.write_bytes(b"x" * BALLAST_BYTES)
    socket = await hub.socket()
    while not journal.lost:
        for number in range(100):
            await socket.send(
                "Publish", publishes=[{"channel": "live", "payload": {"json": number}}]
            )
        await socket.publish("log:a", {"json": 1}, store=True)
        assert (await socket.publish("live", {"json": 1}))["success"], "the hub goes on"
    assert await metric(server.port, "hubbub_journal_lost_total") > 0
    for number in range(5):
        assert (await socket.publish("log:a", {"json": number}, store=True))["success"]
    ballast.unlink()
    await socket.publish("live", {"json": "room again"})
    folder = small_disk / "journal"
    head = await server.store.read_head("acme", "log:a")
    assert head is not None
    await journalled(
        folder,
        lambda found: (
            any(e.kind == TELEMETRY_LOST for e in found)
            and len(stored_serials(folder).get("log:a", {})) == head.head
        ),
    )
    await hub.close()
    told = sum(e.count or 0 for e in journal_events(folder, TELEMETRY_LOST))
    assert told == journal.lost, "what was lost is told, neither more nor less"
    assert {e.reason for e in journal_events(folder, TELEMETRY_LOST)} == {"disk"}
    live = [e for e in journal_events(folder, PUBLISHED) if e.channel == "live"]
    published = server.node.counters["acme"].messages_in - head.head
    assert len(live) <= published <= len(live) + told


async def test_a_folder_that_cannot_be_made_does_not_keep_the_hub_from_serving(
    tmp_path: Path,
) -> None:
    obstacle = tmp_path / "file"
    obstacle.write_text("no folder")
    hubs = json.loads(json.dumps(HUBS))
    settings = {**OFF_DISK, "path": str(obstacle / "journal")}
    async with HubProcess(tmp_path, hubs, journal=settings, admin=METRICS) as hub:
        await hub.start()
        socket = await hub.socket()
        assert (await socket.publish("a", {"json": 1}, store=True))["success"]
        async with asyncio.timeout(10):
            while not await metric(hub.port, "hubbub_journal_lost_total"):
                await asyncio.sleep(0.05)
        assert await metric(hub.port, "hubbub_journal_channels_behind") == 1


async def test_the_journal_leaves_the_space_on_disk_that_it_was_told_to(
    tmp_path: Path, small_disk: Path
) -> None:
    overrides = {**QUIET, "journal__minFreeBytes": 10**9}
    settings = hub_settings(tmp_path, journal__path=str(small_disk / "journal"), **overrides)
    server = Server(settings)
    await server.start()
    hub = RunningHub(server)
    socket = await hub.socket()
    await socket.publish("news", {"json": 1})
    assert server.journal is not None
    async with asyncio.timeout(10):
        while not server.journal.lost:
            await asyncio.sleep(0.02)
    await hub.close()
    assert journal_events(small_disk / "journal") == []
