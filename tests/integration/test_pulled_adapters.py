"""Adapters that are pulled: one look in each interval and on each request, which loses nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from harness.admin import HUB
from harness.communication import BOXES, CommHub, comm_hub, memory, until
from harness.peer_logins import is_so
from harness.receivers import Received, Receiver, Reply, whole_answer
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules
from hubbub.engine.communication import inputs
from hubbub.engine.communication.dispatcher import Dispatcher

HOUR_MS = 3_600_000
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title>
<entry><id>urn:1</id><title>First</title></entry>
<entry><id>urn:2</id><title>Second</title></entry></feed>"""


async def put(hub: CommHub, name: str, kind: str, settings: dict[str, Any], **more: Any) -> None:
    body = {"kind": kind, "settings": settings, **more}
    reply = await hub.service("PUT", f"{HUB}/adapters/{name}", body)
    assert reply.status < 300, reply.text


async def pull(hub: CommHub, name: str) -> None:
    reply = await hub.service("POST", f"{HUB}/adapters/{name}/pull")
    assert reply.status == 204, reply.text


async def came(hub: CommHub, count: int) -> list[dict[str, Any]]:
    """All messages that came in, as soon as they are so many."""

    async def enough() -> bool:
        return len(await hub.logged()) >= count

    await until(enough)
    return await hub.logged()


async def contents(hub: CommHub, count: int) -> Sequence[str]:
    return [each["message"]["content"] for each in await came(hub, count)]


@pytest.mark.spec("COMM-02", "COMM-03")
@pytest.mark.parametrize(("per_look", "looks"), [(None, 1), (3, 3)])
async def test_a_url_that_always_has_an_answer_is_asked_once_for_each_look(
    start_hub: StartHub, per_look: int | None, looks: int
) -> None:
    def answer(request: Received) -> Reply:
        body = {"type": "SENSOR", "subtype": "NOW", "content": str(len(source.received))}
        return whole_answer(200, json.dumps(body).encode())

    hub = await comm_hub(start_hub)
    async with Receiver(answer) as source:
        more = {"intervalMs": HOUR_MS, "maxPerLook": per_look}
        await put(hub, "sensor", "rest-pull", {"url": f"{source.url}/now"}, **more)
        await came(hub, looks)
        for _ in range(3):
            await pull(hub, "sensor")
        await came(hub, 4 * looks)
        await pull(hub, "sensor")
        assert len(await came(hub, 5 * looks)) == 5 * looks
        assert len(source.received) == 5 * looks


@pytest.mark.spec("COMM-02", "COMM-03")
async def test_a_feed_is_fetched_once_for_each_look(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    async with Receiver(lambda _: whole_answer(200, ATOM)) as source:
        await put(hub, "feed", "feed", {"url": f"{source.url}/atom"}, intervalMs=HOUR_MS)
        await came(hub, 2)
        for _ in range(2):
            await pull(hub, "feed")
        await until(lambda: is_so(len(source.received) >= 3))
        assert len(source.received) == 3
    assert len(await came(hub, 2)) == 2, "entries that are known come once"


@pytest.mark.spec("COMM-02")
async def test_a_look_takes_so_many_messages_as_the_settings_say(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, inbox=memory("test-pull", "in", max_per_look=2))
    found = [PeerMessage(type="NEWS", subtype="s", content=str(each)) for each in range(5)]
    BOXES["in"].inbox += found
    await pull(hub, "inbox")
    assert await contents(hub, 2) == ["0", "1"]
    await pull(hub, "inbox")
    assert await contents(hub, 4) == ["0", "1", "2", "3"]
    assert BOXES["in"].pulls == 4
    body = {"kind": "test-memory", "maxPerLook": 2}
    refused = await hub.service("PUT", f"{HUB}/adapters/mail", body)
    assert (refused.status, "maxPerLook" in refused.message) == (400, True), refused.text


@pytest.mark.spec("COMM-03", "COMM-11")
@pytest.mark.parametrize("interval", [None, HOUR_MS])
async def test_what_is_published_after_the_adapter_was_set_arrives_also_on_a_new_channel(
    start_hub: StartHub, interval: int | None
) -> None:
    settings = HubSettings(topic_rules="topics")
    configuration = HubConfiguration("acme", settings, {"topics": Rules(store=True)})
    hub = CommHub(await start_hub(configuration))
    await put(hub, "news", "channel-in", {"channel": "news"}, intervalMs=interval)
    await hub.publish("news", "first")
    await pull(hub, "news")
    assert await contents(hub, 1) == ["first"]
    await hub.publish("news", "second")
    await pull(hub, "news")
    assert await contents(hub, 2) == ["first", "second"]
    status = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"][0]
    assert (status.get("failed", 0), status.get("lastError", "")) == (0, "")


@pytest.mark.spec("COMM-03", "COMM-11")
async def test_an_adapter_that_was_configured_before_the_start_hears_a_new_channel_too(
    start_hub: StartHub,
) -> None:
    configuration = HubConfiguration(
        "acme",
        HubSettings(topic_rules="topics"),
        {"topics": Rules(store=True)},
        adapters={"news": AdapterSettings("channel-in", {"channel": "news"}, interval_ms=HOUR_MS)},
    )
    hub = CommHub(await start_hub(configuration))

    async def follows() -> bool:
        found = await hub.service("GET", f"{HUB}/subscriptions")
        return "news" in found.text

    await until(follows)
    await hub.publish("news", "first")
    await pull(hub, "news")
    assert await contents(hub, 1) == ["first"]


@pytest.mark.spec("COMM-02", "COMM-11")
@pytest.mark.parametrize("interval", [None, HOUR_MS])
async def test_a_message_that_cannot_be_stored_when_it_is_pulled_comes_in_later(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch, interval: int | None
) -> None:
    """The source gives each message once: it sends no `ETag`."""
    monkeypatch.setattr(inputs, "AGAIN_SECONDS", 0.01)
    send, faults = Dispatcher.send, [StoreUnavailable("away"), StoreUnavailable("still away")]

    async def send_later(*arguments: Any) -> str:
        if faults:
            raise faults.pop()
        return await send(*arguments)

    monkeypatch.setattr(Dispatcher, "send", send_later)
    waiting = [{"type": "BUILD", "subtype": "FAILED", "content": "only once"}]

    def answer(request: Received) -> Reply:
        return whole_answer(200, json.dumps(waiting.pop()).encode()) if waiting else 204

    hub = await comm_hub(start_hub)
    async with Receiver(answer) as source:
        settings = {"url": f"{source.url}/next"}
        await put(hub, "builds", "rest-pull", settings, intervalMs=interval)
        if interval is None:
            await pull(hub, "builds")
        assert await contents(hub, 1) == ["only once"]
        assert (len(source.received), faults) == (1, [])
