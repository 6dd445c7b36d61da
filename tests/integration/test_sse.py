"""Server-sent events over real sockets: resuming without loss, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from harness.clock import FakeClock
from harness.raw import RawConnection
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Rules

shared = pytest.mark.asyncio(loop_scope="module")
KEPT = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)


class Event(NamedTuple):
    name: str
    id: str
    data: dict[str, Any]


class Stream:
    """Reads a stream as a browser's EventSource does."""

    def __init__(self, connection: RawConnection, head: str) -> None:
        self._connection = connection
        self.head = head
        self.retry = ""
        self.comments = 0
        self.last_id = ""

    async def next(self) -> Event:
        name, data = "message", ""
        while True:
            block = (await self._connection.until(b"\n\n")).decode()
            for line in block.split("\n"):
                field, _, value = line.partition(": ")
                if field == "id":
                    self.last_id = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data += value
                elif field == "retry":
                    self.retry = value
                elif line.startswith(":"):
                    self.comments += 1
            if data:
                return Event(name, self.last_id, json.loads(data))

    async def comment(self) -> bytes:
        return await self._connection.until(b"\n\n")

    async def rest(self) -> bytes:
        return await self._connection.rest()

    async def numbers(self, count: int) -> list[int]:
        """The payloads of so many messages; other events are passed over."""
        found: list[int] = []
        while len(found) < count:
            event = await self.next()
            if event.name == "message":
                found.append(event.data["payload"]["json"])
        return found


@asynccontextmanager
async def listening(
    hub: RunningHub, *channels: str, last_id: str | None = None, **query: str
) -> AsyncIterator[Stream]:
    """Greeted; the next event is the confirmation."""
    async with await RawConnection.open(hub.address) as connection:
        names = urlencode([("channel", name) for name in channels] + list(query.items()))
        extra = [f"Last-Event-ID: {last_id}"] if last_id is not None else []
        connection.request(f"GET /v1/hubs/acme/events?{names}", *extra)
        head = (await connection.until(b"\r\n\r\n")).decode("latin-1")
        assert head.startswith("HTTP/1.1 200 "), head
        stream = Stream(connection, head)
        assert (await stream.next()).name == "SessionInfo"
        yield stream


async def publish(hub: RunningHub, channel: str, *numbers: int, query: str = "") -> None:
    for number in numbers:
        path = f"/v1/hubs/acme/channels/{channel}/messages{query}"
        async with hub.http.post(path, json=number) as answer:
            assert answer.status == 200


# -- documents ------------------------------------------------------------------------------------


async def patch(hub: RunningHub, channel: str, value: int) -> None:
    path = f"/v1/hubs/acme/channels/{channel}/document"
    body = json.dumps([{"op": "add", "path": "/n", "value": value}])
    headers = {"Content-Type": "application/json-patch+json"}
    async with hub.http.patch(path, data=body, headers=headers) as answer:
        assert answer.status == 200


async def told(stream: Stream, count: int) -> list[tuple[str, int]]:
    """What came of messages and of the document, so many of both together."""
    found: list[tuple[str, int]] = []
    while len(found) < count:
        event = await stream.next()
        if event.name == "message":
            found.append(("message", event.data["payload"]["json"]))
        elif event.name.startswith("Document"):
            found.append((event.name, event.data["version"]))
    return found


@pytest.mark.spec("DOC-03", "ids of SSE carry the version: a stream goes on where it ended")
@pytest.mark.parametrize("beside", [(), ("news",)], ids=["alone", "beside another channel"])
async def test_a_stream_resumes_in_the_document_where_it_ended(
    start_hub: StartHub, beside: tuple[str, ...]
) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    await patch(hub, "doc:list", 1)
    async with listening(hub, "doc:list", *beside) as stream:
        assert await told(stream, 1) == [("DocumentInfo", 1)]
        await patch(hub, "doc:list", 2)
        assert await told(stream, 1) == [("DocumentUpdated", 2)]
        await publish(hub, "doc:list", 10, query="?store=true")
        assert await told(stream, 1) == [("message", 10)]
    for value in (3, 4):
        await patch(hub, "doc:list", value)
    await publish(hub, "doc:list", 11, query="?store=true")
    async with listening(hub, "doc:list", *beside, last_id=stream.last_id) as again:
        assert await told(again, 4) == [
            ("message", 11),
            ("DocumentInfo", 4),
            ("DocumentUpdated", 3),
            ("DocumentUpdated", 4),
        ]
        await patch(hub, "doc:list", 5)
        assert await told(again, 1) == [("DocumentUpdated", 5)]
    async with listening(hub, "doc:list", *beside, last_id=again.last_id) as third:
        assert await told(third, 1) == [("DocumentInfo", 5)]
        await patch(hub, "doc:list", 6)
        assert await told(third, 1) == [("DocumentUpdated", 6)]


# -- the stream ---------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-02")
@shared
async def test_a_stream_begins_with_retry_and_the_confirmation_then_brings_messages(
    shared_hub: RunningHub,
) -> None:
    async with listening(shared_hub, "s:first") as stream:
        assert "Content-Type: text/event-stream\r\n" in stream.head
        assert "Cache-Control: no-cache\r\n" in stream.head
        confirmed = await stream.next()
        assert stream.retry == "2000"
        assert confirmed.name == "Subscribe"
        assert confirmed.id
        assert confirmed.data["subscribedChannels"] == ["s:first"]
        path = "/v1/hubs/acme/channels/s:first/messages?event=greeting"
        async with shared_hub.http.post(path, data="line\nbreak\r\n\r\ndata: x") as answer:
            sent = await answer.json()
        event = await stream.next()
        assert event.name == "message"
        assert event.id != confirmed.id
        assert event.data["msgID"] == sent["msgID"]
        assert event.data["event"] == "greeting"
        assert event.data["payload"] == {"text": "line\nbreak\r\n\r\ndata: x"}


@pytest.mark.spec("LIVE-02")
@shared
async def test_subscribers_of_one_channel_get_the_same_ids(shared_hub: RunningHub) -> None:
    async with listening(shared_hub, "s:ids") as one, listening(shared_hub, "s:ids") as other:
        await one.next()
        await other.next()
        await publish(shared_hub, "s:ids", 1, 2)
        assert [await one.next(), await one.next()] == [await other.next(), await other.next()]


@pytest.mark.spec("LIVE-02")
@pytest.mark.parametrize("in_query", [False, True])
@shared
async def test_a_stream_resumes_after_its_last_id_without_loss_or_repetition(
    shared_hub: RunningHub, in_query: bool
) -> None:
    channel = f"s:resume{in_query}"
    async with listening(shared_hub, channel) as stream:
        await stream.next()
        await publish(shared_hub, channel, 1, 2)
        assert await stream.numbers(1) == [1]
        last_id = stream.last_id
    await publish(shared_hub, channel, 3, 4)
    again = {"lastEventID": last_id} if in_query else {}
    async with listening(
        shared_hub, channel, last_id=None if in_query else last_id, **again
    ) as stream:
        confirmed = await stream.next()
        assert confirmed.data["channels"][0]["recovered"] is True
        assert await stream.numbers(3) == [2, 3, 4]
        await publish(shared_hub, channel, 5)
        assert await stream.numbers(1) == [5]


@pytest.mark.spec("LIVE-02")
@shared
async def test_a_stream_that_heard_nothing_yet_resumes_from_its_beginning(
    shared_hub: RunningHub,
) -> None:
    await publish(shared_hub, "s:quiet", 1)
    async with listening(shared_hub, "s:quiet") as stream:
        last_id = (await stream.next()).id
    await publish(shared_hub, "s:quiet", 2)
    async with listening(shared_hub, "s:quiet", last_id=last_id) as stream:
        assert await stream.numbers(1) == [2]


@pytest.mark.spec("LIVE-02")
@shared
async def test_a_stream_of_several_channels_resumes_each_where_it_was(
    shared_hub: RunningHub,
) -> None:
    async with listening(shared_hub, "s:a", "s:b", "s:c") as stream:
        await stream.next()
        await publish(shared_hub, "s:a", 1, 2)
        await publish(shared_hub, "s:b", 101)
        assert await stream.numbers(3) == [1, 2, 101]
        last_id = stream.last_id
    await publish(shared_hub, "s:a", 3)
    await publish(shared_hub, "s:b", 102, 103)
    await publish(shared_hub, "s:c", 201)
    async with listening(shared_hub, "s:a", "s:b", "s:c", last_id=last_id) as stream:
        await stream.next()
        assert sorted(await stream.numbers(4)) == [3, 102, 103, 201]
        last_id = stream.last_id
    async with listening(shared_hub, "s:c", "s:a", "s:b", last_id=last_id) as stream:
        await stream.next()
        await publish(shared_hub, "s:b", 104)
        assert await stream.numbers(1) == [104]


@pytest.mark.spec("LIVE-02", "LIVE-13")
async def test_a_long_absence_is_made_up_for_from_the_store_while_publishing_goes_on(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=KEPT))
    async with listening(hub, "a", "b") as stream:
        last_id = (await stream.next()).id
    batch = [
        {"channel": channel, "payload": {"json": number}, "extra": {"store": True}}
        for number in range(700)
        for channel in ("a", "b")
    ]
    for start in range(0, 1000, 500):
        part = {"publishes": batch[start : start + 500]}
        async with hub.http.post("/v1/hubs/acme/messages", json=part) as answer:
            assert answer.status == 200

    async def publish_the_rest() -> None:
        async with hub.http.post("/v1/hubs/acme/messages", json={"publishes": batch[1000:]}) as got:
            assert got.status == 200

    async with listening(hub, "a", "b", last_id=last_id) as stream:
        publishing = asyncio.create_task(publish_the_rest())
        heard: dict[str, list[int]] = {"a": [], "b": []}
        while sum(map(len, heard.values())) < 1400:
            event = await stream.next()
            if event.name == "message":
                heard[event.data["channel"]].append(event.data["payload"]["json"])
        await publishing
    assert heard == {"a": list(range(700)), "b": list(range(700))}


@pytest.mark.spec("LIVE-02", "LIVE-13")
async def test_what_is_no_longer_there_is_said_not_hidden(start_hub: StartHub) -> None:
    hub = await start_hub(engine__maxLiveHistorySize=2)
    async with listening(hub, "a") as stream:
        last_id = (await stream.next()).id
    await publish(hub, "a", 1, 2, 3, 4)
    async with listening(hub, "a", last_id=last_id) as stream:
        confirmed = await stream.next()
        assert confirmed.data["channels"][0]["recovered"] is False
        assert await stream.numbers(2) == [3, 4]


# -- bad input ----------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-02", "OPS-03")
@pytest.mark.parametrize(
    "last_id", ["garbage", "a.b.c", "YQ.YQ", "YQ.YQ.-1", "YQ.YQ.1~", "x" * 9000, "YQ.YQ.1 YQ.YQ.1"]
)
@shared
async def test_an_id_that_the_hub_never_gave_is_refused(
    shared_hub: RunningHub, last_id: str
) -> None:
    async with await RawConnection.open(shared_hub.address) as client:
        client.request("GET /v1/hubs/acme/events?channel=a", f"Last-Event-ID: {last_id}")
        answer = await client.response()
        assert (answer.status, answer.error) == (400, "malformed")


@pytest.mark.spec("LIVE-02", "OPS-03")
@shared
async def test_an_id_of_other_channels_or_epochs_loses_nothing_silently(
    shared_hub: RunningHub,
) -> None:
    async with listening(shared_hub, "s:elsewhere") as stream:
        foreign = (await stream.next()).id
    async with listening(shared_hub, "s:here", last_id=foreign) as stream:
        assert (await stream.next()).data["channels"][0]["recovered"] is True
    epoch, serial = "ZGVhZGJlZWY", 5
    async with listening(shared_hub, "s:here", last_id=f"czpoZXJl.{epoch}.{serial}") as stream:
        assert (await stream.next()).data["channels"][0]["recovered"] is False


@pytest.mark.spec("LIVE-02", "LIVE-07")
async def test_a_stream_without_any_permitted_channel_is_refused_in_http(
    start_hub: StartHub,
) -> None:
    """A browser would otherwise connect again and again."""
    hub = await start_hub(open_hub(namespaces={"private": Rules()}))
    for names, status, code in (
        ("channel=private:a", 403, "not_permitted"),
        ("channel=private:a&channel=private:b", 403, "not_permitted"),
        ("channel=a%09", 400, "invalid_name"),
        ("channel=", 400, "invalid_name"),
    ):
        async with hub.http.get(f"/v1/hubs/acme/events?{names}") as answer:
            assert answer.status == status, names
            assert (await answer.json())["error"]["code"] == code


@pytest.mark.spec("LIVE-02")
async def test_a_stream_without_a_channel_is_greeted_where_it_is_asked_for(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub())
    async with listening(hub, empty="true") as stream:
        assert (await stream.next()).data["channels"] == []
    async with hub.http.get("/v1/hubs/acme/events?empty=false") as answer:
        assert (await answer.json())["error"]["code"] == "bad_request"


@pytest.mark.spec("LIVE-02", "LIVE-08")
async def test_refused_channels_are_named_and_the_others_are_heard(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(namespaces={"private": Rules()}), session__maxChannels=2)
    async with listening(hub, "private:a", "a", "b", "c", "a\t") as stream:
        confirmed = (await stream.next()).data
        assert confirmed["subscribedChannels"] == ["a", "b"]
        refused = {each["channel"]: each["error"]["code"] for each in confirmed["failures"]}
        assert refused == {
            "private:a": "not_permitted", "c": "too_many_channels", "a\t": "invalid_name"
        }  # fmt: skip
        await publish(hub, "b", 7)
        assert await stream.numbers(1) == [7]


@pytest.mark.spec("LIVE-02", "OPS-03")
@shared
async def test_more_channels_than_an_id_can_name_are_refused(shared_hub: RunningHub) -> None:
    names = urlencode([("channel", f"{number:04}" + "x" * 60) for number in range(100)])
    async with shared_hub.http.get(f"/v1/hubs/acme/events?{names}") as answer:
        assert answer.status == 413


# -- life ---------------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-02")
async def test_a_silent_stream_gets_heartbeats_at_its_own_interval(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(
        clock=clock, connection__sse__heartbeatInterval=2, connection__sse__retry=500
    )
    async with listening(hub, "a") as stream:
        await stream.next()
        assert stream.retry == "500"
        for _ in range(2):
            clock.advance(1)
            hub.server.node.sweep()
        assert await stream.comment() == b":\n\n"


@pytest.mark.spec("LIVE-02", "LIVE-06")
async def test_a_stream_ends_with_its_token(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(
        open_hub(rules=Rules()), clock=clock, connection__sse__heartbeatInterval=1
    )
    token = hub.token(grants=(Grant("a", subscribe=True),), ttl=60)
    async with listening(hub, "a", token=token) as stream:
        await stream.next()
        clock.advance(61)
        hub.server.node.sweep()
        said = await stream.next()
        assert said.name == "Disconnect"
        assert said.data["code"] == "invalid_token"
        assert await stream.rest() == b""


@pytest.mark.spec("LIVE-02", "LIVE-11")
async def test_a_stream_is_told_when_a_channel_is_taken_away(start_hub: StartHub) -> None:
    hub = await start_hub()
    async with listening(hub, "a", "b") as stream:
        await stream.next()
        await hub.server.directory.put("acme", "rules", "default", Rules())
        said = await stream.next()
        assert said.name == "Unsubscribe"
        assert {each["channel"] for each in said.data["failures"]} == {"a", "b"}
        await hub.server.directory.put("acme", "rules", "default", OPEN)


@pytest.mark.spec("LIVE-02")
@shared
async def test_what_a_listener_sends_is_ignored_and_its_leaving_noticed(
    shared_hub: RunningHub,
) -> None:
    before = shared_hub.server.node.session_count
    async with listening(shared_hub, "s:talk") as stream:
        await stream.next()
        stream._connection.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        await publish(shared_hub, "s:talk", 1)
        assert await stream.numbers(1) == [1]
    while shared_hub.server.node.session_count > before:
        await publish(shared_hub, "s:talk", 2)


PIPELINED = {
    "a publish": b"POST /v1/hubs/acme/channels/a/messages HTTP/1.1\r\n"
    b"Host: test\r\nContent-Length: 5\r\n\r\nlater",
    "another protocol": b"GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n"
    b"Upgrade: h2c\r\n\r\n",
    "a socket": b"GET /v1/hubs/acme/socket HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "a bad request": b"GET / HTTP/1.1\r\nHost: test\r\nHost: test\r\n\r\n",
    "anything": b"\x00 anything\r\n\r\n",
}


@pytest.mark.spec("LIVE-02")
@pytest.mark.parametrize("what", PIPELINED)
@shared
async def test_what_is_pipelined_behind_the_request_for_a_stream_is_ignored(
    shared_hub: RunningHub, what: str
) -> None:
    async with await RawConnection.open(shared_hub.address) as connection:
        stream = b"GET /v1/hubs/acme/events?channel=a HTTP/1.1\r\nHost: test\r\n\r\n"
        connection.send(stream + PIPELINED[what])
        assert b"text/event-stream" in await connection.until(b"event: Subscribe")
        path = "/v1/hubs/acme/channels/a/messages"
        async with shared_hub.http.post(path, json="first") as answer:
            assert answer.status == 200
        said = await connection.until(b"first")
        assert b"later" not in said
        assert b"HTTP/1.1" not in said
