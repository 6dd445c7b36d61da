"""Live history by default: who comes back after a short disconnect misses nothing, and nobody reads
what was said before they could have heard it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.running_hub import Socket, StartHub, open_hub
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules

pytestmark = pytest.mark.spec("LIVE-22")

PLAIN = Rules(public=True, client_publish=True, allow_anonymous=True)
"""They say nothing about live history."""
CLOSED = Rules(client_publish=True)
READER = (Grant("news", publish=True, subscribe=True),)


async def say(speaker: Socket, *texts: str) -> None:
    for text in texts:
        assert (await speaker.publish("news", {"text": text}))["success"]


async def heard(socket: Socket, count: int) -> list[str]:
    return [(await socket.find("Publish"))["payload"]["text"] for _ in range(count)]


async def place(socket: Socket) -> dict[str, Any]:
    """Where a client stands that subscribes now, as it gives it when it comes back."""
    (channel,) = (await socket.subscribe("news"))["channels"]
    return {"epoch": channel["epoch"], "serial": channel["serial"]}


async def come_back(socket: Socket, position: dict[str, Any]) -> bool:
    (channel,) = (await socket.subscribe("news", **position))["channels"]
    recovered: bool = channel["recovered"]
    return recovered


async def page(socket: Socket, **asked: Any) -> dict[str, Any]:
    await socket.send("History", channel="news", reqID=3, **asked)
    return await socket.find("History")


async def test_who_comes_back_gets_what_was_said_meanwhile(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PLAIN))
    speaker, listener = await hub.socket(), await hub.socket()
    position = await place(listener)
    await listener.connection.close()
    await say(speaker, "one", "two")
    again = await hub.socket()
    assert await come_back(again, position)
    assert await heard(again, 2) == ["one", "two"]
    await say(speaker, "three")
    assert await heard(again, 1) == ["three"], "and then what is said from now on"


async def test_a_channel_without_any_rules_keeps_a_live_history_too(start_hub: StartHub) -> None:
    hub = await start_hub(HubConfiguration("acme", HubSettings(allow_anonymous=True)))
    service = hub.token(grants=READER)
    speaker, listener = await hub.socket(token=service), await hub.socket(token=service)
    position = await place(listener)
    await listener.connection.close()
    await say(speaker, "one")
    again = await hub.socket(token=service)
    assert await come_back(again, position)
    assert await heard(again, 1) == ["one"]


async def test_a_rule_switches_it_off(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=msgspec.structs.replace(PLAIN, live_history=False)))
    speaker, listener = await hub.socket(), await hub.socket()
    position = await place(listener)
    await listener.connection.close()
    await say(speaker, "one")
    assert not await come_back(await hub.socket(), position)


async def test_newcomers_read_nothing_from_before_they_came(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PLAIN))
    speaker = await hub.socket()
    await say(speaker, "one", "two")
    newcomer = await hub.socket()
    for asked in ({}, {"after": "0"}, {"before": "3"}, {"afterTime": 0}, {"beforeTime": 1 << 40}):
        found = await page(newcomer, **asked)
        assert (found["messages"], found["head"]) == ([], "2"), asked
        assert not found["recovered"]
    async with hub.http.get("/v1/hubs/acme/channels/news/messages?after=0") as answer:
        assert (await answer.json())["messages"] == []
    for given in ({"serial": "0"}, {"timestamp": 0}):
        assert not await come_back(await hub.socket(), given)


@pytest.mark.parametrize("early", [True, False], ids=["token-from-before", "token-from-after"])
async def test_a_grant_opens_nothing_from_before_it_was_given(
    start_hub: StartHub, early: bool
) -> None:
    """Also to one who has learned the channel's epoch."""
    clock = FakeClock()
    hub = await start_hub(open_hub(rules=CLOSED), clock=clock)
    token = hub.token(grants=READER) if early else ""
    clock.advance(1)
    speaker = await hub.socket(token=hub.token("bob", grants=READER))
    await say(speaker, "secret")
    clock.advance(1)
    token = token or hub.token(grants=READER)
    reader = await hub.socket(token=token)
    position = await place(reader)
    back = await hub.socket(token=token)
    assert await come_back(back, {**position, "serial": "0"}) is early
    clock.advance(1)
    await say(speaker, "open")
    assert await heard(back, 1 + early) == (["secret", "open"] if early else ["open"])
    found = await page(back, epoch=position["epoch"], after="0")
    texts = [each["payload"]["text"] for each in found["messages"]]
    assert texts == (["secret", "open"] if early else ["open"])
    assert found["recovered"] is early


async def test_a_restored_session_gets_what_it_missed_though_its_grant_opens_the_channel(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    reader = await hub.socket(token=hub.token(grants=READER))
    key = (await reader.find("SessionRestore"))["restoreKey"]
    await place(reader)
    await reader.connection.close()
    await say(await hub.socket(token=hub.token("bob", grants=READER)), "one")
    back = await hub.socket()
    await back.send("SessionRestore", restoreKey=key)
    restored = await back.find("SessionRestored")
    assert [each["recovered"] for each in restored["channels"]] == [True]
    assert await heard(back, 1) == ["one"]


@pytest.mark.parametrize(
    "opened",
    [{"public": True}, {"public": True, "live_history": True}, {"live_history": True}],
    ids=["public", "public-with-history", "history"],
)
async def test_rules_that_open_a_channel_do_not_open_what_was_said_before(
    start_hub: StartHub, opened: dict[str, bool]
) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    speaker = await hub.socket(token=hub.token("bob", grants=READER))
    await say(speaker, "secret")
    rules = msgspec.structs.replace(CLOSED, **opened)
    await hub.server.directory.put("acme", "rules", "default", rules)
    reader = await hub.socket(token=hub.token("eve", grants=READER))
    position = await place(reader)
    back = await hub.socket(token=hub.token("eve", grants=READER))
    assert not await come_back(back, {**position, "serial": "0"})
    assert (await page(back, after="0"))["messages"] == []


async def test_it_can_be_switched_off_for_all_channels(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PLAIN), channel__enableLiveHistory=False)
    speaker, listener = await hub.socket(), await hub.socket()
    position = await place(listener)
    await say(speaker, "one")
    assert not await come_back(await hub.socket(), position)
