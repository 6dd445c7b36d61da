"""Patterns at every door: WebSocket in both encodings, event streams, the client, the command
line."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Literal

import msgspec
import pytest

from harness.command import running_hubbub
from harness.invoking import invoke
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import until
from hubbub.client import (
    AccessLost,
    Client,
    Connected,
    Gap,
    Message,
    Options,
    Subscription,
    connect,
)
from hubbub.domain.errors import BadRequest, NotPermitted
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules
from integration.test_owned_channels import decide
from integration.test_sse import Stream, listening, publish

pytestmark = pytest.mark.spec("LIVE-19")

QUICK = Options(backoff_first=0.02, backoff_longest=0.05, connect_timeout=5)
KEPT = msgspec.structs.replace(OPEN, store=True)


def client_of(
    hub: RunningHub, token: str | None = None, encoding: Literal["json", "protobuf"] = "protobuf"
) -> Client:
    options = msgspec.structs.replace(QUICK, encoding=encoding)
    return connect(f"ws://{hub.address}", hub="acme", token=token, options=options)


def cut(hub: RunningHub, client: Client) -> None:
    """Break the client's connection, as a network does."""
    assert client.session is not None
    session = hub.server.node.hub("acme").sessions[client.session.session_id]
    session.connection.transport.abort()  # type: ignore[attr-defined]


async def read(subscription: Subscription, count: int) -> dict[str, list[object]]:
    """The payloads of so many messages, by channel."""
    found: dict[str, list[object]] = {}
    for _ in range(count):
        message = await asyncio.wait_for(anext(subscription), 10)
        found.setdefault(message.channel, []).append(message.data)
    return found


# -- the client -----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_client_follows_what_matches_and_what_comes_into_being(
    hub: RunningHub, encoding: Literal["json", "protobuf"]
) -> None:
    async with client_of(hub, encoding=encoding) as client, client_of(hub) as speaker:
        await speaker.publish("room:1", "before")
        async with client.subscribe("room:#", "lobby") as subscription:
            for channel in ("room:1", "room:2", "room:1:side", "lobby"):
                await speaker.publish(channel, "now")
            assert await read(subscription, 3) == {
                "room:1": ["now"],
                "room:2": ["now"],
                "lobby": ["now"],
            }
            assert set(subscription.channels) == {"room:#", "lobby", "room:1", "room:2"}
        await speaker.publish("room:3", "unheard")
        assert subscription.dropped == 0


async def test_what_matches_is_not_asked_for_again(start_hub: StartHub) -> None:
    """Without a history, asking again for a channel that is followed would tear a gap."""
    hub = await start_hub(open_hub(rules=msgspec.structs.replace(OPEN, live_history=False)))
    async with client_of(hub) as client, client_of(hub) as speaker:
        for number in range(50):
            await speaker.publish(f"room:{number}", "before")
        subscription = await client.subscribe("room:*", on_gap="raise")
        for number in range(50):
            await speaker.publish(f"room:{number}", "now")
        assert len(await read(subscription, 50)) == 50


async def test_a_lost_connection_loses_nothing_of_what_matches_nor_of_what_was_born_meanwhile(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=KEPT, session_restore=False))
    async with client_of(hub) as client, client_of(hub) as speaker:
        subscription = await client.subscribe("room:*")
        await speaker.publish("room:1", 1, store=True)
        assert await read(subscription, 1) == {"room:1": [1]}
        again = asyncio.Event()
        client.on(Connected, lambda _: again.set())
        cut(hub, client)
        await speaker.publish("room:1", 2, store=True)
        await speaker.publish("room:2", "born", store=True)
        await again.wait()
        await speaker.publish("room:2", "after", store=True)
        assert await read(subscription, 3) == {"room:1": [2], "room:2": ["born", "after"]}


@pytest.mark.spec("LIVE-15")
async def test_a_restored_session_has_its_patterns_again(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=KEPT, session_restore=True))
    token = hub.token("ann")
    async with client_of(hub, token) as client, client_of(hub) as speaker:
        subscription = await client.subscribe("room:*", "lobby")
        await speaker.publish("room:1", 1, store=True)
        await speaker.publish("room:quiet", 1, store=True)
        await read(subscription, 2)
        again: asyncio.Queue[Connected] = asyncio.Queue()
        client.on(Connected, again.put_nowait)
        cut(hub, client)
        await speaker.publish("room:1", 2, store=True)
        await speaker.publish("room:2", "born", store=True)
        assert (await again.get()).restored
        await speaker.publish("room:quiet", 2, store=True)
        await speaker.publish("room:3", "late", store=True)
        assert await read(subscription, 4) == {
            "room:1": [2],
            "room:2": ["born"],
            "room:quiet": [2],
            "room:3": ["late"],
        }


async def test_since_is_a_time_for_a_pattern(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    async with client_of(hub) as client, client_of(hub) as speaker:
        await speaker.publish("room:1", "old", store=True)
        with pytest.raises(BadRequest, match="give a time"):
            client.subscribe("room:*", since=3)
        subscription = await client.subscribe("room:*", since=datetime.fromtimestamp(0, UTC))
        assert (await read(subscription, 1)) == {"room:1": ["old"]}


async def test_refusals_and_losses_are_told_by_name(start_hub: StartHub) -> None:
    closed = Rules()
    hub = await start_hub(
        open_hub(namespaces={"club": closed, "room": OPEN}, default_rules="of-club")
    )
    async with client_of(hub) as client:
        with pytest.raises(NotPermitted, match=r"'club:\*'"):
            await client.subscribe("club:*")
        subscription = await client.subscribe("room:*")
        lost: asyncio.Queue[AccessLost] = asyncio.Queue()
        client.on(AccessLost, lost.put_nowait)
        await hub.server.directory.put("acme", "rules", "of-room", closed)
        assert (await lost.get()).channel == "room:*"
        with pytest.raises(NotPermitted):
            await anext(subscription)


async def test_a_channel_over_the_bound_is_a_gap_that_names_it(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), session__maxMatches=2)
    async with client_of(hub) as client, client_of(hub) as speaker:
        subscription = await client.subscribe("room:*")
        for number in range(4):
            await speaker.publish(f"room:{number}", number)
        gaps = []
        async for event in subscription.events():
            if isinstance(event, Gap):
                gaps.append((event.channel, "session.maxMatches" in event.reason))
                break
            assert isinstance(event, Message)
        assert gaps == [("room:2", True)]


# -- event streams --------------------------------------------------------------------------------


async def messages(stream: Stream, count: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    while len(found) < count:
        event = await stream.next()
        if event.name == "message":
            found.append((event.data["channel"], event.data["payload"]["json"]))
    return found


async def test_an_event_stream_follows_a_pattern_and_resumes_by_channel(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    await publish(hub, "room:old", 0, query="?store=true")
    async with listening(hub, "lobby", pattern="room:#") as stream:
        confirmed = await stream.next()
        assert confirmed.data["patterns"] == [
            {"pattern": "room:#", "matches": 1, "recovered": True}
        ]
        assert confirmed.data["subscribedChannels"] == ["lobby"]
        matched = await stream.next()
        assert (matched.name, matched.data["subscribedChannels"]) == ("Subscribe", ["room:old"])
        for channel in ("room:1", "room:2", "lobby"):
            await publish(hub, channel, 1, query="?store=true")
        assert await messages(stream, 3) == [("room:1", 1), ("room:2", 1), ("lobby", 1)]
    await publish(hub, "room:1", 2, query="?store=true")
    await publish(hub, "room:born", 1, query="?store=true")
    await publish(hub, "lobby", 2, query="?store=true")
    async with listening(hub, "lobby", pattern="room:#", last_id=stream.last_id) as again:
        missed = await messages(again, 3)
        assert sorted(missed) == [("lobby", 2), ("room:1", 2), ("room:born", 1)]
        await publish(hub, "room:2", 2, query="?store=true")
        assert await messages(again, 1) == [("room:2", 2)]


async def test_an_event_stream_of_many_channels_keeps_its_ids_short(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    async with listening(hub, pattern="room:*") as stream:
        assert (await stream.next()).name == "Subscribe"
        for number in range(60):
            await publish(hub, f"room:{number}", number, query="?store=true")
        assert len(await messages(stream, 60)) == 60
        assert len(stream.last_id) < 600
    await publish(hub, "room:0", 100, query="?store=true")
    async with listening(hub, pattern="room:*", last_id=stream.last_id) as again:
        found: list[tuple[str, int]] = []
        while ("room:0", 100) not in found:
            found += await messages(again, 1)


@pytest.mark.parametrize(
    ("pattern", "status", "code"),
    [("club:*", 403, "not_permitted"), ("a" * 256 + "*", 400, "invalid_name")],
)
async def test_a_stream_of_a_pattern_is_refused_before_it_begins(
    start_hub: StartHub, pattern: str, status: int, code: str
) -> None:
    hub = await start_hub(open_hub(namespaces={"club": Rules()}))
    async with hub.http.get("/v1/hubs/acme/events", params={"pattern": pattern}) as answer:
        assert answer.status == status
        assert (await answer.json())["error"]["code"] == code


async def test_a_stream_whose_pattern_matches_too_much_is_refused_before_it_begins(
    start_hub: StartHub,
) -> None:
    """By a status, after which no browser tries again."""
    hub = await start_hub(open_hub(rules=KEPT), session__maxMatches=2, session__maxPatterns=1)
    for number in range(3):
        await publish(hub, f"room:{number}", number, query="?store=true")
    many = {"pattern": "room:*"}
    async with hub.http.get("/v1/hubs/acme/events", params=many) as answer:
        assert answer.status == 429
        assert (await answer.json())["error"]["code"] == "too_many_matches"
    async with listening(hub, "lobby", **many) as stream:
        (failure,) = (await stream.next()).data["failures"]
        assert failure["error"]["code"] == "too_many_matches"
    both = [("pattern", "room:*"), ("pattern", "hall:*")]
    async with hub.http.get("/v1/hubs/acme/events", params=both) as answer:
        assert answer.status == 200


async def test_a_stream_that_may_have_no_pattern_is_not_told_to_come_again(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(), session__maxPatterns=0)
    async with hub.http.get("/v1/hubs/acme/events", params={"pattern": "room:*"}) as answer:
        said = (await answer.content.read()).decode()
    assert '"code":"too_many_matches"' in said
    assert '"reconnect":true' not in said


async def test_a_grant_opens_the_pattern_that_it_covers(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces={"club": Rules()}))
    token = hub.token("ann", grants=(Grant("club:*", publish=True, subscribe=True),))
    async with listening(hub, pattern="club:a#", token=token) as stream:
        assert (await stream.next()).data["patterns"][0]["pattern"] == "club:a#"


# -- the command line -----------------------------------------------------------------------------


@pytest.mark.spec("CMD-02")
async def test_a_pattern_reaches_a_channel_with_an_owner_while_one_takes_part(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    directory, store = hub.server.directory, hub.server.store
    await decide(directory, store, "ann")
    async with client_of(hub, hub.token("ann")) as ann, client_of(hub, hub.token("bob")) as bob:
        await ann.publish("club", "hidden")
        async with bob.subscribe("cl*") as subscription:
            assert set(subscription.channels) == {"cl*"}
            await ann.publish("club", "hidden")
            await decide(directory, store, "ann", "bob")
            await until(lambda: "club" in subscription.channels)
            await ann.publish("club", "seen")
            assert await read(subscription, 1) == {"club": ["seen"]}
            await decide(directory, store, "ann")
            await until(lambda: "club" not in subscription.channels)
            await ann.publish("club", "hidden")
            await ann.publish("clear", "last")
            assert await read(subscription, 1) == {"clear": ["last"]}


async def test_the_command_line_follows_a_pattern(hub: RunningHub) -> None:
    env = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "acme"}
    async with running_hubbub("subscribe", "room:*", env=env) as subscriber:
        await subscriber.remark("subscribed to room:*")
        for channel in ("room:1", "lobby", "room:2"):
            published = await invoke("publish", channel, "hello", **env)
            assert published.code == 0
        assert (await subscriber.line()).endswith("room:1  #1  hello")
        assert (await subscriber.line()).endswith("room:2  #1  hello")
        await subscriber.stop()
    refused = await invoke("subscribe", "room:*", "--since", "3", **env)
    assert refused.code != 0
    assert "give a time" in refused.err
