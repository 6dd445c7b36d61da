"""Rules: which apply to a channel, and that a change takes effect at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from harness.raw import RawConnection
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import ChannelSettings, HubConfiguration, HubSettings, Rules

pytestmark = pytest.mark.spec("LIVE-11")

CLOSED = Rules()
READ_ONLY = Rules(public=True, allow_anonymous=True)
STORED = msgspec.structs.replace(OPEN, store=True, live_history=False)
PLAIN = msgspec.structs.replace(OPEN, live_history=False)


async def may_publish(socket: Socket, channel: str) -> bool:
    result = await socket.publish(channel, {"json": 1})
    assert result["success"] or result["error"]["code"] == "not_permitted"
    return bool(result["success"])


async def change(hub: RunningHub, rules: Rules, name: str = "default") -> None:
    await hub.server.directory.put("acme", "rules", name, rules)


async def test_a_channels_own_rules_come_first_then_its_namespaces_then_the_hubs(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(
        HubConfiguration(
            hub="acme",
            settings=HubSettings(allow_anonymous=True, default_rules="open"),
            rules={"open": OPEN, "read": READ_ONLY, "closed": CLOSED},
            namespaces={"shop": "read", "broken": "no such rules"},
            channels={
                "shop:offers": ChannelSettings(rules="open"),
                "secret": ChannelSettings(rules="closed"),
                "shop:described": ChannelSettings(metadata={"title": "no rules of its own"}),
            },
        )
    )
    socket = await hub.socket()
    allowed = {
        "anything": True,
        "shop": True,
        "shop:stock": False,
        "shop:a:b": False,
        "shop:offers": True,
        "shop:described": False,
        "shopping:x": True,
        "broken:x": True,
        "secret": False,
        "secret:x": True,
    }
    for channel, expected in allowed.items():
        assert await may_publish(socket, channel) is expected, channel
    refused = await socket.subscribe("secret", "shop:stock")
    assert refused["subscribedChannels"] == ["shop:stock"]
    assert [failure["channel"] for failure in refused["failures"]] == ["secret"]


async def test_without_any_rules_the_hubs_settings_decide(start_hub: StartHub) -> None:
    public = HubSettings(allow_anonymous=True, default_public=True)
    private = HubSettings(allow_anonymous=True)
    hub = await start_hub(HubConfiguration("acme", public), HubConfiguration("private", private))
    assert (await (await hub.socket()).subscribe("x"))["failures"] == []
    assert (await (await hub.socket("private")).subscribe("x"))["subscribedChannels"] == []


async def test_access_that_a_change_takes_away_ends_at_once(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces={"club": OPEN}))
    guest = await hub.socket()
    member = await hub.socket(
        token=hub.token("ann", grants=(Grant("club:*", subscribe=True, publish=True),))
    )
    for socket in (guest, member):
        await socket.subscribe("club:a", "news")
    await change(hub, CLOSED, "of-club")
    assert await may_publish(member, "club:a")
    assert await may_publish(member, "news")
    lost = await guest.expect("Unsubscribe")
    assert lost["unsubscribedChannels"] == []
    assert [failure["channel"] for failure in lost["failures"]] == ["club:a"]
    assert lost["failures"][0]["error"]["code"] == "not_permitted"
    assert (await guest.expect("Publish"))["channel"] == "news"
    assert not await may_publish(guest, "club:a")
    assert (await guest.subscribe("club:a"))["subscribedChannels"] == []


async def test_access_that_a_change_gives_works_without_reconnecting(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=CLOSED))
    socket = await hub.socket()
    assert (await socket.subscribe("news"))["subscribedChannels"] == []
    await change(hub, OPEN)
    assert (await socket.subscribe("news"))["subscribedChannels"] == ["news"]
    assert await may_publish(socket, "news")


async def test_publishing_can_be_switched_off_and_on_for_connected_clients(
    hub: RunningHub,
) -> None:
    socket = await hub.socket()
    assert await may_publish(socket, "news")
    await change(hub, READ_ONLY)
    assert not await may_publish(socket, "news")
    await change(hub, OPEN)
    assert await may_publish(socket, "news")


async def test_a_request_that_was_permitted_before_is_decided_by_the_rules_of_now(
    hub: RunningHub,
) -> None:
    async with await RawConnection.open(hub.address) as connection:
        found = []
        for rules in (OPEN, READ_ONLY, OPEN, CLOSED, OPEN):
            await change(hub, rules)
            for _ in range(2):
                connection.request("POST /v1/hubs/acme/channels/news/messages", body=b"hello")
                found.append((await connection.response()).status)
    assert found == [200, 200, 403, 403, 200, 200, 403, 403, 200, 200]


async def test_a_channel_of_its_own_rules_and_a_namespace_can_be_set_while_it_is_used(
    hub: RunningHub,
) -> None:
    socket = await hub.socket()
    await change(hub, CLOSED, "closed")
    await socket.subscribe("a", "b:c")
    await hub.server.directory.put("acme", "channel", "a", ChannelSettings(rules="closed"))
    assert (await socket.find("Unsubscribe"))["failures"][0]["channel"] == "a"
    await hub.server.directory.put("acme", "namespace", "b", "closed")
    assert (await socket.find("Unsubscribe"))["failures"][0]["channel"] == "b:c"
    assert await hub.server.directory.delete("acme", "channel", "a")
    assert (await socket.subscribe("a"))["subscribedChannels"] == ["a"]


async def test_presence_can_be_switched_on_for_those_who_are_there(hub: RunningHub) -> None:
    ann, bob = await hub.socket(token=hub.token("ann")), await hub.socket(token=hub.token("bob"))
    for socket in (ann, bob):
        await socket.subscribe("room")
    await change(hub, msgspec.structs.replace(OPEN, presence=True, occupancy=True))
    joined = {member["userID"] for member in (await ann.find("Join"))["presence"]}
    assert joined == {"ann", "bob"}
    assert (await ann.find("Occupancy"))["count"] == 2
    await bob.connection.close()
    assert (await ann.find("Leave"))["presence"][0]["userID"] == "bob"
    await change(hub, OPEN)
    await ann.send("Presence", channel="room", reqID=1)
    assert (await ann.find("Presence"))["error"]["code"] == "not_found"


async def test_storing_can_be_switched_on_and_off_while_messages_flow(hub: RunningHub) -> None:
    listener, speaker = await hub.socket(), await hub.socket()
    before = (await listener.subscribe("news"))["channels"][0]["epoch"]
    await speaker.publish("news", {"json": 1}, store=True)
    await listener.expect("Publish")
    await change(hub, STORED)
    result = await speaker.publish("news", {"json": 2}, store=True)
    assert result["channelSerial"] == "1", "the stored channel counts for itself"
    reset = await listener.expect("ChannelReset")
    assert reset["epoch"] != before
    assert (await listener.expect("Publish"))["payload"] == {"json": 2}
    await speaker.send("History", channel="news", reqID=1, after="0")
    page = await speaker.find("History")
    assert [message["payload"]["json"] for message in page["messages"]] == [2]
    assert page["epoch"] == reset["epoch"]
    await change(hub, OPEN)
    await speaker.publish("news", {"json": 3})
    assert (await listener.expect("ChannelReset"))["epoch"] not in (before, reset["epoch"])
    assert (await listener.expect("Publish"))["payload"] == {"json": 3}
    await change(hub, STORED)
    result = await speaker.publish("news", {"json": 4}, store=True)
    assert result["channelSerial"] == "2", "and goes on where it was"
    assert (await listener.expect("ChannelReset"))["epoch"] == reset["epoch"]


async def test_nothing_acknowledged_is_lost_while_the_rules_change_under_load(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(session__messagesPerSecond=0)
    speaker = await hub.socket()
    acknowledged: list[dict[str, Any]] = []
    for turn in range(12):
        await change(hub, STORED if turn % 2 == 0 else PLAIN)
        items = [
            {
                "channel": "news",
                "payload": {"json": [turn, n]},
                "extra": {"store": True},
                "reqID": n,
            }
            for n in range(1, 21)
        ]
        await speaker.send("Publish", publishes=items)
        await change(hub, PLAIN if turn % 2 == 0 else STORED)
        acknowledged += (await speaker.find("Ack"))["published"]
    assert all(result["success"] for result in acknowledged), acknowledged
    await change(hub, STORED)
    await speaker.send("History", channel="news", reqID=1, after="0", limit=1000)
    page = await speaker.find("History")
    serials = [int(message["channelSerial"]) for message in page["messages"]]
    assert serials == list(range(1, len(serials) + 1))


async def test_switching_retain_on_loses_no_live_history(hub: RunningHub) -> None:
    listener, speaker = await hub.socket(), await hub.socket()
    await listener.subscribe("news")
    for number in (1, 2, 3):
        await speaker.publish("news", {"json": number})
        await listener.expect("Publish")
    await change(hub, msgspec.structs.replace(OPEN, retain=True))
    result = await speaker.publish("news", {"json": 4}, retain=True)
    assert result["channelSerial"] == "4"
    assert (await listener.expect("Publish"))["payload"] == {"json": 4}
    await speaker.send("History", channel="news", reqID=1, after="0")
    assert len((await speaker.find("History"))["messages"]) == 4


async def test_a_live_history_that_is_switched_on_knows_what_it_does_not_know(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=PLAIN))
    socket = await hub.socket()
    await socket.publish("news", {"json": 1})
    await change(hub, OPEN)
    await socket.publish("news", {"json": 2})
    await socket.send("History", channel="news", reqID=1, after="0")
    page = await socket.find("History")
    assert [message["payload"]["json"] for message in page["messages"]] == [2]
    assert page["recovered"] is False


async def test_forbidding_anonymity_ends_anonymous_sessions_that_do_not_say_who_they_are(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(session__authenticateTimeout=0.1)
    stranger, known = await hub.socket(), await hub.socket(token=hub.token("ann"))
    settings = HubSettings(allow_anonymous=False, default_rules="default")
    await hub.server.directory.put("acme", "hub", "", settings)
    code, reason = await stranger.closed()
    assert code == 4407
    assert reason.startswith("authentication_timeout")
    assert await may_publish(known, "news")


async def test_a_change_in_one_hub_touches_no_other(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("other"))
    socket = await hub.socket("other")
    await socket.subscribe("news")
    await change(hub, CLOSED)
    assert await may_publish(socket, "news")
    assert (await socket.find("Publish"))["channel"] == "news"
    assert not any(each["event"] == "Unsubscribe" for each in socket.backlog)
