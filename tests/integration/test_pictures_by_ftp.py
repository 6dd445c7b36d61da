"""The example of the SmartCom report: a peer has some time to post pictures in a folder of an FTP
server; after it the hub stops looking, and makes an error message if there are no pictures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB
from harness.communication import CommHub, comm_hub, memory, until
from harness.ftp import ftp_server
from harness.running_hub import StartHub

pytestmark = pytest.mark.spec("COMM-10", "COMM-12")
PICTURE = bytes(range(256)) * 400
HOUR = 3_600_000
TIMEOUT = ("TIMEOUT", "the time to live is over")


class Asked:
    """A hub that looks for pictures in the folder `inbox`."""

    def __init__(self, hub: CommHub, inbox: Path) -> None:
        self.hub = hub
        self.inbox = inbox

    def post(self, name: str, data: bytes = PICTURE) -> None:
        (self.inbox / name).write_bytes(data)

    async def ask(self, ttl: int) -> str:
        more = {"headers": {"await": "reply"}, "deliveryPolicy": "ACKNOWLEDGED"}
        return await self.hub.send("ann", id="task", sender="boss", ttl=ttl, **more)

    async def pictures(self) -> list[dict[str, Any]]:
        return [each["message"] for each in await self.hub.logged(type="FILE")]

    async def stopped_looking(self) -> bool:
        return (await self.hub.service("GET", f"{HUB}/adapters/pictures")).status == 404


@asynccontextmanager
async def asking(
    start_hub: StartHub, folder: Path, every_ms: int = HOUR, stable: float = 0.2
) -> AsyncIterator[Asked]:
    inbox = folder / "inbox"
    inbox.mkdir()
    with ftp_server(inbox, "pass") as port:
        hub = await comm_hub(start_hub, mail=memory())
        await hub.peer("ann", ("mail", "ann"))
        await hub.peer("boss", ("mail", "boss"))
        login = {"host": "127.0.0.1", "port": port, "username": "hub", "security": "none"}
        body = {
            "kind": "ftp",
            "settings": {**login, "receiver": "boss", "stableSeconds": stable},
            "secrets": {"password": "pass"},
            "intervalMs": every_ms,
            "awaits": "task",
        }
        reply = await hub.service("PUT", f"{HUB}/adapters/pictures", body)
        assert reply.status == 201, reply.text
        yield Asked(hub, inbox)


async def test_a_picture_that_is_posted_just_before_the_end_is_the_answer(
    start_hub: StartHub, tmp_path: Path
) -> None:
    async with asking(start_hub, tmp_path) as asked:
        sent = await asked.ask(ttl=1000)
        await asyncio.to_thread(asked.post, "a.png")
        assert await asked.hub.report(sent) == ("ACK", "")
        (picture,) = await asked.pictures()
        assert (picture["refersTo"], picture["receiver"]) == (sent, "boss")
        copy = next(each for each in await asked.hub.got(2) if each.message.type == "FILE")
        assert (copy.peer, copy.message.content) == ("boss", PICTURE)
        await until(asked.stopped_looking)
        assert not (asked.inbox / "a.png").exists()


async def test_a_picture_that_is_still_written_at_the_end_is_waited_for(
    start_hub: StartHub, tmp_path: Path
) -> None:
    async with asking(start_hub, tmp_path, stable=0.6) as asked:
        sent = await asked.ask(ttl=500)
        with (asked.inbox / "a.png").open("wb") as file:
            for part in range(4):
                file.write(PICTURE[part * 25_600 : (part + 1) * 25_600])
                file.flush()
                os.fsync(file.fileno())
                await asyncio.sleep(0.25)
        assert await asked.hub.report(sent) == ("ACK", "")
        (delivery,) = [each for each in await asked.hub.got(2) if each.message.type == "FILE"]
        assert delivery.message.content == PICTURE


async def test_without_a_picture_the_error_comes_on_time_and_nobody_looks_any_more(
    start_hub: StartHub, tmp_path: Path
) -> None:
    async with asking(start_hub, tmp_path, stable=30.0) as asked:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        sent = await asked.ask(ttl=800)
        assert await asked.hub.report(sent) == TIMEOUT
        assert 0.8 <= loop.time() - begun < 5, "it does not wait for files that are not there"
        await until(asked.stopped_looking)
        report = next(each for each in await asked.hub.got(2) if each.peer == "boss")
        assert (report.message.subtype, report.message.refers_to) == ("TIMEOUT", sent)


async def test_all_pictures_of_the_time_arrive_and_the_end_comes_also_after_an_answer(
    start_hub: StartHub, tmp_path: Path
) -> None:
    async with asking(start_hub, tmp_path, every_ms=50, stable=0.1) as asked:
        sent = await asked.ask(ttl=2500)
        for number in range(3):
            await asyncio.to_thread(asked.post, f"{number}.png", PICTURE + bytes([number]))
        assert await asked.hub.report(sent) == ("ACK", "")
        await until(asked.stopped_looking)
        pictures = await asked.pictures()
        assert [each["refersTo"] for each in pictures] == [sent] * 3
        assert await asked.hub.reports(sent) == [("ACK", "")]
