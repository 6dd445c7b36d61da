"""Filters at every door: WebSocket, server-sent events, history over HTTP, the Python client and
the command line."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest

from harness.command import running_hubbub
from harness.filter_interpreter import passes
from harness.filter_samples import random_filter, random_message
from harness.invoking import invoke
from harness.raw import RawConnection
from harness.running_hub import OPEN, RunningHub, Socket, StartHub, open_hub
from hubbub.client import Client, ConnectionLost, Disconnected, Item, Options, connect
from hubbub.client import sync as synchronous
from hubbub.domain.errors import InvalidFilter, InvalidName, NotFound, NotPermitted
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import JSON, TEXT, Message
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules
from integration.test_sse import listening

pytestmark = pytest.mark.spec("CMD-06")

STORED = msgspec.structs.replace(OPEN, store=True, store_by_default=True)
EVEN = {"eq": {"payload.even": True}}
QUICK = Options(backoff_first=0.02, backoff_longest=0.05, connect_timeout=5)


@pytest.fixture
async def stored(start_hub: StartHub) -> RunningHub:
    return await start_hub(open_hub(rules=STORED), session__messagesPerSecond=0)


def _connect(hub: RunningHub, **options: Any) -> Client:
    return connect(f"ws://{hub.address}", hub="acme", **options)


async def _publish(hub: RunningHub, *numbers: int) -> None:
    async with _connect(hub) as client:
        for number in numbers:
            await client.publish("news", {"n": number, "even": number % 2 == 0})


# -- all doors give the same --------------------------------------------------------------------


def _as_item(message: Message) -> dict[str, Any]:
    attributes = message.attributes
    item: dict[str, Any] = {"channel": "news", "event": message.event, "reqID": 1}
    if message.content_type == JSON:
        item["payload"] = {"json": json.loads(message.payload)}
    elif message.content_type == TEXT:
        item["payload"] = {"text": message.payload.decode()}
    else:
        item |= {"payload": {"base64": "YQ=="}, "contentType": message.content_type}
    if attributes is not None:
        place = attributes.location or {}
        if "lat" in place and not isinstance(place["lat"], float):
            place = {}
        rarer = {
            "priority": attributes.priority,
            "conversationID": attributes.conversation_id,
            "relevantUntil": attributes.relevant_until,
            "headers": attributes.headers,
            "location": place or None,
        }
        item |= {name: value for name, value in rarer.items() if value is not None}
    return item


async def _stored(hub: RunningHub) -> list[Message]:
    found: list[Message] = []
    while True:
        after = found[-1].serial if found else 0
        query = HistoryQuery("acme", "news", 500, after=after)
        page = await hub.server.node.bus.ask(query)
        found += page.messages
        if not page.more:
            return found


def _written(definition: FilterDefinition) -> dict[str, Any]:
    return {
        name: value
        for name in ("template", "radius", "relevant", "condition")
        if (value := getattr(definition, name)) is not None
    }


async def _over_socket(socket: Socket) -> list[str]:
    """What came before the filter was unset."""
    await socket.send("UnsetFilter", reqID=2, name="f")
    found: list[str] = []
    while True:
        envelope = await socket.next()
        if envelope["event"] == "UnsetFilter":
            return found
        if envelope["event"] == "Publish":
            found.append(envelope["payload"]["msgID"])


async def _over_sse(connection: RawConnection, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        block = (await connection.until(b"\n\n")).decode()
        if "event:" not in block and "data: " in block:
            data = next(line for line in block.split("\n") if line.startswith("data: "))
            found.append(json.loads(data[6:])["msgID"])
    return found


async def _over_http(hub: RunningHub, wanted: dict[str, Any]) -> list[str]:
    found: list[str] = []
    after = "0"
    while True:
        query = {"after": after, "filter": json.dumps(wanted), "limit": "7"}
        path = "/v1/hubs/acme/channels/news/messages"
        async with hub.http.get(path, params=query) as answer:
            page = await answer.json()
        assert answer.status == 200, page
        found += [message["msgID"] for message in page["messages"]]
        if not page["more"]:
            return found
        after = page["next"]


async def test_all_doors_give_what_a_brute_force_check_gives(stored: RunningHub) -> None:
    random = Random(16)
    definitions = [random_filter(random) for _ in range(25)]
    async with AsyncExitStack() as stack:
        await _compare(stored, random, definitions, stack)


async def _compare(
    stored: RunningHub,
    random: Random,
    definitions: list[FilterDefinition],
    stack: AsyncExitStack,
) -> None:
    sockets, streams = [], []
    for definition in definitions:
        socket = await stored.socket()
        await socket.send("SetFilter", reqID=1, name="f", **_written(definition))
        await socket.expect("SetFilter")
        await socket.subscribe("news")
        sockets.append(socket)
        stream = await stack.enter_async_context(await RawConnection.open(stored.address))
        query = urlencode({"channel": "news", "filter": json.dumps(_written(definition))})
        head = f"GET /v1/hubs/acme/events?{query} HTTP/1.1\r\nHost: x\r\n\r\n"
        stream.send(head.encode())
        await stream.until(b"event: Subscribe\n")
        await stream.until(b"\n\n")
        streams.append(stream)
    witness, publisher = await stored.socket(), await stored.socket()
    await witness.subscribe("news")
    for _ in range(5):
        items = [_as_item(random_message(random)) for _ in range(40)]
        await publisher.send("Publish", publishes=items)
        results = (await publisher.expect("Ack"))["published"]
        assert [each for each in results if not each["success"]] == []
    for _ in range(200):
        await witness.find("Publish")
    messages = await _stored(stored)
    assert len(messages) == 200
    kept = 0
    for definition, socket, stream in zip(definitions, sockets, streams, strict=True):
        expected = [m.id for m in messages if passes(definition, m, 10**13)]
        kept += len(expected)
        assert await _over_socket(socket) == expected
        assert await _over_sse(stream, len(expected)) == expected
        assert await _over_http(stored, _written(definition)) == expected
    assert 100 < kept < 4900


# -- the doors one by one -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"filter": "{"}, "invalid_filter"),
        ({"filter": ""}, "invalid_filter"),
        ({"filter": "[]"}, "invalid_filter"),
        ({"filter": "{}"}, "incomplete_filter"),
        ({"filter": '{"condition": {"no": 1}}'}, "invalid_filter"),
        ({"filter": '{"radius": 5}'}, "incomplete_filter"),
        ({"where": "payload.price lt"}, "invalid_filter"),
        ({"where": "nothing eq 1"}, "invalid_filter"),
    ],
)
async def test_a_wrong_filter_in_a_url_is_refused_with_a_status(
    hub: RunningHub, query: dict[str, str], code: str
) -> None:
    for path in ("channels/news/messages", "events"):
        async with hub.http.get(f"/v1/hubs/acme/{path}", params={"channel": "news"} | query) as got:
            assert (got.status, (await got.json())["error"]["code"]) == (422, code)


async def test_where_in_a_url_is_a_condition_as_text(stored: RunningHub) -> None:
    await _publish(stored, 1, 2, 3, 4)
    query = {"where": ["payload.even = true", "payload.n > 2"]}
    path = "/v1/hubs/acme/channels/news/messages"
    async with stored.http.get(path, params=query) as answer:
        page = await answer.json()
    assert [each["payload"]["json"]["n"] for each in page["messages"]] == [4]


async def test_several_channels_of_one_stream_keep_their_positions(stored: RunningHub) -> None:
    query = urlencode([("channel", "news"), ("channel", "other"), ("where", "payload.even = true")])
    async with await RawConnection.open(stored.address) as stream:
        head = f"GET /v1/hubs/acme/events?{query} HTTP/1.1\r\nHost: x\r\n\r\n"
        stream.send(head.encode())
        await stream.until(b"event: Subscribe\n")
        await stream.until(b"\n\n")
        async with _connect(stored) as client:
            for number in range(1, 7):
                channel = "news" if number % 3 else "other"
                await client.publish(channel, {"n": number, "even": number % 2 == 0})
        found: list[dict[str, Any]] = []
        while len(found) < 3:
            block = (await stream.until(b"\n\n")).decode()
            if "data: " in block:
                data = next(line for line in block.split("\n") if line.startswith("data: "))
                found.append(json.loads(data[6:]))
    assert [each["payload"]["json"]["n"] for each in found] == [2, 4, 6]
    assert [each.get("previousSerial") for each in found] == ["0", None, "0"]


async def test_filters_of_wrong_types_are_malformed_over_the_socket(hub: RunningHub) -> None:
    socket = await hub.socket()
    payloads: list[dict[str, Any]] = [
        {"condition": {}},
        {"name": 1},
        {"name": "f", "condition": []},
        {"name": "f", "template": "x"},
        {"name": "f", "radius": True},
        {"name": "f", "relevant": 1},
        {"name": "f", "channel": 5},
    ]
    for payload in payloads:
        await socket.send("SetFilter", reqID=9, **payload)
        error = await socket.expect("Error")
        assert (error["reqID"], error["error"]["code"]) == (9, "malformed")
    await socket.send("ListFilters", reqID=1)
    assert await socket.expect("ListFilters") == {"reqID": 1, "filters": []}


# -- the Python client --------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_subscription_with_where_gets_what_passes_and_no_gaps(
    stored: RunningHub, encoding: Any
) -> None:
    await _publish(stored, 1, 2, 3)
    async with _connect(stored, options=Options(encoding=encoding)) as client:
        subscription = await client.subscribe("news", since=0, where="payload.even eq true")
        await _publish(stored, 4, 5, 7, 8)
        found = [await anext(subscription) for _ in range(3)]
        assert [message.data["n"] for message in found] == [2, 4, 8]
        assert [message.gap for message in found] == [None, None, None]
        assert [each.channel for each in await client.filters()] == ["news"]
        await subscription.unsubscribe()
        assert await client.filters() == ()


async def test_a_client_sets_lists_and_unsets_filters(stored: RunningHub) -> None:
    async with _connect(stored) as client:
        await client.set_filter("even", EVEN, channel="news")
        near = {"location": {"lat": 1, "lng": 2}}
        await client.set_filter("near", template=near, radius=5, channel="other")
        assert [each.name for each in await client.filters()] == ["even", "near"]
        assert [each.radius for each in await client.filters("other")] == [5]
        await _publish(stored, 1, 2, 3, 4, 5, 6)
        page = await client.history("news", where="payload.n gt 2")
        assert [message.data["n"] for message in page.messages] == [4, 6]
        found = [each.data["n"] async for each in client.read_history("news")]
        assert found == [2, 4, 6]
        await client.unset_filter("even")
        with pytest.raises(NotFound):
            await client.unset_filter("even")
        with pytest.raises(InvalidFilter):
            await client.set_filter("wrong", "payload.n is 3")
        with pytest.raises(InvalidFilter):
            client.subscribe("news", where={"no": 1})


@pytest.mark.spec("LIVE-15")
@pytest.mark.parametrize("restored", [True, False])
async def test_filters_of_a_client_survive_lost_connections(
    stored: RunningHub, restored: bool
) -> None:
    token = stored.token(grants=(Grant("*", publish=True, subscribe=True),))
    async with _connect(stored, token=token, options=QUICK) as client:
        await client.set_filter("large", "payload.n gt 1")
        subscription = await client.subscribe("news", where=EVEN)
        lost = asyncio.Event()
        client.on(Disconnected, lambda _: lost.set())
        if not restored:
            client._state.restore_key = "nothing"
        conversation = await client.conversation()
        await conversation.link.close()
        await lost.wait()
        await _publish(stored, 0, 1, 2, 3, 4)
        found = [await anext(subscription) for _ in range(2)]
        assert [message.data["n"] for message in found] == [2, 4]
        assert [message.gap for message in found] == [None, None]
        assert {each.name for each in await _filters(client)} == {"large", "hubbub.subscription"}


async def _filters(client: Client) -> tuple[FilterDefinition, ...]:
    try:
        return await client.filters()
    except ConnectionLost:
        return await client.filters()


async def test_the_synchronous_client_has_filters(stored: RunningHub) -> None:
    await _publish(stored, 1, 2)

    def work() -> list[int]:
        with synchronous.connect(f"ws://{stored.address}", hub="acme") as client:
            client.set_filter("even", EVEN)
            assert len(client.filters()) == 1
            subscription = client.subscribe("news", since=0, where="payload.n gt 0")
            return [next(subscription).data["n"]]

    assert await asyncio.to_thread(work) == [2]


# -- the command line ---------------------------------------------------------------------------


def _at(hub: RunningHub) -> dict[str, str]:
    return {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "acme"}


async def test_the_command_line_shows_what_passes(stored: RunningHub) -> None:
    await _publish(stored, 1, 2, 3, 4)
    where = ("--where", "payload.even eq true and payload.n lt 4", "--json")
    shown = await invoke("history", "news", *where, **_at(stored))
    assert [json.loads(line)["payload"]["json"]["n"] for line in shown.out.splitlines()] == [2]
    arguments = ("subscribe", "news", "--from-start", "--count", "1", *where)
    async with running_hubbub(*arguments, env=_at(stored)) as running:
        assert json.loads(await running.line('"n"'))["payload"]["json"]["n"] == 2


@pytest.mark.spec("LIVE-19")
@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_a_filter_holds_for_all_channels_that_match_a_pattern(
    stored: RunningHub, encoding: Any
) -> None:
    async with _connect(stored, options=Options(encoding=encoding)) as client:
        subscription = await client.subscribe("room:*", "hall", where="payload.n gt 1")
        for channel in ("room:1", "hall", "room:2"):
            await client.publish_many([Item(channel, {"n": n}) for n in range(4)])
        found = [await anext(subscription) for _ in range(6)]
        assert [(each.channel, each.data["n"]) for each in found] == [
            (channel, n) for channel in ("room:1", "hall", "room:2") for n in (2, 3)
        ]
        assert not any(each.gap for each in found)
        assert {each.channel for each in await client.filters()} == {"room:*", "hall"}
        page = await client.history("room:1")
        assert [each.data["n"] for each in page.messages] == [2, 3]
        await subscription.unsubscribe()
        assert await client.filters() == ()


@pytest.mark.spec("LIVE-19")
@pytest.mark.parametrize("restored", [True, False])
async def test_a_filter_of_a_pattern_comes_back_after_a_lost_connection(
    stored: RunningHub, restored: bool
) -> None:
    token = stored.token(grants=(Grant("*", publish=True, subscribe=True),))
    async with _connect(stored, token=token, options=QUICK) as client, _connect(stored) as speaker:
        subscription = await client.subscribe("room:*", where=EVEN)
        await speaker.publish("room:1", {"n": 0, "even": True}, store=True)
        assert (await anext(subscription)).data["n"] == 0
        lost = asyncio.Event()
        client.on(Disconnected, lambda _: lost.set())
        if not restored:
            client._state.restore_key = "nothing"
        await (await client.conversation()).link.close()
        await lost.wait()
        for channel in ("room:1", "room:born"):
            for n in (1, 2):
                await speaker.publish(channel, {"n": n, "even": n % 2 == 0}, store=True)
        found = [await anext(subscription) for _ in range(2)]
        assert {(each.channel, each.data["n"]) for each in found} == {
            ("room:1", 2),
            ("room:born", 2),
        }


@pytest.mark.spec("LIVE-19")
async def test_a_filter_for_a_pattern_that_one_may_not_follow_is_refused(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=Rules()))
    async with _connect(hub, token=hub.token()) as client:
        with pytest.raises(NotPermitted):
            await client.set_filter("mine", "payload.n gt 1", channel="room:*")
        for name in ("*" * 300, "room:\n*"):
            with pytest.raises(InvalidName):
                await client.set_filter("mine", "payload.n gt 1", channel=name)


@pytest.mark.spec("LIVE-19")
async def test_the_command_line_and_streams_filter_patterns(stored: RunningHub) -> None:
    arguments = ("subscribe", "room:*", "--where", "payload.n gt 1", "--json", "--count", "2")
    async with (
        listening(stored, pattern="room:*", where="payload.n gt 1") as stream,
        running_hubbub(*arguments, env=_at(stored)) as running,
    ):
        await running.remark("subscribed to room:*")
        async with _connect(stored) as client:
            for channel in ("room:1", "room:2"):
                await client.publish_many([Item(channel, {"n": n}) for n in (1, 2)])
        for channel in ("room:1", "room:2"):
            shown = json.loads(await running.line('"n"'))
            assert (shown["channel"], shown["payload"]["json"]["n"]) == (channel, 2)
        found: list[tuple[str, int]] = []
        while len(found) < 2:
            event = await stream.next()
            if event.name == "message":
                found.append((event.data["channel"], event.data["payload"]["json"]["n"]))
        assert found == [("room:1", 2), ("room:2", 2)]


async def test_a_mistake_in_a_condition_is_pointed_at(hub: RunningHub) -> None:
    wrong = await invoke("subscribe", "news", "--where", "payload.price lt ten", **_at(hub))
    assert wrong.code == 2
    assert "character 18: expected a number, not 'ten'" in wrong.err
    assert "  payload.price lt ten\n" + " " * 19 + "^" in wrong.err
    unknown = await invoke("history", "news", "--where", "paylod.a eq 1", **_at(hub))
    assert unknown.code == 2
    assert "paylod" in unknown.err
