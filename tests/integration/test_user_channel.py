"""The channel of a user, shared by all of the user's sessions."""

from __future__ import annotations

import pytest

from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import HubSettings

pytestmark = pytest.mark.spec("LIVE-14")


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(open_hub("acme", user_channel=True), open_hub("without"))


async def test_all_sessions_of_a_user_follow_their_channel_by_themselves(hub: RunningHub) -> None:
    sessions = [await hub.socket(token=hub.token("ann")) for _ in range(2)]
    later = await hub.socket()
    await later.send("Auth", token=hub.token("ann"))
    for session in [*sessions, later]:
        assert (await session.find("Subscribe"))["subscribedChannels"] == ["u:ann"]
    service = await hub.socket(token=hub.token(None, level=Level.SERVICE))
    assert (await service.publish("u:ann", {"json": "for ann"}))["success"]
    for session in [*sessions, later]:
        assert (await session.find("Publish"))["payload"] == {"json": "for ann"}


async def test_a_user_may_speak_to_their_own_sessions(hub: RunningHub) -> None:
    first, second = [await hub.socket(token=hub.token("ann")) for _ in range(2)]
    await second.find("Subscribe")
    assert (await first.publish("u:ann", {"json": "note to self"}))["success"]
    assert (await second.find("Publish"))["payload"] == {"json": "note to self"}


async def test_nobody_else_gets_in_even_where_all_channels_are_open(hub: RunningHub) -> None:
    for socket in (await hub.socket(), await hub.socket(token=hub.token("bob"))):
        refused = await socket.subscribe("u:ann")
        while not refused["failures"]:
            refused = await socket.find("Subscribe")
        assert refused["failures"][0]["error"]["code"] == "not_permitted"
        assert (await socket.publish("u:ann", {"json": 1}))["error"]["code"] == "not_permitted"
        await socket.send("History", channel="u:ann", reqID=1)
        assert (await socket.find("History"))["error"]["code"] == "not_permitted"


async def test_a_grant_opens_it_to_others(hub: RunningHub) -> None:
    helper = await hub.socket(token=hub.token("bob", grants=(Grant("u:*", subscribe=True),)))
    assert (await helper.find("Subscribe"))["subscribedChannels"] == ["u:bob"]
    assert (await helper.subscribe("u:ann"))["subscribedChannels"] == ["u:ann"]
    ann = await hub.socket(token=hub.token("ann"))
    assert (await ann.publish("u:ann", {"json": "seen by bob"}))["success"]
    assert (await helper.find("Publish"))["payload"] == {"json": "seen by bob"}


async def test_a_hub_that_does_not_enable_it_has_none(hub: RunningHub) -> None:
    socket = await hub.socket("without", token=hub.token("ann", hub="without"))
    await socket.send("Ping", reqID=1)
    assert (await socket.next())["event"] == "SessionRestore"
    assert (await socket.next())["event"] == "Pong"


async def test_who_becomes_another_user_follows_the_other_channel(hub: RunningHub) -> None:
    socket = await hub.socket(token=hub.token("ann"))
    await socket.find("Subscribe")
    await socket.send("Auth", token=hub.token("bob"))
    await socket.find("Auth")
    lost = await socket.find("Unsubscribe")
    assert [failure["channel"] for failure in lost["failures"]] == ["u:ann"]
    assert (await socket.find("Subscribe"))["subscribedChannels"] == ["u:bob"]


async def test_switching_it_off_takes_it_away_where_the_rules_do_not_open_it(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(
        open_hub(
            user_channel=True,
            namespaces={"u": OPEN.__class__()},
        )
    )
    socket = await hub.socket(token=hub.token("ann"))
    await socket.find("Subscribe")
    settings = HubSettings(allow_anonymous=True, default_rules="default")
    await hub.server.directory.put("acme", "hub", "", settings)
    lost = await socket.find("Unsubscribe")
    assert [failure["channel"] for failure in lost["failures"]] == ["u:ann"]


@pytest.mark.spec("OPS-03")
async def test_any_user_id_that_fits_into_a_name_has_a_channel(hub: RunningHub) -> None:
    for user in ("a:b", "ü ber", "x" * 253, "'; drop table"):
        socket = await hub.socket(token=hub.token(user))
        assert (await socket.find("Subscribe"))["subscribedChannels"] == [f"u:{user}"]


@pytest.mark.spec("OPS-03")
async def test_a_user_id_that_is_no_name_gets_a_clear_answer_and_a_session(
    hub: RunningHub,
) -> None:
    for user in ("*", "a#b"):
        socket = await hub.socket(token=hub.token(user))
        failed = await socket.find("Subscribe")
        assert failed["failures"][0]["error"]["code"] == "invalid_name"
        assert (await socket.subscribe("news"))["subscribedChannels"] == ["news"]
