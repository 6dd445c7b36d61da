"""The two "rare circumstances" in which a reliable publish-subscribe service is not exactly once,
each with what closes it, and without: then it happens."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from harness.child import child
from harness.cutting_proxy import CuttingProxy, cutting_proxy
from harness.hub_process import HubProcess
from hubbub.client import Client, ConnectionLost, Options, Outbox, connect

pytestmark = pytest.mark.spec("ONCE-02")

CONSUMER = Path(__file__).with_name("inbox_consumer.py")
HUBS = {
    "acme": {
        "settings": {"allowAnonymous": True, "defaultRules": "kept"},
        "rules": {
            "kept": {"store": True, "public": True, "clientPublish": True, "allowAnonymous": True}
        },
    }
}
QUICK = Options(backoff_first=0.01, backoff_longest=0.1, restore=False, request_timeout=20)


async def stored(hub: HubProcess, topic: str) -> list[str]:
    """What the hub has, asked for past every proxy."""
    async with connect(f"ws://127.0.0.1:{hub.port}", hub="acme", options=QUICK) as client:
        return [message.data async for message in client.read_history(topic)]


async def crash_after_commit(hub: HubProcess, proxy: CuttingProxy, topic: str) -> None:
    """The server has handled the put and is killed; its reply reaches nobody. Then it is back."""
    async with asyncio.timeout(20):
        while len(await stored(hub, topic)) < 2:
            await asyncio.sleep(0.02)
    await hub.kill()
    await hub.start()
    proxy.server_port = hub.port
    proxy.swallowing = False


async def behind(proxy: CuttingProxy) -> Client:
    return await connect(f"ws://127.0.0.1:{proxy.port}", hub="acme", options=QUICK)


# -- the server crashes after handling a put and before the reply ---------------------------------


async def test_a_put_whose_reply_was_lost_with_the_server_is_stored_once(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        async with cutting_proxy(hub.port) as proxy:
            client = await behind(proxy)
            async with client, Outbox(client, tmp_path / "outbox") as outbox:
                await outbox.put("orders", "first", confirm=True)
                proxy.swallowing = True
                receipt = await outbox.submit("orders", "second")
                await crash_after_commit(hub, proxy, "orders")
                answer = await asyncio.wait_for(receipt, 20)
                assert (answer.serial, answer.duplicate) == (2, True)
                await outbox.put("orders", "third", confirm=True)
        assert await stored(hub, "orders") == ["first", "second", "third"]


async def test_so_is_one_without_a_file_as_long_as_its_client_lives(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        async with cutting_proxy(hub.port) as proxy:
            client = await behind(proxy)
            async with client:
                await client.topics.put("orders", "first")
                proxy.swallowing = True
                putting = asyncio.create_task(client.topics.put("orders", "second"))
                await crash_after_commit(hub, proxy, "orders")
                assert (await putting).duplicate
                await client.topics.put("orders", "third")
        assert await stored(hub, "orders") == ["first", "second", "third"]


async def test_without_a_sequence_it_is_stored_twice(tmp_path: Path) -> None:
    """What the service of the seed does: send again what was not answered."""
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        async with cutting_proxy(hub.port) as proxy:
            client = await behind(proxy)
            async with client:
                await client.publish("orders", "first", store=True)
                proxy.swallowing = True
                putting = asyncio.create_task(client.publish("orders", "second", store=True))
                await crash_after_commit(hub, proxy, "orders")
                with pytest.raises(ConnectionLost):
                    await putting
                await client.publish("orders", "second", store=True)
        assert await stored(hub, "orders") == ["first", "second", "second"]


# -- a client crashes after receiving a message and before acknowledging it -----------------------


def done(file: Path) -> list[str]:
    connection = sqlite3.connect(file)
    found = [text for (text,) in connection.execute("SELECT text FROM done ORDER BY rowid")]
    connection.close()
    return found


async def consume_with_a_crash(hub: HubProcess, file: Path, point: str) -> list[str]:
    """Five messages; the consumer is killed at the point, and another one does the rest. Answers
    what was done."""
    url = f"ws://127.0.0.1:{hub.port}"
    async with connect(url, hub="acme", options=QUICK) as client:
        await client.topics.subscribe("orders")
        for text in "abcde":
            await client.topics.put("orders", text)
    async with child(CONSUMER, file, url, "orders", point, 5) as consumer:
        await consumer.until("here")
        await consumer.kill()
    left = 5 - len(set(done(file)))
    if point == "naive":  # the one that was not acknowledged comes again
        left += 1
    again = "naive-again" if point == "naive" else "none"
    async with child(CONSUMER, file, url, "orders", again, left) as consumer:
        await consumer.ended()
    return done(file)


@pytest.mark.parametrize("point", ["received", "working", "committed"])
async def test_a_message_whose_client_crashed_before_the_acknowledgement_is_done_once(
    tmp_path: Path, point: str
) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        assert await consume_with_a_crash(hub, tmp_path / "app.db", point) == list("abcde")


async def test_without_an_inbox_it_is_done_twice(tmp_path: Path) -> None:
    async with HubProcess(tmp_path, HUBS) as hub:
        await hub.start()
        assert await consume_with_a_crash(hub, tmp_path / "app.db", "naive") == list("abbcde")
