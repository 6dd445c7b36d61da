"""The subprotocol hubbub.hubiquitus.v1: connecting, commands, messages, answers and reattaching, as
clients of Hubiquitus speak."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.commands import command_hub
from harness.hubiquitus import HClient, restoring
from harness.running_hub import RunningHub, StartHub
from hubbub.engine.sessions.restore_keys import RestorableState, hash_of

pytestmark = [pytest.mark.spec("CMD-01"), pytest.mark.spec("CMD-03")]


@pytest.fixture
async def hub(start_hub: StartHub) -> RunningHub:
    return await start_hub(restoring())


async def test_a_client_connects_and_its_command_is_answered(hub: RunningHub) -> None:
    ann = await HClient.open(hub)
    assert await ann.connect("ann@demo/any", hub.token("ann", "demo")) == (2, 0)
    attributes = await ann.key()
    assert attributes["publisher"].startswith("ann@demo/s")
    assert isinstance(attributes["rid"], int)
    assert await ann.ask("hEcho", {"a": 1}) == {
        "cmd": "hEcho",
        "reqid": "7",
        "status": 0,
        "result": {"a": 1},
    }


async def test_a_token_at_the_handshake_replaces_hconnect(hub: RunningHub) -> None:
    ann = await HClient.open(hub, f"?token={hub.token('ann', 'demo')}")
    assert await ann.status() == (2, 0)
    await ann.key()
    assert (await ann.ask("hEcho", [1]))["result"] == [1]


@pytest.mark.parametrize(
    ("publisher", "password", "status"),
    [
        (None, "x", (6, 1)),
        ("", "x", (6, 1)),
        ("ann", "x", (6, 1)),
        (7, "x", (6, 1)),
        ("ann@demo/a/b", "x", (6, 1)),
        ("ann@demo", None, (6, 3)),
        ("ann@demo", "", (6, 3)),
        ("ann@demo", "wrong", (6, 3)),
        ("ann@demo", "a.b.c", (6, 3)),
        ("ann@other", "a.b.c", (6, 3)),
    ],
)
async def test_who_cannot_connect_is_told_why(
    hub: RunningHub, publisher: object, password: object, status: tuple[int, int]
) -> None:
    client = await HClient.open(hub)
    assert await client.connect(publisher, password) == status


async def test_a_token_of_another_user_connects_nobody(start_hub: StartHub) -> None:
    hub = await start_hub(command_hub(allow_anonymous=True))
    eve = await HClient.open(hub)
    assert await eve.connect("ann@demo", hub.token("eve", "demo")) == (6, 3)
    assert (await eve.ask("hEcho"))["status"] == 3
    assert await eve.connect("eve@demo", hub.token("eve", "demo")) == (2, 0)


async def test_a_command_before_hconnect_is_not_connected(hub: RunningHub) -> None:
    client = await HClient.open(hub)
    assert (await client.ask("hEcho", 1))["status"] == 3
    assert await client.connect("ann@demo", hub.token("ann", "demo")) == (2, 0)


async def test_connecting_again_says_that_one_is_connected(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    assert await ann.connect("ann@demo", hub.token("ann", "demo")) == (2, 5)
    assert (await ann.ask("hEcho", 1))["status"] == 0


@pytest.mark.parametrize(
    "frame",
    ["", "1", "[]", "{", '{"name":1}', '{"name":"nothing","args":[{}]}', "[" * 5000,
     '{"name":"hResult","args":[1]}', '{"name":"hResult"}'],
)  # fmt: skip
async def test_a_frame_that_cannot_be_read_is_answered_and_the_connection_stays(
    hub: RunningHub, frame: str
) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.socket.send_str(frame)
    assert await ann.status() == (2, 6)
    assert (await ann.ask("hEcho", 1))["status"] == 0


@pytest.mark.parametrize("command", [None, 1, [], "x"])
async def test_a_command_that_is_no_object_is_invalid(hub: RunningHub, command: object) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.emit("hCommand", command)
    assert (await ann.next("hResult"))["status"] == 7


async def test_a_forged_sender_is_not_authorized(hub: RunningHub) -> None:
    eve = await HClient.connected(hub, "eve")
    assert (await eve.ask("hEcho", 1, sender="ann@demo"))["status"] == 5


@pytest.mark.spec("CMD-02")
async def test_messages_of_channels_and_direct_ones_arrive_as_hmessages(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")
    people = ["ann@demo", "bob@demo"]
    record = {"chid": "#news@demo", "owner": "ann@demo", "participants": people, "active": True}
    assert (await ann.ask("hCreateUpdateChannel", record))["status"] == 0
    assert (await bob.ask("hSubscribe", {"chid": "#news@demo"}))["status"] == 0
    said = {"publisher": "ann@demo", "type": "greeting", "payload": {"text": "hi"}}
    published = await ann.ask("hPublish", {"chid": "#news@demo", **said})
    delivered = await bob.next("hMessage")
    assert delivered == published["result"]
    assert (delivered["chid"], delivered["payload"]) == ("#news@demo", {"text": "hi"})
    await ann.ask("hPublish", {"chid": "bob@demo", **said})
    direct = await bob.next("hMessage")
    assert (direct["chid"], direct["publisher"]) == ("bob@demo", "ann@demo")


async def test_a_command_to_another_client_is_answered_by_it(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")

    async def serve() -> None:
        command = await bob.next("hCommand")
        assert command["sender"] == ann.jid
        result = {"cmd": command["cmd"], "reqid": command["reqid"], "status": 0, "result": "pong"}
        await bob.emit("hResult", result)

    serving = asyncio.ensure_future(serve())
    answer = await ann.ask("ping", entity="bob@demo")
    await serving
    assert answer == {"cmd": "ping", "reqid": "7", "status": 0, "result": "pong"}


@pytest.mark.spec("CMD-08", "UI-04")
async def test_a_client_that_connects_gets_the_events_that_the_documentation_prints(
    start_hub: StartHub,
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    printed = page.partition('> {"name": "hConnect"')[2].partition("```")[0]
    names = re.findall(r'^< \{"name": "(\w+)"', printed, re.MULTILINE)
    hub = await start_hub(restoring())
    bob = await HClient.open(hub)
    await bob.emit("hConnect", {"publisher": "bob@demo", "password": hub.token("bob", "demo")})
    asked = {"reqid": "1", "sender": "bob@demo", "entity": "hnode@demo", "cmd": "hEcho"}
    events = [await bob.socket.receive_json() for _ in range(len(names) - 1)]
    await bob.emit("hCommand", asked)
    events.append(await bob.socket.receive_json())
    assert [event["name"] for event in events] == names
    first, second = [event["args"][0] for event in events if event["name"] == "attrs"]
    assert first == {**second, "sid": second["publisher"].partition("/")[2]}
    again = await HClient.open(hub)
    await again.emit("attach", first)
    assert await again.status() == (1, 4)
    await again.emit("attach", second)
    assert await again.status() == (4, 0)


@pytest.mark.spec("CMD-08")
async def test_a_client_reattaches_and_gets_what_it_missed(hub: RunningHub) -> None:
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")
    people = ["ann@demo", "bob@demo"]
    record = {"chid": "#news@demo", "owner": "ann@demo", "participants": people, "active": True}
    await ann.ask("hCreateUpdateChannel", record)
    await bob.ask("hSubscribe", {"chid": "#news@demo"})
    attributes = bob.attributes
    await bob.socket.close()
    said = {"chid": "#news@demo", "publisher": "ann@demo", "payload": 1, "transient": False}
    assert (await ann.ask("hPublish", said))["status"] == 0
    again = await HClient.open(hub)
    await again.emit("attach", {**attributes, "rid": str(attributes["rid"])})
    assert await again.status() == (4, 0)
    renewed = await again.next("attrs")
    assert renewed["publisher"] == attributes["publisher"]
    assert renewed["sid"] != attributes["sid"]
    assert (await again.next("hMessage"))["payload"] == 1
    other = await HClient.open(hub)
    await other.emit("attach", attributes)
    await other.status()


@pytest.mark.spec("CMD-08")
@pytest.mark.parametrize(
    "wrong",
    [{"sid": "nobody"}, {"sid": ""}, {"sid": None}, {"sid": 7}, {"publisher": None},
     {"publisher": "ann@demo/other"}, {"publisher": "eve@demo"}],
)  # fmt: skip
async def test_who_cannot_attach_may_still_connect(hub: RunningHub, wrong: dict[str, Any]) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.socket.close()
    again = await HClient.open(hub)
    await again.emit("attach", {**ann.attributes, **wrong})
    assert await again.status() == (1, 4)
    assert (await again.ask("hEcho"))["status"] == 3
    assert await again.connect("ann@demo", hub.token("ann", "demo")) == (2, 0)


async def attach(hub: RunningHub, attributes: dict[str, Any], rid: object) -> tuple[int, int]:
    client = await HClient.open(hub)
    await client.emit("attach", {**attributes, "rid": rid})
    return await client.status()


@pytest.mark.spec("CMD-08")
@pytest.mark.parametrize("window", [5, 0])
async def test_the_rid_must_be_within_the_window(start_server: StartHub, window: int) -> None:
    hub = await start_server(restoring(rid_window=window))
    for offset in {-window, window}:
        for kind in (int, str):
            ann = await HClient.connected(hub, "ann")
            await ann.socket.close()
            rid = ann.attributes["rid"]
            for wrong in (rid + window + 1, str(rid - window - 1)):
                assert await attach(hub, ann.attributes, wrong) == (1, 4)
            assert await attach(hub, ann.attributes, kind(rid + offset)) == (4, 0)


@pytest.mark.spec("CMD-08")
@pytest.mark.parametrize("rid", [None, "", "x", "-1", "1e3", "9" * 30, True, 1.5, [], {}])
async def test_a_rid_that_is_no_number_attaches_only_where_the_window_is_off(
    start_hub: StartHub, rid: object
) -> None:
    off = msgspec.structs.replace(restoring(rid_window=-1), hub="off")
    hub = await start_hub(restoring(), off)
    ann = await HClient.connected(hub, "ann")
    assert await attach(hub, ann.attributes, rid) == (1, 4)
    ann = await HClient.open(hub, name="off")
    assert await ann.connect("ann@off", hub.token("ann", "off")) == (2, 0)
    attributes = await ann.key()
    again = await HClient.open(hub, name="off")
    await again.emit("attach", {**attributes, "rid": rid})
    assert await again.status() == (4, 0)


@pytest.mark.spec("CMD-08")
async def test_the_rid_counts_the_events_that_a_client_was_sent(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    for number in range(7):
        await ann.ask("hEcho", number)
    first = ann.attributes["rid"]
    assert await attach(hub, ann.attributes, first) == (1, 4)
    assert (await ann.ask("hEcho", 1))["status"] == 0, "who cannot attach takes nothing away"
    assert await attach(hub, ann.attributes, first + 8) == (4, 0)


@pytest.mark.spec("CMD-08")
async def test_a_count_that_ends_with_its_node_is_not_checked(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    keys, key = hub.server.node.restore_keys, hash_of(ann.attributes["sid"])
    await keys.flush()
    stored = await hub.server.store.read_session(key, 0)
    assert stored is not None
    assert msgspec.msgpack.decode(stored.state, type=RestorableState).rid is None
    live = await keys.find(key, "demo")
    assert live is not None
    assert live.rid == ann.attributes["rid"]


async def test_a_hub_that_does_not_exist_looks_like_one_that_wants_a_password(
    hub: RunningHub,
) -> None:
    client = await HClient.open(hub, name="nowhere")
    assert await client.connect("ann@nowhere", hub.token("ann", "demo")) == (6, 3)


@pytest.mark.spec("CMD-08")
async def test_who_is_connected_cannot_attach_and_stays_connected(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    await ann.emit("attach", ann.attributes)
    assert await ann.status() == (1, 4)
    assert (await ann.ask("hEcho", 1))["status"] == 0


@pytest.mark.spec("CMD-08")
async def test_attaching_replaces_the_old_socket_and_keeps_the_filters(hub: RunningHub) -> None:
    ann = await HClient.connected(hub, "ann")
    kept = {"name": "cheap", "condition": {"lt": {"payload.price": 10}}}
    assert (await ann.ask("hSetFilter", kept))["status"] == 0
    again = await HClient.open(hub)
    await again.emit("attach", {**ann.attributes, "rid": ann.attributes["rid"] + 1})
    assert await again.status() == (4, 0)
    again.attributes = await again.next("attrs")
    assert (await again.ask("hListFilters"))["result"] == [kept]
    async with asyncio.timeout(20):
        while not ann.socket.closed:
            await ann.socket.receive()


@pytest.mark.spec("CMD-06", "CMD-08")
async def test_filters_hold_for_live_and_missed_messages_also_after_attaching(
    start_server: StartHub,
) -> None:
    hub = await start_server(restoring(rid_window=-1))
    ann, bob = await HClient.connected(hub, "ann"), await HClient.connected(hub, "bob")
    record = {"chid": "news", "owner": "bob@demo", "participants": ["ann@demo", "bob@demo"]}
    assert (await bob.ask("hCreateUpdateChannel", {**record, "active": True}))["status"] == 0
    assert (await ann.ask("hSubscribe", {"chid": "news"}))["status"] == 0
    cheap = {"name": "cheap", "chid": "news", "condition": {"lt": {"payload": 10}}}
    assert (await ann.ask("hSetFilter", cheap))["status"] == 0

    async def say(*prices: int) -> None:
        message = {"chid": "news", "publisher": "bob@demo", "transient": False}
        for price in prices:
            assert (await bob.ask("hPublish", {**message, "payload": price}))["status"] == 0

    await say(30, 7)
    assert (await ann.next("hMessage"))["payload"] == 7
    await ann.socket.close()
    await say(40, 8)
    again = await HClient.open(hub)
    await again.emit("attach", ann.attributes)
    assert await again.status() == (4, 0)
    await say(50, 9)
    assert [(await again.next("hMessage"))["payload"] for _ in range(2)] == [8, 9]


@pytest.mark.spec("CMD-08")
async def test_attaching_can_be_switched_off(start_server: StartHub) -> None:
    hub = await start_server(command_hub(session_restore=False))
    ann = await HClient.open(hub)
    assert await ann.connect("ann@demo", hub.token("ann", "demo")) == (2, 0)
    attributes = await ann.next("attrs")
    await ann.socket.close()
    assert await attach(hub, attributes, attributes["rid"]) == (1, 4)


async def test_the_address_of_the_server_in_hconnect_is_ignored(hub: RunningHub) -> None:
    ann = await HClient.open(hub)
    proof = {"publisher": "ann@demo", "password": hub.token("ann", "demo")}
    await ann.emit("hConnect", {**proof, "serverHost": "elsewhere", "serverPort": "x"})
    assert await ann.status() == (2, 0)


async def test_a_result_before_hconnect_is_not_connected(hub: RunningHub) -> None:
    client = await HClient.open(hub)
    await client.emit("hResult", {"cmd": "a", "reqid": "1", "status": 0})
    assert await client.status() == (6, 7)


async def test_a_second_hconnect_waits_for_the_first(hub: RunningHub) -> None:
    """So none is ever under way when another one is judged."""
    ann = await HClient.open(hub)
    proof = {"publisher": "ann@demo", "password": hub.token("ann", "demo")}
    await ann.emit("hConnect", proof)
    await ann.emit("hConnect", proof)
    assert [await ann.status() for _ in range(2)] == [(2, 0), (2, 5)]
