"""Who may do what, over the wire: patterns, and names that try to get out of their hub."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import ChannelSettings, HubConfiguration, HubSettings, Rules

PUBLIC = Rules(public=True, allow_anonymous=True, live_history=True)
shared = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.spec("LIVE-07")
@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        ("room:*", ["room:1", "room:1:2"], ["room", "Room:1", "xroom:1", "rooms:1"]),
        ("room:#", ["room:1"], ["room:1:2", "room", "room:"]),
        ("#:in", ["a:in"], ["in", "a:b:in"]),
        ("*", ["anything", "u:ann", "a:b:c"], []),
        ("exact", ["exact"], ["exact:1", "exac", "EXACT", "exact "]),
        ("a.c", ["a.c"], ["abc"]),
        ("", [], ["a"]),
    ],
)
async def test_a_grant_opens_what_its_pattern_matches_and_nothing_else(
    start_hub: StartHub, pattern: str, allowed: list[str], refused: list[str]
) -> None:
    hub = await start_hub(open_hub(rules=Rules()))
    socket = await hub.socket(token=hub.token(grants=(Grant(pattern, True, True),)))
    answer = await socket.subscribe(*allowed, *refused)
    assert answer["subscribedChannels"] == allowed
    assert [each["channel"] for each in answer.get("failures", [])] == refused
    for channel in allowed:
        assert (await socket.publish(channel, {"json": 1}))["success"]
    for channel in refused:
        error = (await socket.publish(channel, {"json": 1}))["error"]
        assert error["code"] == "not_permitted"


@pytest.mark.spec("LIVE-07", "OPS-03")
@pytest.mark.parametrize(
    "name", ["*", "room:*", "#", "a#b", "", "a\nb", "a\x00", "\x7f", "x" * 256]
)
@shared
async def test_a_pattern_or_a_broken_name_is_no_channel(shared_hub: RunningHub, name: str) -> None:
    """Not even for a service, which may do everything in its hub."""
    token = shared_hub.token("svc", level=Level.SERVICE)
    socket = await shared_hub.socket(token=token)
    answer = await socket.subscribe(name)
    if "*" in name or "#" in name:
        assert answer["subscribedChannels"] == []
        assert answer["patterns"][0]["pattern"] == name
    else:
        assert answer["failures"][0]["error"]["code"] == "invalid_name"
    assert (await socket.publish(name, {"json": 1}))["error"]["code"] == "invalid_name"
    await socket.send("History", channel=name, reqID=1)
    assert (await socket.find("History"))["error"]["code"] == "invalid_name"
    path = f"/v1/hubs/acme/channels/{quote(name, safe='')}/messages"
    async with shared_hub.http.get(path) as history:
        assert history.status in (400, 404)
    await socket.connection.close()


@pytest.mark.spec("LIVE-07", "OPS-02")
async def test_no_spelling_escapes_a_namespace(start_hub: StartHub) -> None:
    """Whatever it looks like, a name is either in the private namespace or another channel."""
    hub = await start_hub(open_hub(namespaces={"private": Rules()}))
    insider = await hub.socket(token=hub.token(grants=(Grant("private:a", True, True),)))
    outsider = await hub.socket()
    inside = ["private:a", "private:", "private:a/../../public", "private:\u202ea"]
    outside = ["Private:a", "private%3Aa", " private:a", "prıvate:a", "private\uff1aa", "private"]
    answer = await outsider.subscribe(*inside, *outside)
    assert [each["channel"] for each in answer["failures"]] == inside
    await insider.publish("private:a", {"text": "secret"})
    await outsider.send("Ping", reqID=1)
    while (said := await outsider.next())["event"] != "Pong":
        assert "secret" not in str(said)


@pytest.mark.spec("OPS-03", "OPS-02")
async def test_two_hubs_with_the_same_names_never_hear_each_other(start_hub: StartHub) -> None:
    everything = Rules(
        public=True, client_publish=True, allow_anonymous=True, store=True, retain=True,
        presence=True, occupancy=True,
    )  # fmt: skip
    hub = await start_hub(open_hub("one", everything), open_hub("two", everything))
    one = await hub.socket("one", token=hub.token("ann", "one"))
    two = await hub.socket("two", token=hub.token("bob", "two"))
    for socket in (one, two):
        await socket.subscribe("news")
        presence = await socket.find("Presence")
        assert len(presence["presence"]) == 1
    await one.publish("news", {"text": "only one"}, store=True, retain=True)
    assert (await two.publish("news", {"text": "only two"}, store=True))["channelSerial"] == "1"
    heard = await two.find("Publish")
    assert heard["payload"] == {"text": "only two"}
    late = await hub.socket("two")
    await late.subscribe("news")
    await late.send("History", channel="news", reqID=1)
    page = await late.find("History")
    assert [each["payload"] for each in page["messages"]] == [{"text": "only two"}]
    token = hub.token("ann", "one")
    for path in ("messages", "presence"):
        url = f"/v1/hubs/two/channels/news/{path}?token={token}"
        async with hub.http.get(url) as answer:
            assert answer.status == 401


@pytest.mark.spec("LIVE-07", "LIVE-12")
async def test_publish_permission_overrides_client_publish_off(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PUBLIC))
    socket = await hub.socket(token=hub.token(grants=(Grant("a", publish=True),)))
    assert (await socket.publish("a", {"json": 1}))["success"]
    assert (await socket.publish("b", {"json": 1}))["error"]["code"] == "not_permitted"


@pytest.mark.spec("OPS-02")
async def test_a_hub_without_settings_is_closed_to_everyone_without_a_token(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(HubConfiguration("acme"))
    async with hub.http.get("/v1/hubs/acme/channels/a/messages") as answer:
        assert answer.status == 401
    socket = await hub.raw_socket()
    info = await socket.expect("SessionInfo")
    assert info["hubAllowAnonymous"] is False
    assert (await socket.subscribe("a"))["failures"][0]["error"]["code"] == "not_authenticated"
    known = await hub.socket(token=hub.token())
    assert (await known.subscribe("a"))["failures"][0]["error"]["code"] == "not_permitted"
    assert (await known.publish("a", {"json": 1}))["error"]["code"] == "not_permitted"


@pytest.mark.spec("OPS-02")
async def test_allowing_anonymous_sessions_opens_no_private_channel(start_hub: StartHub) -> None:
    hub = await start_hub(HubConfiguration("acme", HubSettings(allow_anonymous=True)))
    socket = await hub.socket()
    assert (await socket.subscribe("a"))["failures"][0]["error"]["code"] == "not_permitted"
    assert (await socket.publish("a", {"json": 1}))["error"]["code"] == "not_permitted"


@pytest.mark.spec("OPS-02", "LIVE-11")
async def test_what_the_configuration_no_longer_says_no_longer_holds(
    start_server: StartHub,
) -> None:
    """Rules that were taken out of the file must not live on in the store."""
    before = HubConfiguration(
        "acme",
        HubSettings(allow_anonymous=True),
        rules={"open": PUBLIC},
        namespaces={"news": "open"},
        channels={"lobby": ChannelSettings(rules="open")},
    )
    first = await start_server(before)
    socket = await first.socket()
    assert len((await socket.subscribe("news:1", "lobby"))["subscribedChannels"]) == 2
    await socket.connection.close()
    await first.server.stop()
    second = await start_server(HubConfiguration("acme", HubSettings(allow_anonymous=True)))
    socket = await second.socket()
    assert len((await socket.subscribe("news:1", "lobby"))["failures"]) == 2


@pytest.mark.spec("LIVE-14")
async def test_a_user_channel_is_closed_to_others_even_where_all_is_public(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(user_channel=True))
    bob = await hub.socket(token=hub.token("bob"))
    await bob.find("Subscribe")  # to its own
    answer = await bob.subscribe("u:ann")
    assert answer["failures"][0]["error"]["code"] == "not_permitted"
    assert (await bob.publish("u:ann", {"json": 1}))["error"]["code"] == "not_permitted"
