"""One order for all: many publishers, many subscribers, serials without gaps."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("LIVE-10")

STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
LIVE_ONLY = msgspec.structs.replace(OPEN, live_history=False)
ALL_KINDS = pytest.mark.parametrize(
    "rules", [OPEN, STORED, LIVE_ONLY], ids=["live-history", "stored", "live-only"]
)
PUBLISHERS, SUBSCRIBERS, EACH = 8, 6, 40


async def talk(socket: Socket, name: int, count: int, **flags: bool) -> list[int]:
    """Publish many without waiting in between; answers the serials, in the order of publishing."""
    for number in range(count):
        item = {
            "channel": "news",
            "payload": {"json": [name, number]},
            "extra": flags,
            "reqID": number + 1,
        }
        await socket.send("Publish", publishes=[item])
    serials: dict[int, int] = {}
    while len(serials) < count:
        for result in (await socket.find("Ack"))["published"]:
            assert result["success"], result
            serials[result["reqID"]] = int(result["channelSerial"])
    return [serials[number] for number in range(1, count + 1)]


async def listen(socket: Socket, count: int) -> list[tuple[int, Any]]:
    heard = []
    for _ in range(count):
        delivered = await socket.expect("Publish")
        heard.append((int(delivered["channelSerial"]), delivered["payload"]["json"]))
    return heard


async def start(start_hub: StartHub, rules: Rules, **more: object) -> RunningHub:
    return await start_hub(open_hub(rules=rules), session__messagesPerSecond=0, **more)


@ALL_KINDS
async def test_all_subscribers_see_one_order_with_serials_without_gaps(
    start_hub: StartHub, rules: Rules
) -> None:
    hub = await start(start_hub, rules)
    listeners = [await hub.socket() for _ in range(SUBSCRIBERS)]
    for listener in listeners:
        await listener.subscribe("news")
    speakers = [await hub.socket() for _ in range(PUBLISHERS)]
    total = PUBLISHERS * EACH
    results = await asyncio.gather(
        *(talk(speaker, name, EACH, store=True) for name, speaker in enumerate(speakers)),
        *(listen(listener, total) for listener in listeners),
    )
    acknowledged, heard = results[:PUBLISHERS], results[PUBLISHERS:]
    assert all(each == heard[0] for each in heard[1:])
    order: list[tuple[int, Any]] = heard[0]  # type: ignore[assignment]
    assert [serial for serial, _ in order] == list(range(1, total + 1))
    for name, serials in enumerate(acknowledged):
        mine = [serial for serial, (by, _) in order if by == name]
        assert mine == serials, "acknowledged under the serial it was delivered with"
        assert [number for _, (by, number) in order if by == name] == list(range(EACH))


@ALL_KINDS
async def test_who_joins_in_the_middle_begins_exactly_at_the_confirmed_serial(
    start_hub: StartHub, rules: Rules
) -> None:
    hub = await start(start_hub, rules)
    speaker = await hub.socket()
    talking = asyncio.create_task(talk(speaker, 0, 300, store=True))
    for _ in range(8):
        listener = await hub.socket()
        confirmed = int((await listener.subscribe("news"))["channels"][0]["serial"])
        if confirmed < 295:
            first = int((await listener.expect("Publish"))["channelSerial"])
            second = int((await listener.expect("Publish"))["channelSerial"])
            assert (first, second) == (confirmed + 1, confirmed + 2)
    assert await talking == list(range(1, 301))


@pytest.mark.parametrize("rules", [OPEN, STORED], ids=["live-history", "stored"])
async def test_who_recovers_while_others_publish_misses_nothing_and_hears_nothing_twice(
    start_hub: StartHub, rules: Rules
) -> None:
    hub = await start(start_hub, rules, engine__maxLiveHistorySize=2000)
    speaker = await hub.socket()
    await talk(speaker, 0, 100, store=True)
    talking = asyncio.create_task(talk(speaker, 0, 500, store=True))
    for position in (0, 40, 99):
        listener = await hub.socket()
        confirmed = await listener.subscribe("news", serial=str(position))
        assert confirmed["channels"][0]["recovered"] is True
        heard = await listen(listener, 600 - position)
        assert [serial for serial, _ in heard] == list(range(position + 1, 601))
    await talking


async def test_channels_and_hubs_count_for_themselves(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("other"))
    acme, other = await hub.socket(), await hub.socket("other")
    for number in (1, 2, 3):
        for socket, channel in ((acme, "a"), (acme, "b"), (other, "a")):
            result = await socket.publish(channel, {"json": number})
            assert result["channelSerial"] == str(number)


async def test_a_batch_keeps_its_order(start_hub: StartHub) -> None:
    hub = await start(start_hub, OPEN)
    socket = await hub.socket()
    await socket.subscribe("news")
    items = [
        {"channel": "news", "payload": {"json": number}, "reqID": number} for number in range(1, 51)
    ]
    await socket.send("Publish", publishes=items)
    acknowledged = (await socket.find("Ack"))["published"]
    assert [result["reqID"] for result in acknowledged] == list(range(1, 51))
    heard = [e["payload"] for e in socket.backlog if e["event"] == "Publish"]
    while len(heard) < 50:
        heard.append(await socket.find("Publish"))
    assert [each["payload"]["json"] for each in heard[:50]] == list(range(1, 51))
