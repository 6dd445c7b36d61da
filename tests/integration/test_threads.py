"""Threads: conversations of stored channels, at every door and every node."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.engine import Cluster, FakeConnection, receive
from harness.invoking import invoke
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.unreliable import STORMY
from hubbub.client import Client, connect, sync
from hubbub.domain.errors import NotFound, NotPermitted
from hubbub.domain.messages import JSON, Attributes
from hubbub.domain.notices import HistoryPage, Published, ThreadsPage
from hubbub.domain.requests import History, Publish, PublishItem, Threads

pytestmark = pytest.mark.spec("CMD-07")

STORED = msgspec.structs.replace(OPEN, store=True)
THREADS = "/v1/hubs/acme/channels/desk/threads"


async def start(start_hub: StartHub) -> RunningHub:
    """A channel with two conversations and a message of none."""
    hub = await start_hub(open_hub(rules=STORED))
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        await say(client, "case 1/ü", "help")
        await say(client, None, "unrelated")
        await say(client, "case 2", "me, too")
        await say(client, "case 1/ü", {"status": "open"}, "hConvState")
        await say(client, "case 2", {"status": "closed"}, "hconvstate")
        await say(client, "case 1/ü", "still here")
    return hub


async def say(client: Client, conversation: str | None, data: object, event: str = "") -> None:
    envelope = {} if conversation is None else {"conversation_id": conversation}
    await client.publish("desk", data, event, store=True, **envelope)  # type: ignore[arg-type]


async def read(hub: RunningHub, path: str, status: int = 200, **headers: str) -> dict[str, Any]:
    async with hub.http.get(path, headers=headers) as answer:
        found: dict[str, Any] = await answer.json()
        assert answer.status == status, found
        return found


def names(page: dict[str, Any]) -> list[str]:
    return [each["conversationID"] for each in page["threads"]]


async def test_threads_over_http(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    page = await read(hub, THREADS)
    first, second = page["threads"]
    assert (page["channel"], page["more"]) == ("desk", False)
    assert first["first"]["payload"] == {"text": "help"}
    assert first | {"first": 0, "updatedAt": 0} == {
        "conversationID": "case 1/ü",
        "first": 0,
        "messages": 3,
        "lastSerial": "6",
        "updatedAt": 0,
        "status": "open",
    }
    assert second["first"]["channelSerial"] == "3"
    assert names(await read(hub, f"{THREADS}?status=closed")) == ["case 2"]
    assert names(await read(hub, f"{THREADS}?status=new")) == []
    one = await read(hub, f"{THREADS}?limit=1")
    assert (names(one), one["more"]) == (["case 1/ü"], True)
    assert names(await read(hub, f"{THREADS}?limit=1&after=1")) == ["case 2"]


async def test_the_messages_of_a_thread_over_http(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    path = f"{THREADS}/case%201%2F%C3%BC"
    page = await read(hub, path)
    assert [each["channelSerial"] for each in page["messages"]] == ["1", "4", "6"]
    page = await read(hub, f"{path}?limit=1&after=1")
    assert ([each["channelSerial"] for each in page["messages"]], page["more"]) == (["4"], True)
    assert (await read(hub, f"{THREADS}/nobody"))["messages"] == []


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        (f"{THREADS}?limit=0", 400, "limit"),
        (f"{THREADS}?limit=1001", 400, "limit"),
        (f"{THREADS}?after=x", 400, "after"),
        (f"{THREADS}?status=", 400, "status"),
        (f"{THREADS}?state=open", 400, "state"),
        (f"{THREADS}/a?after=-1", 400, "after"),
        (f"{THREADS}/a/b", 404, "nothing at"),
        (f"{THREADS}/", 404, "nothing at"),
    ],
)
async def test_a_wrong_question_is_answered_by_name(
    start_hub: StartHub, path: str, status: int, said: str
) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    assert said in (await read(hub, path, status))["error"]["message"]


async def test_a_channel_that_does_not_store_says_that_it_has_no_threads(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=OPEN))
    assert "does not store" in (await read(hub, THREADS, 404))["error"]["message"]
    assert "does not store" in (await read(hub, f"{THREADS}/a", 404))["error"]["message"]
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        with pytest.raises(NotFound):
            await client.threads("desk")
        with pytest.raises(NotFound):
            await client.thread("desk", "a")


async def test_who_may_not_read_the_history_may_not_read_threads(start_hub: StartHub) -> None:
    private = msgspec.structs.replace(STORED, allow_anonymous=False)
    hub = await start_hub(open_hub(rules=private))
    for path in (THREADS, f"{THREADS}/a"):
        assert (await read(hub, path, 403))["error"]["code"] == "not_permitted"
        await read(hub, path, Authorization=f"Bearer {hub.token('ann')}")
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        with pytest.raises(NotPermitted):
            await client.threads("desk")
        with pytest.raises(NotPermitted):
            await client.thread("desk", "a")
    at = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "acme"}
    refused = await invoke("threads", "desk", **at)
    assert (refused.code, "no permission to read 'desk'" in refused.err) == (1, True), refused


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
async def test_threads_with_the_client(start_hub: StartHub, encoding: str) -> None:
    hub = await start(start_hub)
    options = msgspec.structs.replace(connect().options, encoding=encoding)
    async with connect(f"ws://{hub.address}", hub="acme", options=options) as client:
        page = await client.threads("desk")
        assert [(t.conversation_id, t.messages, t.status) for t in page.threads] == [
            ("case 1/ü", 3, "open"),
            ("case 2", 2, "closed"),
        ]
        assert page.threads[0].first.data == "help"
        only = await client.threads("desk", status="closed")
        assert [each.conversation_id for each in only.threads] == ["case 2"]
        after = await client.threads("desk", after=1, limit=1)
        assert ([each.conversation_id for each in after.threads], after.more) == (["case 2"], False)
        thread = await client.thread("desk", "case 1/ü")
        assert [each.serial for each in thread.messages] == [1, 4, 6]
        newest = await client.history("desk", conversation_id="case 1/ü", limit=2)
        assert [each.serial for each in newest.messages] == [4, 6]


async def test_a_thread_is_read_by_serials_and_not_by_times(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    socket = await hub.socket()
    await socket.send("History", channel="desk", reqID=1, conversationID="a", afterTime=1)
    assert "conversationID" in (await socket.find("Error"))["error"]["message"]
    await socket.send("Threads", channel="desk", reqID=2, limit=1001)
    assert "limit" in (await socket.find("Error"))["error"]["message"]


async def test_threads_with_the_blocking_client(start_hub: StartHub) -> None:
    hub = await start(start_hub)

    def work() -> tuple[list[str], list[int]]:
        with sync.connect(f"ws://{hub.address}", hub="acme") as client:
            page, thread = client.threads("desk", after=1), client.thread("desk", "case 2")
            return (
                [each.conversation_id for each in page.threads],
                [each.serial for each in thread.messages],
            )

    assert await asyncio.to_thread(work) == (["case 2"], [3, 5])


@pytest.mark.spec("UI-03")
async def test_threads_on_the_command_line(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    at = {"HUBBUB_URL": f"ws://{hub.address}", "HUBBUB_HUB": "acme"}
    listed = await invoke("threads", "desk", **at)
    assert [line.split("  ")[:3] for line in listed.out.splitlines()] == [
        ["case 1/ü", "3 messages", "#1 to #6"],
        ["case 2", "2 messages", "#3 to #5"],
    ]
    closed = await invoke("threads", "desk", "--status", "closed", "--json", **at)
    (shown,) = map(json.loads, closed.out.splitlines())
    assert (shown["conversationID"], shown["status"], shown["messages"]) == ("case 2", "closed", 2)
    assert shown["first"]["payload"] == {"text": "me, too"}
    one = await invoke("threads", "desk", "--limit", "1", **at)
    assert "--after 1" in one.err
    messages = await invoke("threads", "desk", "case 2", **at)
    assert [line.split()[2] for line in messages.out.splitlines()] == ["#3", "#5"]
    wrong = await invoke("threads", "desk", "case 2", "--status", "open", **at)
    assert wrong.code == 2


async def test_a_thread_goes_with_its_last_message(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    await hub.delete_before("desk", 6)
    page = await read(hub, THREADS)
    (left,) = page["threads"]
    assert (left["conversationID"], left["messages"]) == ("case 1/ü", 1)
    assert "status" not in left
    assert (await read(hub, f"{THREADS}/case%202"))["messages"] == []


def publish(connection: FakeConnection, channel: str, conversation: str, number: int) -> None:
    attributes = Attributes(conversation_id=conversation)
    item = PublishItem(channel, "", b"1", JSON, store=True, req_id=number, attributes=attributes)
    receive(connection, Publish((item,)))


@pytest.mark.parametrize("seed", [11, 12])
async def test_threads_are_the_same_from_every_node(tmp_path: Path, seed: int) -> None:
    hub = open_hub(rules=STORED)
    async with Cluster(tmp_path, seed=seed, faults=STORMY, hubs=[hub]) as cluster:
        channel = cluster.channel_of("west")
        publisher = cluster.nodes["east"].connect()
        for number in range(1, 7):
            publish(publisher, channel, "ab"[number % 2], number)
            await publisher.next(Published, number)
        pages, conversations = [], []
        for node in cluster.nodes.values():
            asking = node.connect()
            receive(asking, Threads(channel, req_id=3))
            pages.append(await asking.next(ThreadsPage))
            receive(asking, History(channel, req_id=4, after=0, conversation_id="a"))
            conversations.append(await asking.next(HistoryPage))
        assert [each.conversation_id for each in pages[0].threads] == ["b", "a"]
        assert pages[0] == pages[1]
        assert [each.serial for each in conversations[0].messages] == [2, 4, 6]
        assert conversations[0] == conversations[1]
