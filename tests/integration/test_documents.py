"""Documents over WebSocket: changes, versions, catching up, and what channels do beside them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import jsonpatch
import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from harness.admin import service_of
from harness.callbacks import Callbacks
from harness.clock import FakeClock
from harness.running_hub import OPEN, Socket, StartHub, open_hub
from harness.topics import HttpTopic
from hubbub.domain import notices, requests
from hubbub.domain.documents.text import JsonList
from hubbub.domain.notices import Notice
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.requests import Request
from hubbub.domain.rules import Quotas, Rules
from hubbub.engine.documents.owner import DocumentOwner
from hubbub.engine.retention import Retention
from hubbub.protocols import hubbub_pb2 as pb
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

N = TypeVar("N", bound=Notice)

CHANNEL = "doc:list"
STORED = msgspec.structs.replace(OPEN, store=True)


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


async def change(socket: Socket, *ops: Any, channel: str = CHANNEL, **more: Any) -> dict[str, Any]:
    await socket.send("DocumentChange", reqID=5, channel=channel, ops=ops, **more)
    return await socket.find("DocumentChange")


async def get(socket: Socket, channel: str = CHANNEL, **more: Any) -> dict[str, Any]:
    await socket.send("DocumentGet", reqID=6, channel=channel, **more)
    return await socket.find("DocumentGet")


async def document(socket: Socket, channel: str = CHANNEL, **more: Any) -> Any:
    found = await get(socket, channel, **more)
    assert "error" not in found, found
    return found["document"]


def producer(sequence: int, name: str = "p", **more: Any) -> dict[str, Any]:
    return {"id": name, "sequence": str(sequence), **more}


# -- changes --------------------------------------------------------------------------------------


@pytest.mark.spec("DOC-02", "each change raises the version; subscribers get the operations")
async def test_subscribers_follow_a_document_from_where_it_stands(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    writer, reader = await hub.socket(), await hub.socket()
    first = await change(writer, add("/items/-", "milk"))
    assert (first["success"], first["version"], first["reqID"]) == (True, 1, 5)
    await reader.subscribe(CHANNEL)
    info = await reader.expect("DocumentInfo")
    assert info == {
        "channel": CHANNEL,
        "epoch": first["epoch"],
        "version": 1,
        "ts": first["ts"],
        "bytes": len('{"items":["milk"]}'),
    }
    second = await change(
        writer,
        add("items/-", "tea"),
        {"op": "test", "path": "", "value": {"items": ["milk", "tea"]}},
        changeID="mine",
    )
    update = await reader.expect("DocumentUpdated")
    assert update == {
        "channel": CHANNEL,
        "epoch": first["epoch"],
        "version": 2,
        "ts": second["ts"],
        "changeID": "mine",
        "ops": [add("/items/1", "tea")],
    }
    assert await document(writer) == {"items": ["milk", "tea"]}
    assert await document(writer, path="items/1") == "tea"


@pytest.mark.spec("DOC-02", "the author hears its own change, and is named in it")
async def test_the_author_is_a_subscriber_like_others(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False))
    socket = await hub.socket(token=hub.token("ann", grants=(Grant("doc:*", True, True),)))
    await socket.subscribe(CHANNEL)
    await socket.expect("DocumentInfo")
    await socket.send("DocumentChange", channel=CHANNEL, ops=[add("/a", 1)])
    update = await socket.expect("DocumentUpdated")
    assert update["author"] == "ann"
    await socket.send("DocumentChange", reqID=9, channel=CHANNEL, ops=[add("/b", 1)])
    heard = {
        each["event"]: each["payload"]["version"] for each in [await socket.next() for _ in "12"]
    }
    assert heard == {"DocumentUpdated": 2, "DocumentChange": 2}


@pytest.mark.spec("DOC-02", "a change without effect raises no version and tells nobody")
async def test_a_change_without_effect_is_answered_with_the_current_version(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    assert (await change(socket))["version"] == 0
    await change(socket, add("/a", 1))
    await socket.subscribe(CHANNEL)
    await socket.expect("DocumentInfo")
    test = {"op": "test", "path": "/a", "value": 1}
    assert (await change(socket, test, {"op": "move", "from": "/a", "path": "/a"}))["version"] == 1
    assert (await change(socket, add("/a", 1)))["version"] == 2
    assert socket.backlog == []


@pytest.mark.spec("DOC-01", "all or nothing, with the operation that did not fit")
async def test_a_change_that_fails_says_where_and_changes_nothing(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    await change(socket, add("/a", 1))
    failed = await change(socket, add("/b", 2), {"op": "remove", "path": "/c"}, add("/d", 1))
    assert failed["success"] is False
    assert failed["error"]["code"] == "patch_failed"
    assert (failed["opIndex"], failed["reason"]) == (1, "missing")
    invalid = await change(socket, {"op": "add", "path": "/x"})
    assert (invalid["error"]["code"], invalid["opIndex"]) == ("invalid_patch", 0)
    large = await change(socket, *[add("/a", 1)] * 1001)
    assert large["error"]["code"] == "too_large"
    number = await change(socket, add("/a", 2**53 + 1))
    assert number["error"]["code"] == "invalid_payload"
    kind = await change(socket, add("/a", 1), channel="news")
    assert kind["error"]["code"] == "wrong_channel_kind"
    assert (await get(socket, "news"))["error"]["code"] == "wrong_channel_kind"
    assert await document(socket) == {"a": 1}
    await socket.send("DocumentChange", reqID=5, channel=CHANNEL, ops=7)
    assert (await socket.find("DocumentChange"))["error"]["code"] == "invalid_patch"
    await socket.send("DocumentChange", reqID=8, channel=CHANNEL)
    assert (await socket.find("Error"))["error"]["code"] == "malformed"


@pytest.mark.spec("DOC-02", "compare-and-set")
async def test_a_change_can_expect_a_version(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    created = await change(socket, add("/a", 1), expectedVersion=0)
    assert created["success"]
    again = await change(socket, add("/a", 2), expectedVersion=0)
    assert (again["error"]["code"], again["version"]) == ("version_mismatch", 1)
    assert again["epoch"] == created["epoch"]
    epoch = created["epoch"]
    assert (await change(socket, add("/a", 2), expectedVersion=1, epoch=epoch))["version"] == 2
    other = await change(socket, add("/a", 3), expectedVersion=2, epoch="other")
    assert other["error"]["code"] == "version_mismatch"
    assert await document(socket) == {"a": 2}


@pytest.mark.spec("DOC-02", "concurrent changes are applied one after the other, none is lost")
async def test_many_writers_at_once(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    reader = await hub.socket()
    await reader.subscribe(CHANNEL)
    epoch = (await reader.expect("DocumentInfo"))["epoch"]
    writers = [await hub.socket() for _ in range(5)]
    for number in range(20):
        for at, writer in enumerate(writers):
            await writer.send("DocumentChange", channel=CHANNEL, ops=[add(f"/{at}/-", number)])
    copy: Any = {}
    for version in range(1, 101):
        update = await reader.expect("DocumentUpdated")
        assert (update["version"], update["epoch"] != "") == (version, True)
        copy = jsonpatch.apply_patch(copy, update["ops"])
    assert copy == {str(at): list(range(20)) for at in range(5)}
    assert await document(reader) == copy
    assert epoch


@pytest.mark.spec("DOC-01", "bytes, whatever the names of members")
async def test_bytes_travel_through_a_document(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    await change(socket, add("/image", {"$bytes": "AAEC"}), add("/o", {"$$bytes": "text"}))
    assert await document(socket) == {"image": {"$bytes": "AAEC"}, "o": {"$$bytes": "text"}}
    assert (await change(socket, add("/x", {"$bytes": "?"})))["error"]["code"] == "invalid_payload"
    await change(socket, add("", None))
    assert await document(socket) is None


# -- repeats --------------------------------------------------------------------------------------


@pytest.mark.spec("DOC-02", "a repeat is answered with the original version, however late")
async def test_a_producers_repeat_counts_once(
    start_server: StartHub,
) -> None:
    hub = await start_server(open_hub())
    socket = await hub.socket()
    first = await change(socket, add("/n/-", 1), producer=producer(1))
    await change(socket, add("/n/-", 2))
    again = await change(socket, add("/n/-", 1), producer=producer(1))
    assert (again["version"], again["duplicate"], again["success"]) == (1, True, True)
    assert again["epoch"] == first["epoch"]
    reused = await change(socket, add("/n/-", 9), producer=producer(1))
    assert reused["error"]["code"] == "sequence_reused"
    gap = await change(socket, add("/n/-", 9), producer=producer(3))
    assert gap["error"]["code"] == "sequence_gap"
    refused = await change(socket, {"op": "remove", "path": "/x"}, producer=producer(2))
    assert refused["error"]["code"] == "patch_failed"
    assert (await change(socket, producer=producer(2)))["version"] == 2
    assert (await change(socket, producer=producer(2)))["duplicate"] is True
    await hub.close()
    hub = await start_server(open_hub())
    socket = await hub.socket()
    again = await change(socket, add("/n/-", 1), producer=producer(1))
    assert (again["version"], again["duplicate"]) == (1, True)
    assert (await change(socket, add("/n/-", 3), producer=producer(3)))["version"] == 3
    assert await document(socket) == {"n": [1, 2, 3]}


@pytest.mark.spec(
    "DOC-02", "refused changes use up no sequence, also where others wait behind them"
)
async def test_what_follows_a_refused_change_of_a_producer_is_refused_too(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    await change(socket, add("/a", 1), producer=producer(1))
    for sequence, ops in enumerate(([{"op": "remove", "path": "/x"}], [add("/b", 1)]), 2):
        await socket.send(
            "DocumentChange", reqID=sequence, channel=CHANNEL, ops=ops, producer=producer(sequence)
        )
    answers = [await socket.find("DocumentChange") for _ in range(2)]
    assert [each["error"]["code"] for each in answers] == ["patch_failed", "sequence_gap"]
    assert (await change(socket, add("/c", 1), producer=producer(2)))["success"]
    assert (await change(socket, add("/b", 1), producer=producer(3)))["success"]
    assert await document(socket) == {"a": 1, "b": 1, "c": 1}


# -- catching up, time travel ---------------------------------------------------------------------


@pytest.mark.spec("DOC-02", "a client behind by versions catches up or refetches")
async def test_what_changed_since_a_version(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket = await hub.socket()
    await change(socket, add("", {"text": "x" * 2000}))
    for number in range(3):
        await change(socket, add("/n", number))
    found = await get(socket, since=2)
    assert "document" not in found
    assert [each["version"] for each in found["updates"]] == [3, 4]
    assert found["updates"][0]["ops"] == [add("/n", 1)]
    assert found["version"] == 4
    assert (await get(socket, since=4)).get("updates") is None
    # The document is shorter, or the version is not one of this document's.
    assert "document" in await get(socket, since=0)
    assert "document" in await get(socket, since=2, epoch="other")
    assert "document" in await get(socket, since=9)
    missing = await get(socket, path="/nothing/there")
    assert missing["error"]["code"] == "not_found"
    await socket.send("DocumentGet", reqID=6, channel=CHANNEL, at=1, since=1)
    assert (await socket.find("Error"))["error"]["code"] == "malformed"


@pytest.mark.spec("DOC-02", "missed updates follow DocumentInfo on subscribe")
async def test_a_subscriber_names_the_version_that_it_has(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket, other = await hub.socket(), await hub.socket()
    await change(other, add("", {"text": "x" * 2000}))
    for number in range(3):
        epoch = (await change(other, add("/n", number)))["epoch"]
    await socket.subscribe(CHANNEL, documentVersion=2, documentEpoch=epoch)
    assert (await socket.expect("DocumentInfo"))["version"] == 4
    assert [(await socket.expect("DocumentUpdated"))["version"] for _ in range(2)] == [3, 4]
    await change(other, add("/n", 9))
    assert (await socket.expect("DocumentUpdated"))["version"] == 5
    late = await hub.socket()
    await late.subscribe(CHANNEL, documentVersion=2, documentEpoch="other", serial="0")
    assert (await late.expect("DocumentInfo"))["version"] == 5
    await change(other, add("/n", 10))
    assert (await late.expect("DocumentUpdated"))["version"] == 6


@pytest.mark.spec("DOC-02", "the document as it was, by version and by time")
async def test_time_travel_within_what_is_kept(start_server: StartHub) -> None:
    clock = FakeClock()
    rules = msgspec.structs.replace(OPEN, max_document_changes=50)
    hub = await start_server(open_hub(rules=rules), clock=clock)
    socket = await hub.socket()
    times = []
    for number in range(230):
        clock.advance(1)
        times.append((await change(socket, add("/n", number)))["ts"])
    await hub.server.owner.room(DocumentOwner).settle_snapshots()
    assert await document(socket, at=229) == {"n": 228}
    assert await document(socket, at=150, path="n") == 149
    assert await document(socket, atTime=times[199]) == {"n": 199}
    assert await document(socket, atTime=times[199] + 999) == {"n": 199}
    assert (await get(socket, at=99))["error"]["code"] == "history_gone"
    assert (await get(socket, atTime=times[3]))["error"]["code"] == "history_gone"
    assert (await get(socket, at=231))["error"]["code"] == "history_gone"
    assert "document" in await get(socket, since=20)


@pytest.mark.spec("DOC-02", "a document goes some time after its last change, in a new epoch")
async def test_a_document_expires(start_server: StartHub) -> None:
    clock = FakeClock()
    rules = msgspec.structs.replace(OPEN, document_ttl_seconds=60)
    hub = await start_server(open_hub(rules=rules), clock=clock)
    socket = await hub.socket()
    epoch = (await change(socket, add("/a", 1)))["epoch"]
    await socket.subscribe(CHANNEL)
    await socket.expect("DocumentInfo")
    server = hub.server
    retention = Retention(server.store, clock, server.owner, server.directory.get)
    await retention.run()
    assert await document(socket) == {"a": 1}
    clock.advance(61)
    await retention.run()
    info = await socket.find("DocumentInfo")
    assert (info["version"], info["epoch"] != epoch) == (0, True)
    assert await document(socket) == {}


@pytest.mark.spec("DOC-02", "a document that has outlived its rules is gone for every reader")
async def test_a_document_is_gone_at_the_millisecond_at_which_it_expires(
    start_hub: StartHub,
) -> None:
    clock = FakeClock()
    rules = msgspec.structs.replace(OPEN, document_ttl_seconds=60)
    hub = await start_hub(open_hub(rules=rules), clock=clock)
    socket = await hub.socket()
    for ending in ("read", "changes", "change", "subscribe"):
        epoch = (await change(socket, add("/a", 1)))["epoch"]
        clock.advance(59.999)
        assert await document(socket) == {"a": 1}
        clock.advance(0.001)
        if ending == "read":
            assert await document(socket) == {}
        elif ending == "changes":
            path = f"/v1/hubs/acme/channels/{CHANNEL}/document/changes"
            async with hub.http.get(path) as answer:
                found = await answer.json()
            assert (found["version"], found["changes"]) == (0, [])
        elif ending == "change":
            changed = await change(socket, add("/b", 2))
            assert (changed["version"], changed["epoch"] != epoch) == (1, True)
            assert await document(socket) == {"b": 2}
            clock.advance(60)
        else:
            await socket.subscribe(CHANNEL)
            assert (await socket.expect("DocumentInfo"))["version"] == 0


@pytest.mark.spec("DOC-02", "changes that are not kept are not passed over in silence")
async def test_pages_of_changes_say_when_older_ones_are_gone(start_hub: StartHub) -> None:
    rules = msgspec.structs.replace(OPEN, max_document_changes=50)
    hub = await start_hub(open_hub(rules=rules), session__messagesPerSecond=0)
    socket = await hub.socket()
    path = f"/v1/hubs/acme/channels/{CHANNEL}/document/changes"

    async def page(query: str = "") -> Any:
        async with hub.http.get(path + query) as answer:
            return await answer.json()

    assert (await page())["recovered"]
    for number in range(230):
        await change(socket, add("/n", number))
    await hub.server.owner.room(DocumentOwner).settle_snapshots()
    oldest = (await page())["changes"][0]["version"]
    assert oldest > 1
    assert not (await page())["recovered"]
    assert not (await page(f"?after={oldest - 2}"))["recovered"]
    assert (await page(f"?after={oldest - 1}"))["recovered"]
    assert (await page("?after=230"))["recovered"]
    assert not (await page("?after=231"))["recovered"]  # that was another document
    assert (await page("?before=231&limit=10"))["recovered"]
    assert not (await page(f"?before={oldest + 5}"))["recovered"]


@pytest.mark.spec("DOC-03", "a hub that is stopped and started again has every change")
async def test_a_document_survives_a_restart(start_server: StartHub) -> None:
    hub = await start_server(open_hub())
    socket = await hub.socket()
    for number in range(130):
        last = await change(socket, add("/n/-", number))
    await hub.close()
    hub = await start_server(open_hub())
    socket = await hub.socket()
    found = await get(socket)
    assert (found["version"], found["epoch"]) == (130, last["epoch"])
    assert found["document"] == {"n": list(range(130))}
    assert (await change(socket, add("/x", 1)))["version"] == 131


# -- damage ---------------------------------------------------------------------------------------


def damage(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path / "data" / "hubbub.db")) as database, database:
        assert database.execute(statement).rowcount > 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document_snapshots SET content = substr(content, 1, 20) WHERE version > 150",
        "UPDATE document_snapshots SET content = x'00ff' WHERE version > 150",
    ],
)
async def test_a_damaged_snapshot_is_replaced_by_the_one_before(
    start_server: StartHub, tmp_path: Path, statement: str
) -> None:
    hub = await start_server(open_hub(), session__messagesPerSecond=0)
    socket = await hub.socket()
    for number in range(230):
        await change(socket, add("/n/-", number))
    await hub.close()
    damage(tmp_path, statement)
    hub = await start_server(open_hub(), session__messagesPerSecond=0)
    socket = await hub.socket()
    await socket.subscribe(CHANNEL)
    assert (await socket.expect("DocumentInfo"))["version"] == 230
    assert await document(socket) == {"n": list(range(230))}
    assert await document(socket, at=210) == {"n": list(range(210))}
    assert (await change(socket, add("/x", 1)))["version"] == 231


async def test_a_document_that_cannot_be_read_answers_everyone_and_is_deleted(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(open_hub())
    socket = await hub.socket()
    for number in range(30):
        await change(socket, add("/n/-", number))
    await hub.close()
    damage(tmp_path, "UPDATE document_changes SET ops = x'5b7b00' WHERE version = 20")
    damage(tmp_path, "DELETE FROM document_snapshots")
    hub = await start_server(open_hub())
    socket = await hub.socket()
    await socket.subscribe(CHANNEL)
    assert (await socket.expect("DocumentInfo"))["version"] == 30
    refusal = (await get(socket))["error"]
    assert (refusal["code"], "what is stored of it is damaged" in refusal["message"]) == (
        "internal",
        True,
    )
    assert (await change(socket, add("/x", 1)))["error"]["code"] == "internal"
    assert (await get(socket, at=25))["error"]["code"] == "internal"
    assert await document(socket, at=10) == {"n": list(range(10))}
    path = f"/v1/hubs/acme/channels/{CHANNEL}/document"
    service = f"Bearer {hub.token(None, level=Level.SERVICE)}"
    async with hub.http.delete(path, headers={"Authorization": service}) as answer:
        assert answer.status == 204
    assert (await change(socket, add("/x", 1)))["version"] == 1


# -- beside messages ------------------------------------------------------------------------------


@pytest.mark.spec("DOC-04")
async def test_a_document_channel_is_also_a_channel(start_hub: StartHub) -> None:
    rules = msgspec.structs.replace(
        OPEN, store=True, retain=True, presence=True, occupancy=True, live_history=False
    )
    hub = await start_hub(open_hub(rules=rules))
    socket = await hub.socket()
    assert (await socket.publish(CHANNEL, {"json": 1}, store=True))["channelSerial"] == "1"
    await socket.publish(CHANNEL, {"json": 2}, retain=True, store=True)
    await change(socket, add("/a", 1))
    other = await hub.socket()
    await other.subscribe(CHANNEL, serial="0")
    seen = {(await other.next())["event"] for _ in range(6)}
    assert {"Publish", "DocumentInfo", "Presence", "Occupancy"} <= seen
    await socket.send("History", channel=CHANNEL, reqID=3)
    page = await socket.find("History")
    assert [each["payload"]["json"] for each in page["messages"]] == [1, 2]


@pytest.mark.spec("DOC-04", "one session's changes and messages keep their order")
@pytest.mark.parametrize("rules", [OPEN, STORED], ids=["live", "stored"])
async def test_changes_and_messages_keep_their_order(start_hub: StartHub, rules: Rules) -> None:
    hub = await start_hub(open_hub(rules=rules))
    writer, reader = await hub.socket(), await hub.socket()
    await reader.subscribe(CHANNEL)
    await reader.expect("DocumentInfo")
    for number in range(50):
        await writer.send("DocumentChange", channel=CHANNEL, ops=[add("/n", number)])
        item = {"channel": CHANNEL, "payload": {"json": number}, "extra": {"store": True}}
        await writer.send("Publish", publishes=[item])
    for number in range(50):
        assert (await reader.expect("DocumentUpdated"))["version"] == number + 1
        assert (await reader.expect("Publish"))["payload"]["json"] == number


@pytest.mark.spec("DOC-04", "each change as a stored message, for webhooks and subscriptions")
async def test_changes_as_messages(start_hub: StartHub) -> None:
    rules = msgspec.structs.replace(STORED, document_messages=True, live_history=False)
    hub = await start_hub(open_hub(rules=rules))
    socket = await hub.socket()
    await socket.subscribe(CHANNEL)
    await socket.expect("DocumentInfo")
    changed = await change(socket, add("/a", 1), changeID="c")
    await socket.send("History", channel=CHANNEL, reqID=3)
    page = await socket.find("History")
    (message,) = page["messages"]
    assert (message["event"], message["channelSerial"]) == ("DocumentUpdated", "1")
    assert message["payload"]["json"] == {
        "epoch": changed["epoch"],
        "version": 1,
        "ts": changed["ts"],
        "changeID": "c",
        "ops": [add("/a", 1)],
    }
    assert (await socket.publish(CHANNEL, {"json": 1}, store=True))["channelSerial"] == "2"


@pytest.mark.spec("DOC-04", "durable subscriptions get changes as messages")
async def test_a_durable_subscription_gets_every_change(start_hub: StartHub) -> None:
    rules = msgspec.structs.replace(STORED, document_messages=True, live_history=False)
    hub = await start_hub(open_hub(rules=rules))
    topic = HttpTopic(hub, CHANNEL)
    assert (await topic.subscribe("mirror", start="first")).status in (200, 201)
    socket = await hub.socket()
    await change(socket, add("/a", 1), producer=producer(1))
    await socket.publish(CHANNEL, {"json": "between"}, store=True)
    await change(socket, add("/b/-", 2))
    assert (await change(socket, add("/a", 1), producer=producer(1)))["duplicate"]
    await change(socket)  # of no effect
    told = (await topic.get("mirror", limit=10)).json["messages"]
    assert [each["event"] for each in told] == ["DocumentUpdated", "e", "DocumentUpdated"]
    copy: Any = {}
    for each in (told[0], told[2]):
        copy = jsonpatch.apply_patch(copy, each["payload"]["json"]["ops"])
    assert copy == await document(socket)


@pytest.mark.spec("DOC-04", "webhooks get changes as messages")
async def test_a_webhook_gets_every_change(start_hub: StartHub) -> None:
    rules = msgspec.structs.replace(STORED, document_messages=True, live_history=False)
    hub = await start_hub(open_hub(rules=rules, callback_addresses="loopback"))
    async with Callbacks() as receiver:
        order = {"channel": CHANNEL, "callback": receiver.at()}
        made = await service_of(hub)("POST", "/v1/hubs/acme/webhooks", order)
        assert made.status == 201, made.text
        socket = await hub.socket()
        await change(socket, add("/a", 1))
        await change(socket, add("/b/-", 2))
        copy: Any = {}
        for _ in range(2):
            copy = jsonpatch.apply_patch(copy, json.loads((await receiver.next()).body)["ops"])
        assert copy == await document(socket)


# -- who may, how much ----------------------------------------------------------------------------


@pytest.mark.spec("DOC-02", "reading takes subscribe permission, changing publish permission")
async def test_documents_ask_the_rules(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False, rules=Rules()))
    writer = await hub.socket(token=hub.token("w", grants=(Grant("doc:*", publish=True),)))
    reader = await hub.socket(token=hub.token("r", grants=(Grant("doc:*", subscribe=True),)))
    assert (await change(writer, add("/a", 1)))["success"]
    assert (await get(writer))["error"]["code"] == "not_permitted"
    assert (await change(reader, add("/a", 2)))["error"]["code"] == "not_permitted"
    assert await document(reader) == {"a": 1}


@pytest.mark.spec("DOC-02", "a subscription to a document ends when access does")
async def test_updates_end_with_access(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket, writer = await hub.socket(), await hub.socket()
    await socket.subscribe(CHANNEL)
    await socket.expect("DocumentInfo")
    closed = msgspec.structs.replace(OPEN, public=False)
    await hub.server.directory.put("acme", "rules", "default", closed)
    assert (await socket.find("Unsubscribe"))["failures"][0]["error"]["code"] == "not_permitted"
    service = await hub.socket(token=hub.token(None, level=Level.SERVICE))
    assert (await change(service, add("/a", 1)))["success"]
    await socket.send("Ping", reqID=3)
    assert (await socket.next())["event"] == "Pong"
    assert (await get(writer))["error"]["code"] == "not_permitted"


@pytest.mark.spec("DOC-01", "over quota, changes that only remove still pass")
async def test_the_quota_of_stored_bytes_holds_for_documents(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(quotas=Quotas(stored_bytes=3000)))
    socket = await hub.socket()
    assert (await change(socket, add("/a", "x" * 2500)))["success"]
    refused = await change(socket, add("/b", "x" * 1000))
    assert refused["error"]["code"] == "quota_exceeded"
    replaced = await change(socket, {"op": "remove", "path": "/a"}, add("/b", "x" * 1000))
    assert replaced["error"]["code"] == "quota_exceeded", "it does not only remove"
    assert (await change(socket, {"op": "remove", "path": "/a"}))["success"]
    assert await document(socket) == {}


@pytest.mark.spec("DOC-02", "over protobuf as in JSON")
async def test_documents_over_protobuf(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    url = f"ws://{hub.address}/v1/hubs/acme/socket"
    subprotocols = [Subprotocol(PROTOBUF_V1.subprotocol)]
    other = await hub.socket()
    async with connect(url, subprotocols=subprotocols, proxy=None) as connection:
        seen: list[Notice] = []

        async def ask(request: Request, kind: type[N]) -> N:
            await connection.send(PROTOBUF_V1.encode_request(request))
            return await find(kind)

        async def find(kind: type[N]) -> N:
            while True:
                while seen:
                    notice = seen.pop(0)
                    if isinstance(notice, kind):
                        return notice
                frame = await connection.recv()
                assert isinstance(frame, bytes)
                seen.extend(PROTOBUF_V1.decode_notices(frame))

        await ask(requests.Subscribe((requests.SubscribeItem(CHANNEL),), 1), notices.Subscribed)
        assert (await find(notices.DocumentInfo)).version == 0
        ops = [
            add("/a", [1, 2.5, None, True, "x", {"$bytes": "AAEC"}]),
            add("/a/-", {"$$bytes": 1}),
        ]
        text = msgspec.json.encode(ops)
        changed = await ask(
            requests.ChangeDocument(CHANNEL, JsonList(text), 3), notices.DocumentChangeResult
        )
        assert (changed.success, changed.version) == (True, 1)
        whole = {"a": [1, 2.5, None, True, "x", {"$bytes": "AAEC"}, {"$$bytes": 1}]}
        found = await ask(requests.DocumentGet(CHANNEL, 4), notices.DocumentFound)
        assert found.document is not None
        assert json.loads(found.document.text) == whole
        assert await document(other) == whole
        await change(other, add("/b", {"c": []}))
        update = await find(notices.DocumentUpdated)
        assert update.version == 2
        failed = await ask(
            requests.ChangeDocument(CHANNEL, JsonList(b'[{"op":"remove","path":"/x"}]'), 3),
            notices.DocumentChangeResult,
        )
        assert (failed.op_index, failed.reason) == (0, "missing")
        # Values that JSON cannot hold.
        value = pb.DocumentValue(kind=pb.DocumentValue.OBJECT, keys=["a", "a"])
        value.items.extend([pb.DocumentValue(null=True)] * 2)
        bad: list[
            tuple[pb.DocumentValue, type[notices.Failed | notices.DocumentChangeResult], str]
        ] = [
            (value, notices.Failed, "malformed"),
            (pb.DocumentValue(number=float("nan")), notices.Failed, "invalid_payload"),
            (pb.DocumentValue(integer=2**60 + 1), notices.DocumentChangeResult, "invalid_payload"),
        ]
        for each, kind, code in bad:
            op = pb.DocumentOp(op="add", path="/x", value=each)
            payload = pb.DocumentChangeRequest(req_id=9, channel=CHANNEL, ops=[op])
            event = pb.Envelope(
                event=pb.EventType.DocumentChange, payload=payload.SerializeToString()
            )
            await connection.send(pb.Frame(envelopes=[event]).SerializeToString())
            refused = await find(kind)
            assert refused.error is not None
            assert refused.error.code == code
