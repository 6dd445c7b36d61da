"""What channels can do by their rules, and how a message's flags play together with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.clock import FakeClock
from harness.engine import Alone, publish
from harness.restarting import RestartingHub
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.domain.notices import MessageDelivery, Subscribed
from hubbub.domain.notices import Published as Acknowledged
from hubbub.domain.permissions import Grant
from hubbub.domain.requests import Subscribe, SubscribeItem
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("LIVE-12")


def rules(**features: bool) -> Rules:
    return msgspec.structs.replace(OPEN, live_history=False, **features)


async def retained_of(hub: RunningHub, channel: str) -> Any:
    """The payload of the retained message that a new subscriber gets; None: it gets none."""
    socket = await hub.socket()
    await socket.subscribe(channel)
    await socket.send("Ping", reqID=1)
    envelope = await socket.next()
    while envelope["event"] not in ("Publish", "Pong"):
        envelope = await socket.next()
    if envelope["event"] == "Pong":
        return None
    assert envelope["payload"]["retained"] is True
    return envelope["payload"]["payload"]


async def history(socket: Socket, channel: str, **asked: Any) -> dict[str, Any]:
    await socket.send("History", channel=channel, reqID=1, **asked)
    return await socket.find("History")


# -- retain ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [False, True], ids=["live", "stored"])
async def test_the_last_retained_message_is_sent_on_subscribe_until_it_is_cleared(
    start_hub: StartHub, store: bool
) -> None:
    hub = await start_hub(open_hub(rules=rules(retain=True, store=store)))
    speaker = await hub.socket()
    assert await retained_of(hub, "news") is None
    await speaker.publish("news", {"json": 1}, retain=True, store=store)
    await speaker.publish("news", {"json": 2}, retain=True, store=store)
    await speaker.publish("news", {"json": 3}, store=store)
    assert await retained_of(hub, "news") == {"json": 2}
    assert (await speaker.publish("news", {"text": ""}, retain=True, store=store))["success"]
    assert await retained_of(hub, "news") is None


@pytest.mark.parametrize("store", [False, True], ids=["live", "stored"])
async def test_a_retained_message_survives_a_restart_and_so_does_its_clearing(
    tmp_path: Path, store: bool
) -> None:
    async with RestartingHub(tmp_path, open_hub(rules=rules(retain=True, store=store))) as life:
        hub = await life.restart()
        speaker = await hub.socket()
        for number in range(20):
            await speaker.publish("kept", {"json": number}, retain=True, store=store)
        await speaker.publish("cleared", {"json": 1}, retain=True, store=store)
        await speaker.publish("cleared", {"text": ""}, retain=True, store=store)
        hub = await life.restart()
        assert await retained_of(hub, "kept") == {"json": 19}
        assert await retained_of(hub, "cleared") is None


async def test_a_retained_message_expires(tmp_path: Path) -> None:
    clock = FakeClock()
    hub_of = open_hub(rules=rules(retain=True))
    async with RestartingHub(tmp_path, hub_of, clock=clock, channel__retainMsgDuration=60) as life:
        hub = await life.restart()
        await (await hub.socket()).publish("news", {"json": 1}, retain=True)
        clock.advance(59)
        assert await retained_of(hub, "news") == {"json": 1}
        clock.advance(2)
        assert await retained_of(hub, "news") is None
        hub = await life.restart()
        assert await retained_of(hub, "news") is None


async def test_a_retained_message_that_is_missed_anyway_comes_once(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=rules(retain=True, store=True)))
    speaker = await hub.socket()
    for number in (1, 2, 3):
        await speaker.publish("news", {"json": number}, retain=True, store=True)
    late = await hub.socket()
    await late.subscribe("news", serial="1")
    await speaker.publish("news", {"json": 4}, store=True)
    got = [(await late.expect("Publish"))["payload"]["json"] for _ in range(3)]
    assert got == [2, 3, 4]


async def test_a_newer_retained_message_is_not_missed_while_subscribing(tmp_path: Path) -> None:
    """Between reading the retained message and the first live one there is no hole."""
    async with Alone(tmp_path, hubs=[open_hub(rules=rules(retain=True))]) as alone:
        speaker = alone.node.connect()
        publish(speaker, "a", b"0", req_id=1, retain=True)
        await speaker.next(Acknowledged)
        for turns in range(12):
            listener = alone.node.connect()
            wanted = (SubscribeItem("a"), SubscribeItem(f"b{turns}"))
            listener.say(Subscribe(wanted))
            for _ in range(turns):
                await asyncio.sleep(0)
            publish(speaker, "a", b"%d" % (turns + 1), req_id=1, retain=True)
            await listener.next(Subscribed)
            await speaker.next(Acknowledged, turns + 2)
            await listener.next(MessageDelivery)
            newest = listener.all(MessageDelivery)[-1].message.payload
            assert newest == b"%d" % (turns + 1)
            assert listener.session is not None
            alone.node.node.close(listener.session)


# -- store -----------------------------------------------------------------------------------------


async def test_a_stored_message_is_on_disk_before_anyone_sees_it(tmp_path: Path) -> None:
    async with Alone(tmp_path, hubs=[open_hub(rules=rules(store=True))]) as alone:
        listener = await alone.node.subscribe("news")
        speaker = alone.node.connect()
        alone.store.held = asyncio.Event()
        publish(speaker, "news", b"1", req_id=1, store=True)
        while not alone.store.batches:
            await asyncio.sleep(0)
        assert listener.deliveries("news") == []
        assert speaker.all(Acknowledged) == []
        alone.store.held.set()
        await listener.delivered("news", 1)
        page = await alone.store.read_after("acme", "news", 0, 10)
        assert [message.serial for message in page.messages] == [1]
        assert (await speaker.next(Acknowledged)).results[0].serial == 1


async def test_only_stored_messages_have_a_serial_on_a_channel_that_stores(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=rules(store=True)))
    listener, speaker = await hub.socket(), await hub.socket()
    await listener.subscribe("news")
    results = [
        await speaker.publish("news", {"json": 1}, store=True),
        await speaker.publish("news", {"json": 2}),
        await speaker.publish("news", {"json": 3}, store=True, transient=True),
        await speaker.publish("news", {"json": 4}, store=True),
    ]
    assert [result.get("channelSerial") for result in results] == ["1", None, None, "2"]
    delivered = [await listener.expect("Publish") for _ in range(4)]
    assert [each["payload"]["json"] for each in delivered] == [1, 2, 3, 4]
    assert [each.get("channelSerial") for each in delivered] == ["1", None, None, "2"]
    page = await history(speaker, "news", after="0")
    assert [each["payload"]["json"] for each in page["messages"]] == [1, 4]


async def test_messages_of_one_publisher_stay_in_order_whether_stored_or_not(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=rules(store=True)), session__messagesPerSecond=0)
    listener, speaker = await hub.socket(), await hub.socket()
    await listener.subscribe("news")
    for number in range(100):
        item = {"channel": "news", "payload": {"json": number}, "extra": {"store": number % 3 == 0}}
        await speaker.send("Publish", publishes=[item])
    got = [(await listener.expect("Publish"))["payload"]["json"] for _ in range(100)]
    assert got == list(range(100))


# -- flags where the rule does not allow them ------------------------------------------------------


async def test_flags_are_ignored_where_the_rule_does_not_allow_them(tmp_path: Path) -> None:
    async with RestartingHub(tmp_path, open_hub(rules=rules())) as life:
        hub = await life.restart()
        speaker = await hub.socket()
        result = await speaker.publish("news", {"json": 1}, store=True, retain=True, push=True)
        assert result["success"]
        assert await retained_of(hub, "news") is None
        page = await history(speaker, "news")
        assert page["messages"] == []
        hub = await life.restart()
        await hub.server.directory.put("acme", "rules", "default", rules(store=True, retain=True))
        page = await history(await hub.socket(), "news", after="0")
        assert page["messages"] == []
        assert page["head"] == "0"
        assert await retained_of(hub, "news") is None


# -- presence and occupancy ------------------------------------------------------------------------


async def test_presence_is_the_state_on_subscribe_and_then_joins_and_leaves(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub(rules=rules(presence=True)))
    ann = await hub.socket(token=hub.token("ann", colour="red"))
    await ann.subscribe("room")
    (me,) = (await ann.find("Presence"))["presence"]
    assert me["userID"] == "ann"
    assert me["extra"] == {"colour": "red"}
    assert me["sessionID"]
    assert me["ts"] > 1_600_000_000_000
    bob = await hub.socket(token=hub.token("bob"))
    await bob.subscribe("room")
    assert {each["userID"] for each in (await bob.find("Presence"))["presence"]} == {"ann", "bob"}
    joined = await ann.find("Join")
    while joined["presence"][0]["userID"] != "bob":
        joined = await ann.find("Join")
    assert joined["channel"] == "room"
    await bob.send("Unsubscribe", channels=["room"])
    assert (await ann.find("Leave"))["presence"][0]["userID"] == "bob"
    await bob.subscribe("room")
    assert (await ann.find("Join"))["presence"][0]["userID"] == "bob"
    await bob.connection.close()
    assert (await ann.find("Leave"))["presence"][0]["userID"] == "bob"
    await ann.send("Presence", channel="room", reqID=2)
    answer = await ann.find("Presence")
    assert [each["userID"] for each in answer["presence"]] == ["ann"]
    assert answer["reqID"] == 2


async def test_presence_knows_who_somebody_is_once_they_say_so(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=rules(presence=True)))
    socket = await hub.socket()
    await socket.subscribe("room")
    (before,) = (await socket.find("Presence"))["presence"]
    assert "userID" not in before
    await socket.send("Auth", token=hub.token("ann", colour="red"))
    await socket.find("Auth")
    await socket.send("Presence", channel="room", reqID=2)
    (after,) = (await socket.find("Presence"))["presence"]
    assert after["userID"] == "ann"
    assert after["extra"] == {"colour": "red"}
    assert after["ts"] == before["ts"], "present since then"


async def test_a_change_of_rules_does_not_change_since_when_somebody_is_there(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(rules=rules(presence=True)), clock=clock)
    socket = await hub.socket()
    await socket.subscribe("room")
    (before,) = (await socket.find("Presence"))["presence"]
    clock.advance(100)
    await hub.server.directory.put("acme", "rules", "unused", Rules())
    await socket.send("Presence", channel="room", reqID=2)
    (after,) = (await socket.find("Presence"))["presence"]
    assert after["ts"] == before["ts"]


async def test_presence_that_is_not_kept_is_not_answered(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=rules()))
    socket = await hub.socket()
    await socket.send("Presence", channel="room", reqID=2)
    assert (await socket.find("Presence"))["error"]["code"] == "not_found"


async def test_occupancy_counts_and_says_no_names(start_server: StartHub) -> None:
    hub = await start_server(open_hub(rules=rules(occupancy=True)))
    watcher = await hub.socket()
    await watcher.subscribe("room")
    assert (await watcher.find("Occupancy"))["count"] == 1
    others = [await hub.socket() for _ in range(3)]
    for other in others:
        await other.subscribe("room")
    while (await watcher.find("Occupancy")) != {"channel": "room", "count": 4}:
        pass
    for other in others:
        await other.connection.close()
    while (await watcher.find("Occupancy"))["count"] != 1:
        pass
    assert not any(envelope["event"] in ("Join", "Leave") for envelope in watcher.backlog)


# -- who may ---------------------------------------------------------------------------------------


async def test_public_without_anonymous_means_any_authenticated_session(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=Rules(public=True, client_publish=True)))
    stranger, known = await hub.socket(), await hub.socket(token=hub.token("ann"))
    assert (await stranger.subscribe("news"))["failures"][0]["error"]["code"] == "not_permitted"
    assert (await stranger.publish("news", {"json": 1}))["error"]["code"] == "not_permitted"
    assert (await known.subscribe("news"))["subscribedChannels"] == ["news"]
    assert (await known.publish("news", {"json": 1}))["success"]


async def test_an_explicit_grant_overrides_client_publish_off(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules(public=True, allow_anonymous=True)))
    plain = await hub.socket(token=hub.token("ann"))
    granted = await hub.socket(token=hub.token("bob", grants=(Grant("news", publish=True),)))
    await plain.subscribe("news")
    assert (await plain.publish("news", {"json": 1}))["error"]["code"] == "not_permitted"
    assert (await granted.publish("news", {"json": 2}))["success"]
    assert (await granted.publish("other", {"json": 3}))["error"]["code"] == "not_permitted"
    assert (await plain.find("Publish"))["payload"] == {"json": 2}


async def test_notification_channels_take_only_public_and_allow_anonymous(
    start_hub: StartHub,
) -> None:
    features = [field.name for field in msgspec.structs.fields(Rules) if field.type is bool]
    everything = msgspec.structs.replace(Rules(), **dict.fromkeys(features, True))
    hub = await start_hub(open_hub(rules=everything))
    socket = await hub.socket()
    confirmed = await socket.subscribe("notification:sales")
    assert confirmed["subscribedChannels"] == ["notification:sales"]
    assert (await socket.expect("NotificationInfo"))["total"] == 0
    await socket.send("Presence", channel="notification:sales", reqID=2)
    assert (await socket.expect("Presence"))["error"]["code"] == "not_found", "and no state before"
    result = await socket.publish("notification:sales", {"json": 1}, store=True, retain=True)
    assert result["error"]["code"] == "wrong_channel_kind"
    service = hub.token(grants=(Grant("notification:*", publish=True),))
    result = await (await hub.socket(token=service)).publish("notification:sales", {"json": 1})
    assert result["error"]["code"] == "wrong_channel_kind"
    assert (await history(socket, "notification:sales"))["messages"] == []


# -- live history ----------------------------------------------------------------------------------


async def test_live_history_is_bounded_by_count_and_by_bytes(start_hub: StartHub) -> None:
    hub = await start_hub(engine__maxLiveHistorySize=10, session__messagesPerSecond=0)
    speaker = await hub.socket()
    for number in range(30):
        await speaker.publish("count", {"json": number})
    page = await history(speaker, "count")
    assert [each["payload"]["json"] for each in page["messages"]] == list(range(20, 30))
    for number in range(8):
        await speaker.publish("bytes", {"text": str(number) * 200_000})
    kept: list[str] = []
    before: dict[str, str] = {}
    while (page := await history(speaker, "bytes", **before))["messages"]:
        kept = [each["payload"]["text"][0] for each in page["messages"]] + kept
        before = {"before": page["messages"][0]["channelSerial"]}
    assert kept == ["3", "4", "5", "6", "7"]


async def test_live_history_can_be_switched_off_for_all(start_hub: StartHub) -> None:
    hub = await start_hub(channel__enableLiveHistory=False)
    speaker = await hub.socket()
    await speaker.publish("news", {"json": 1})
    page = await history(speaker, "news", after="0")
    assert (page["messages"], page["recovered"]) == ([], False)


async def test_document_channels_have_no_live_history(start_hub: StartHub) -> None:
    hub = await start_hub()
    speaker = await hub.socket()
    await speaker.publish("doc:page", {"json": 1})
    page = await history(speaker, "doc:page", after="0")
    assert (page["messages"], page["recovered"]) == ([], False)
