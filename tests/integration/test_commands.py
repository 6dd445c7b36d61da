"""The built-in commands, through every door: results, statuses, and the order of checks."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from harness.commands import DOORS, Door, Stage, User
from harness.invoking import invoke
from harness.running_hub import StartHub
from harness.topics import STORED, until
from hubbub.client import CommandRefused, connect, sync
from hubbub.domain.commands.mapping import from_message
from hubbub.domain.commands.objects import HMessage, write_message
from hubbub.domain.history import HistoryQuery
from hubbub.domain.notices import Failed, MessageDelivery
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.requests import Publish, PublishItem, SendCommand
from hubbub.domain.rules import HubSettings, Quotas
from hubbub.engine.commands import channels, history
from hubbub.engine.commands.service import Commands

pytestmark = pytest.mark.spec("CMD-03")

OK, TECHNICAL, NOT_CONNECTED, NOT_AUTHORIZED, MISSING, INVALID, NOT_AVAILABLE, TIMEOUT = (
    0, 1, 3, 5, 6, 7, 9, 10,
)  # fmt: skip


@pytest.fixture(params=DOORS)
async def every(request: pytest.FixtureRequest, start_server: StartHub) -> AsyncIterator[Stage]:
    """Each door in turn."""
    stage = await Stage.open(start_server, request.param)
    yield stage
    await stage.close()


# -- commands -------------------------------------------------------------------------------------


async def test_a_conversation_through_every_door(every: Stage) -> None:
    ann, bob, eve = every.user("ann"), every.user("bob"), every.user("eve")
    assert await ann.ask("hEcho", {"a": [1, None]}) == (OK, {"a": [1, None]})
    assert await ann.create("#news@demo", "ann", "bob") == (OK, None)
    assert await bob.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    assert await bob.ask("hGetSubscriptions") == (OK, ["#news@demo"])
    status, message = await ann.publish("news", {"text": "hi"}, transient=False, type="greeting")
    assert status == OK
    assert (message["convid"], message["priority"]) == (message["msgid"], 1)
    assert await bob.ask("hGetLastMessages", {"chid": "#news"}) == (OK, [message])
    assert (await eve.ask("hGetLastMessages", {"chid": "#news"}))[0] == NOT_AUTHORIZED
    status, channels = await bob.ask("hGetChannels")
    assert (status, [each["chid"] for each in channels]) == (OK, ["#news@demo"])
    assert await eve.ask("hGetChannels") == (OK, [])
    assert await bob.ask("hUnsubscribe", {"chid": "news"}) == (OK, None)
    assert await bob.ask("hGetSubscriptions") == (OK, [])


@pytest.mark.spec("ADMIN-03")
async def test_viewers_command_nothing(every: Stage) -> None:
    vera = every.user("vera", Level.VIEWER)
    for answer in (await vera.create("#mine@demo"), await vera.ask("hEcho", 1)):
        assert answer == (NOT_AUTHORIZED, "viewers look on; commands are for clients and services")


@pytest.mark.parametrize("name", ["hEcho", "HECHO", "hecho"])
async def test_names_match_whole_whatever_their_case(ann: User, name: str) -> None:
    assert await ann.ask(name, 1) == (OK, 1)
    assert (await ann.ask(f"{name}2", 1))[0] == NOT_AVAILABLE


async def test_an_echo_of_nothing_is_null(ann: User) -> None:
    assert await ann.ask("hEcho") == (OK, None)


@pytest.mark.spec("CMD-01")
@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"sender": "bob@demo"}, NOT_AUTHORIZED),
        ({"sender": "ann@elsewhere"}, NOT_AUTHORIZED),
        ({"sender": "hnode@demo"}, NOT_AUTHORIZED),
        ({"sender": "ann@demo/any"}, OK),
        ({"sender": None}, MISSING),
        ({"requester": "bob@demo"}, NOT_AUTHORIZED),
        ({"requester": "ann@demo/x"}, OK),
        ({"entity": "#news@demo"}, NOT_AVAILABLE),
        ({"entity": "hnode@elsewhere"}, NOT_AVAILABLE),
        ({"entity": "bob@demo"}, NOT_AVAILABLE),
        ({"sent": "never", "sender": "bob@demo"}, INVALID),
    ],
)
async def test_who_asks_whom_is_checked_after_the_structure(
    every: Stage, more: dict[str, Any], status: int
) -> None:
    assert (await every.user("ann").ask("hEcho", 1, **more))[0] == status


async def test_a_service_asks_for_another_user(stage: Stage, ann: User) -> None:
    service = stage.user("backend", Level.SERVICE)
    await ann.create("news", "ann")
    named = {"requester": "ann@demo"}
    assert await service.ask("hSubscribe", {"chid": "news"}, **named) == (OK, None)
    assert await ann.ask("hGetSubscriptions") == (OK, ["#news@demo"])
    message = {"chid": "news", "publisher": "ann@demo", "payload": 1}
    assert (await service.ask("hPublish", message, **named))[0] == OK
    elsewhere = await service.ask("hGetSubscriptions", requester="ann@elsewhere")
    assert elsewhere[0] == NOT_AUTHORIZED
    assert (await service.ask("hSubscribe", {"chid": "news"}))[0] == NOT_AUTHORIZED


async def test_a_hub_without_the_setting_takes_no_commands(start_hub: StartHub) -> None:
    stage = await Stage.open(start_hub, "http")
    off = msgspec.structs.replace(stage.hub.server.directory.get("demo").settings, commands=False)
    await stage.hub.server.directory.put("demo", "hub", "", off)
    status, text = await stage.user("ann").ask("hEcho", 1)
    assert (status, "`commands`" in text) == (NOT_AVAILABLE, True)


async def test_over_http_only_what_is_no_command_has_another_status(start_hub: StartHub) -> None:
    stage = await Stage.open(start_hub, "http")
    headers = {"Authorization": f"Bearer {stage.user('ann').token}"}
    path = "/v1/hubs/demo/commands"
    for body, status in ((b"{", 400), (b"", 400), (b"\xff", 400), (b"[]", 200), (b"1", 200)):
        async with stage.hub.http.post(path, data=body, headers=headers) as answer:
            assert (answer.status, body) == (status, body)
    async with stage.hub.http.post(path, data=b"{}") as answer:
        assert answer.status == 401
    async with stage.hub.http.get(path, headers=headers) as answer:
        assert answer.status == 405
    large = io.BytesIO(b"[" + b"[]," * 200 * 1024 + b"[]]")
    async with stage.hub.http.post(path, data=large, headers=headers) as answer:
        assert answer.status == 413
        assert "the hCommand has 614404 bytes; at most 589824" in await answer.text()
    assert (await stage.user("ann").send({"reqid": 5}))["status"] == INVALID


async def test_a_frame_that_holds_no_object_is_refused_by_the_protocol(stage: Stage) -> None:
    socket = await stage.hub.socket("demo", token=stage.user("ann").token)
    await socket.send("HCommand", reqID=3, command=[])
    assert (await socket.find("Error"))["error"]["code"] == "malformed"
    await socket.send("HResult", result={"status": 0})
    await socket.send("HCommand", reqID=4, command={})
    answered = await socket.find("HResult")
    assert (answered["reqID"], answered["result"]["status"]) == (4, MISSING)


async def test_too_many_commands_of_a_session_at_once_are_refused(
    stage: Stage, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def wait(*_: object) -> None:
        await gate.wait()

    commands = stage.hub.server.node.feature(Commands)
    monkeypatch.setitem(commands._builtin, "hgetchannels", wait)
    socket = await ann.connected()
    limit = stage.hub.server.node.limits.session_calls
    given = {"reqid": "1", "sender": ann.jid, "entity": "hnode@demo", "cmd": "hGetChannels"}
    for number in range(limit + 1):
        await socket.send(SendCommand(given, 100 + number))
    refused = await socket.hear(100 + limit)
    assert isinstance(refused, Failed)
    gate.set()
    assert (await socket.hear(100)).result["status"] == OK


async def test_a_command_that_takes_too_long_is_answered(
    stage: Stage, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    builtin = stage.hub.server.node.feature(Commands)._builtin
    monkeypatch.setitem(builtin, "hgetchannels", hang)
    assert (await ann.ask("hGetChannels", timeout=5))[0] == TIMEOUT
    monkeypatch.setitem(builtin, "hgetchannels", fail)
    assert (await ann.ask("hGetChannels"))[0] == TECHNICAL


# -- channels -------------------------------------------------------------------------------------


@pytest.mark.spec("CMD-02")
async def test_an_update_replaces_the_whole_channel_and_only_its_owner_may(
    stage: Stage, ann: User
) -> None:
    bob = stage.user("bob")
    assert await ann.create("news", "ann", chdesc="all", priority=3) == (OK, None)
    assert (await bob.create("news", "bob"))[0] == NOT_AUTHORIZED
    assert (await bob.create("news", "bob", owner="ann@demo"))[0] == NOT_AUTHORIZED
    assert (await ann.ask("hCreateUpdateChannel", {"chid": "news", "active": False}))[0] == MISSING
    assert await ann.create("news", "bob") == (OK, None)
    shown = {"chid": "#news@demo", "owner": "ann@demo", "participants": ["bob@demo"]}
    assert await ann.ask("hGetChannels") == (OK, [{**shown, "active": True}])
    wrong: tuple[Any, ...] = (None, [], "news")
    for params in wrong:
        assert (await ann.ask("hCreateUpdateChannel", params))[0] == INVALID


async def test_a_channel_that_others_use_cannot_be_taken(start_server: StartHub) -> None:
    stage = await Stage.open(start_server, rules=STORED)
    ann, service = stage.user("ann"), stage.user("backend", Level.SERVICE)
    socket = await service.connected()
    item = PublishItem("orders", "", b"1", "application/json", store=True)
    await socket.ask(lambda req_id: Publish((msgspec.structs.replace(item, req_id=req_id),)))
    for name in ("orders", "public:x"):
        status, text = await ann.create(name, "ann")
        assert (status, "in use" in text) == (NOT_AUTHORIZED, True)
    granted = stage.user("ann", grants=(Grant("orders", publish=True, subscribe=True),))
    half = stage.user("ann", grants=(Grant("public:x", publish=True),))
    assert (await half.create("public:x"))[0] == NOT_AUTHORIZED
    assert (await granted.create("orders"))[0] == OK
    assert (await service.create("public:x"))[0] == OK
    await stage.close()


async def test_a_hub_has_a_quota_of_channels(start_hub: StartHub) -> None:
    stage = await Stage.open(start_hub, "http")
    directory = stage.hub.server.directory
    settings = directory.get("demo").settings
    quotas = msgspec.structs.replace(settings.quotas, owned_channels=12)
    await directory.put("demo", "hub", "", msgspec.structs.replace(settings, quotas=quotas))
    ann, bob, service = stage.user("ann"), stage.user("bob"), stage.user("root", Level.SERVICE)
    created = [(await ann.create(f"c{n}"))[0] for n in range(11)]
    assert created == [OK] * 10 + [TECHNICAL]  # ann's share
    assert (await ann.create("c1", "ann"))[0] == OK
    assert (await bob.create("bob"))[0] == OK
    assert (await service.create("root"))[0] == OK
    assert (await bob.create("one-too-many"))[0] == TECHNICAL


async def test_only_public_channels_and_ones_own_are_listed(stage: Stage, ann: User) -> None:
    service = stage.user("backend", Level.SERVICE)
    for name, user in (("mine", "ann"), ("shared", "bob"), ("hidden", "eve")):
        owner = stage.user(user)
        await owner.create(name, *(("ann",) if name == "shared" else ()), active=name != "mine")
    await service.create("public:x")
    everybody = stage.user("root", Level.ADMIN)

    async def seen(user: User) -> list[str]:
        return [each["chid"] for each in (await user.ask("hGetChannels"))[1]]

    assert await seen(ann) == ["#mine@demo", "#public:x@demo", "#shared@demo"]
    assert await seen(everybody) == [
        "#hidden@demo", "#mine@demo", "#public:x@demo", "#shared@demo",
    ]  # fmt: skip


async def test_channels_are_bounded_in_size_and_listed_in_portions(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = await ann.create("large", chdesc="x" * channels.MAX_RECORD_BYTES)
    assert (status, "at most 65536" in text) == (INVALID, True)
    for number in range(5):
        await ann.create(f"c{number}", chdesc="x" * 400)
    monkeypatch.setattr(channels, "ANSWER_BYTES", 1200)
    found: list[str] = []
    while part := (await ann.ask("hGetChannels", {"after": found[-1]} if found else None))[1]:
        assert len(part) <= 2
        found += [each["chid"] for each in part]
    assert found == [f"#c{number}@demo" for number in range(5)]
    assert (await ann.ask("hGetChannels", {"after": "#c1@elsewhere"}))[0] == NOT_AVAILABLE


CHANNEL_COMMANDS: dict[str, dict[str, Any]] = {
    "hSubscribe": {},
    "hPublish": {"publisher": "ann@demo"},
    "hGetLastMessages": {},
    "hRelevantMessages": {},
    "hGetThread": {"convid": "c"},
    "hGetThreads": {},
    "hSetFilter": {"name": "f", "relevant": True},
}


@pytest.mark.parametrize("cmd", CHANNEL_COMMANDS)
async def test_a_channel_must_exist_be_active_and_have_the_sender(
    stage: Stage, ann: User, cmd: str
) -> None:
    bob, params = stage.user("bob"), {**CHANNEL_COMMANDS[cmd], "chid": "news"}
    assert (await ann.ask(cmd, params))[0] == NOT_AVAILABLE
    for active, participants, status, word in (
        (False, ("bob",), NOT_AUTHORIZED, "participant" if cmd == "hPublish" else "inactive"),
        (True, ("bob",), NOT_AUTHORIZED, "participant"),
        (False, ("ann",), NOT_AUTHORIZED, "inactive"),
        (True, ("ann",), OK, ""),
    ):
        await bob.create("news", *participants, active=active)
        found, result = await ann.ask(cmd, params)
        assert (found, word in str(result)) == (status, True)
    for chid, status in (("#news@elsewhere", NOT_AVAILABLE), ("a<b", INVALID), (1, INVALID)):
        assert (await ann.ask(cmd, {**params, "chid": chid}))[0] == status
    if cmd != "hSetFilter":
        assert (await ann.ask(cmd, {k: v for k, v in params.items() if k != "chid"}))[0] == MISSING
    missing = MISSING if cmd in ("hSubscribe", "hPublish", "hGetLastMessages") else INVALID
    others: tuple[Any, ...] = (None, [], 5)
    for wrong in others:
        assert (await ann.ask(cmd, wrong))[0] == missing


async def test_unsubscribing_is_refused_in_the_stated_order(stage: Stage, ann: User) -> None:
    async def unsubscribe(chid: str) -> tuple[int, str]:
        status, text = await ann.ask("hUnsubscribe", {"chid": chid})
        return status, text

    assert await unsubscribe("news") == (NOT_AUTHORIZED, "there is no channel #news@demo")
    assert (await unsubscribe("#news@elsewhere"))[0] == NOT_AVAILABLE
    await ann.create("news", "ann", active=False)
    assert "inactive" in (await unsubscribe("news"))[1]
    await ann.create("news", "ann")
    assert "not subscribed" in (await unsubscribe("news"))[1]
    assert (await ann.ask("hUnsubscribe"))[0] == MISSING
    assert (await ann.ask("hUnsubscribe", {}))[0] == MISSING


# -- subscriptions --------------------------------------------------------------------------------


async def deliveries(user: User, count: int) -> list[Any]:
    """The payloads of the next messages that the user's session gets."""
    socket = await user.connected()
    found: list[Any] = []
    async with asyncio.timeout(10):
        while len(found) < count:
            for notice in socket._codec.decode_notices(await _frame(socket)):
                if isinstance(notice, MessageDelivery):
                    found.append(msgspec.json.decode(notice.message.payload))
    return found


async def _frame(socket: Any) -> bytes:
    frame = await socket.connection.recv()
    return frame.encode() if isinstance(frame, str) else frame


async def test_a_subscription_serves_all_sessions_of_the_user_now_and_later(
    stage: Stage, ann: User
) -> None:
    await ann.create("news", "ann", "bob")
    bob, elsewhere, later = (stage.user("bob") for _ in range(3))
    await elsewhere.connected()
    assert await bob.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    assert (await bob.ask("hSubscribe", {"chid": "news"}))[0] == NOT_AUTHORIZED
    await later.connected()
    node = stage.hub.server.node
    await until(lambda: node.hub("demo").feeds["news"].subscribers == 3)
    await ann.publish("news", 1)
    for session in (bob, elsewhere, later):
        assert await deliveries(session, 1) == [1]
    assert await elsewhere.ask("hUnsubscribe", {"chid": "news"}) == (OK, None)
    assert "news" not in node.hub("demo").feeds


async def test_new_participants_are_not_subscribed_and_removed_ones_are_no_longer(
    stage: Stage, ann: User
) -> None:
    bob = stage.user("bob")
    await ann.create("news", "ann")
    await ann.create("news", "ann", "bob")
    assert await bob.ask("hGetSubscriptions") == (OK, [])
    await bob.ask("hSubscribe", {"chid": "news"})
    await ann.create("news", "ann", active=False)
    await ann.create("news", "ann", "bob")
    assert await bob.ask("hGetSubscriptions") == (OK, [])
    assert "news" not in stage.hub.server.node.hub("demo").feeds


async def test_a_subscription_rests_while_its_channel_is_inactive(stage: Stage, ann: User) -> None:
    await ann.create("news", "ann")
    await ann.ask("hSubscribe", {"chid": "news"})
    await ann.create("news", "ann", active=False)
    assert await ann.ask("hGetSubscriptions") == (OK, [])
    later = stage.user("ann")
    await later.connected()
    await ann.create("news", "ann")
    assert await ann.ask("hGetSubscriptions") == (OK, ["#news@demo"])
    feeds = stage.hub.server.node.hub("demo").feeds
    await until(lambda: feeds["news"].subscribers == 2)


async def test_over_http_there_is_no_session_to_serve(start_server: StartHub) -> None:
    stage = await Stage.open(start_server, "http")
    ann = stage.user("ann")
    await ann.create("news", "ann")
    assert await ann.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    session = stage.user("ann", door="json")
    await session.connected()
    await until(lambda: "news" in stage.hub.server.node.hub("demo").feeds)
    await stage.close()


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.spec("CMD-01")
@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"publisher": "bob@demo"}, NOT_AUTHORIZED),
        ({"publisher": None}, MISSING),
        ({"priority": 9}, INVALID),
        ({"convid": "x" * 300}, INVALID),
        ({"convid": "a\nb"}, INVALID),
        ({"location": "here"}, INVALID),
        ({"location": {"k": "x" * 2000}}, INVALID),
        ({"headers": {"k": "x" * 9000}}, INVALID),
    ],
)
async def test_a_message_that_cannot_be_is_refused(
    ann: User, more: dict[str, Any], status: int
) -> None:
    await ann.create("news", "ann")
    params = {"chid": "news", "publisher": "ann@demo", **more}
    found, text = await ann.ask("hPublish", params)
    assert (found, next(iter(more)) in text) == (status, True)


@pytest.mark.spec("CMD-07")
async def test_only_messages_that_are_not_transient_are_stored(stage: Stage, ann: User) -> None:
    await ann.create("news", "ann")
    for number, more in enumerate(({}, {"transient": True}, {"transient": False})):
        assert (await ann.publish("news", number, **more))[0] == OK
    status, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert (status, [each["payload"] for each in found]) == (OK, [2])
    rules = msgspec.structs.replace(STORED, store_by_default=True)
    await stage.hub.server.directory.put("demo", "rules", "closed", rules)
    await ann.publish("news", 3)
    await ann.publish("news", 4, transient=True)
    status, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert [each["payload"] for each in found] == [3, 2]


@pytest.mark.spec("CMD-01", "CMD-03")
async def test_messages_take_over_whatever_location_their_channel_has(ann: User) -> None:
    await ann.create("news", "ann", location={"lat": "1234"}, headers={"h": 1})
    status, sent = await ann.publish("news", "x")
    assert (status, sent["location"]) == (OK, {"lat": "1234"})
    status, sent = await ann.publish("news", "x", location={"lng": True, "lat": 100})
    assert (status, sent["location"]) == (OK, {"lng": True, "lat": 100})


@pytest.mark.spec("CMD-01", "CMD-03")
@pytest.mark.parametrize(
    "more",
    [
        {"location": {"k": "x" * 2000}},
        {"headers": {"k": "x" * 9000}},
        {"location": {"k": 2**70}},
    ],
)
async def test_a_channel_whose_messages_could_not_be_published_is_refused(
    ann: User, more: dict[str, Any]
) -> None:
    await ann.create("news", "ann")
    whole = {"chid": "#news@demo", "owner": "ann@demo", "participants": ["ann@demo"]}
    found, text = await ann.ask("hCreateUpdateChannel", {**whole, "active": True, **more})
    assert (found, next(iter(more)) in text) == (INVALID, True)
    assert (await ann.publish("news", "x"))[0] == OK


@pytest.mark.spec("CMD-07")
async def test_history_returns_messages_as_they_were_delivered(stage: Stage, ann: User) -> None:
    await ann.create(
        "news",
        "ann",
        "bob",
        priority=2,
        headers={"h": 1, "MAX_MSG_RETRIEVAL": 5},
        location={"a": 1},
    )
    more = {
        "type": "hAlert",
        "author": "zoe@elsewhere",
        "published": "2012-07-06T10:00:00.000Z",
        "relevance": "2100-01-01T00:00:00.000Z",
        "publisher": "ann@demo/tab 1",
        "strange": [1],
        "transient": False,
    }
    status, sent = await ann.publish("news", {"deep": [1, {"b": None}]}, **more)
    assert status == OK
    assert sent == {
        **more,
        "msgid": sent["msgid"],
        "convid": sent["msgid"],
        "chid": "#news@demo",
        "priority": 2,
        "headers": {"h": 1},
        "location": {"a": 1},
        "payload": {"deep": [1, {"b": None}]},
    }
    await ann.create("news", "ann", "bob", priority=4)
    bob = stage.user("bob")
    assert await bob.ask("hGetLastMessages", {"chid": "news"}) == (OK, [sent])
    assert await bob.ask("hRelevantMessages", {"chid": "news"}) == (OK, [sent])


async def test_the_last_messages_are_as_many_as_asked_for(stage: Stage, ann: User) -> None:
    await ann.create("news", "ann", headers={"MAX_MSG_RETRIEVAL": "12"})
    for number in range(15):
        await ann.publish("news", number, transient=False)

    async def last(**params: Any) -> list[int]:
        status, found = await ann.ask("hGetLastMessages", {"chid": "news", **params})
        assert status == OK
        return [each["payload"] for each in found]

    newest = list(reversed(range(15)))
    assert await last(nbLastMsg=3) == newest[:3]
    assert await last(nbLastMsg=2.0) == newest[:2]
    assert await last(nbLastMsg="4") == newest[:4]
    assert await last(nbLastMsg=" 4.0 ") == newest[:4]
    assert await last(nbLastMsg="1e400") == newest[:10]
    assert await last() == newest[:12]
    odds: tuple[Any, ...] = ("four", "", "0", True, 0, -1, [], 0.5)
    for odd in odds:
        assert await last(nbLastMsg=odd) == newest[:10]
    assert await last(nbLastMsg=5000) == newest
    await ann.create("news", "ann", headers={"MAX_MSG_RETRIEVAL": "many"})
    assert await last() == newest[:10]


async def test_last_messages_come_in_the_order_of_their_publication(ann: User) -> None:
    await ann.create("news", "ann")
    for year in (2003, 2001, 2002):
        await ann.publish("news", year, transient=False, published=f"{year}-01-01")
    _, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert [each["payload"] for each in found] == [2003, 2002, 2001]
    # Also where it decides which messages these are.
    _, found = await ann.ask("hGetLastMessages", {"chid": "news", "nbLastMsg": 2})
    assert [each["payload"] for each in found] == [2003, 2002]


async def test_relevant_messages_come_in_pages_the_newest_first(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_PAGE", 4)
    await ann.create("news", "ann")
    for number in range(11):
        relevance = "2100-01-01" if number % 2 else "2001-01-01"
        await ann.publish("news", number, transient=False, relevance=relevance)
    await ann.publish("news", "never", transient=False)
    page: dict[str, Any] = {"chid": "news", "limit": 2}
    found: list[int] = []
    while messages := (await ann.ask("hRelevantMessages", page))[1]:
        found += [each["payload"] for each in messages]
        page["after"] = messages[-1]["msgid"]
    assert found == [9, 7, 5, 3, 1]
    for name, value in (("limit", 0), ("limit", 1001), ("limit", True), ("after", 1)):
        wrong = {"chid": "news", name: value}
        assert (await ann.ask("hRelevantMessages", wrong))[0] == INVALID


async def test_messages_of_other_doors_are_hmessages(stage: Stage, ann: User) -> None:
    await ann.create("news", "ann")
    headers = {"Authorization": f"Bearer {ann.token}", "Content-Type": "text/plain"}
    path = "/v1/hubs/demo/channels/news/messages?store=true&event=note"
    async with stage.hub.http.post(path, data=b"plain", headers=headers) as answer:
        assert answer.status == 200
    _, (message,) = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert (message["payload"], message["type"], message["publisher"]) == (
        "plain", "note", "ann@demo",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("chid", "status"),
    [("bob@elsewhere", NOT_AVAILABLE), ("hnode@demo", NOT_AVAILABLE), ("@demo", INVALID)],
)
async def test_nobody_outside_of_the_hub_is_sent_a_message(
    ann: User, chid: str, status: int
) -> None:
    assert (await ann.publish(chid, 1))[0] == status


async def test_a_message_to_a_user_has_the_bounds_and_quotas_of_every_message(
    start_hub: StartHub,
) -> None:
    stage = await Stage.open(start_hub, "http", quotas=Quotas(messages_per_second=1))
    ann = stage.user("ann")
    assert (await ann.publish("bob@demo", "x" * 300_000))[0] == INVALID
    status, text = await ann.publish("bob@demo", 1, convid="x" * 10_000)
    assert (status, "convid" in text) == (INVALID, True)
    statuses = [(await ann.publish("bob@demo", 1))[0] for _ in range(20)]
    assert set(statuses) == {OK, TECHNICAL}


# -- threads and filters --------------------------------------------------------------------------


@pytest.mark.spec("CMD-07")
@pytest.mark.spec("CMD-07")
@pytest.mark.parametrize("chid", ["bob@demo", "bob@demo/s1"])
async def test_a_stored_message_to_a_user_keeps_its_receiver(
    stage: Stage, ann: User, chid: str
) -> None:
    status, sent = await ann.publish(chid, {"text": "hi"}, transient=False)
    assert (status, sent["chid"]) == (OK, chid)
    query = HistoryQuery("demo", "hDirectMessages", 10)
    (kept,) = (await stage.hub.server.node.bus.ask(query)).messages
    assert kept.attributes is not None
    assert kept.attributes.receiver == "bob"
    assert write_message(from_message(kept)) == sent


async def test_threads_are_listed_by_their_first_message_and_read_whole(ann: User) -> None:
    await ann.create("news", "ann")
    begun: list[str] = []
    for number in range(4):
        _, message = await ann.publish("news", number, transient=False)
        begun.append(message["msgid"])
    for number, convid in enumerate((begun[2], begun[0], begun[2])):
        await ann.publish("news", f"reply {number}", transient=False, convid=convid)
    state = {"type": "hconvstate", "transient": False}
    await ann.publish("news", {"status": "open"}, convid=begun[1], **state)
    await ann.publish("news", {"status": "closed"}, convid=begun[1], **state)
    await ann.publish("news", {"status": "open"}, convid=begun[3], **state)
    chid = {"chid": "news"}
    assert await ann.ask("hGetThreads", chid) == (OK, begun)
    assert await ann.ask("hGetThreads", {**chid, "limit": 2, "after": begun[0]}) == (
        OK, begun[1:3],
    )  # fmt: skip
    assert await ann.ask("hGetThreads", {**chid, "status": "open"}) == (OK, [begun[3]])
    _, thread = await ann.ask("hGetThread", {**chid, "convid": begun[2]})
    assert [each["payload"] for each in thread] == [2, "reply 0", "reply 2"]
    rest = {**chid, "convid": begun[2], "after": begun[2], "limit": 1}
    _, thread = await ann.ask("hGetThread", rest)
    assert [each["payload"] for each in thread] == ["reply 0"]
    assert await ann.ask("hGetThread", {**chid, "convid": "nothing"}) == (OK, [])
    assert (await ann.ask("hGetThread", chid))[0] == MISSING
    assert (await ann.ask("hGetThread", {**chid, "convid": 1}))[0] == INVALID
    assert (await ann.ask("hGetThreads", {**chid, "status": 1}))[0] == INVALID


@pytest.mark.spec("CMD-06")
async def test_filters_of_a_session_hold_for_live_messages_and_history(
    stage: Stage, ann: User
) -> None:
    await ann.create("news", "ann", "bob")
    bob = stage.user("bob")
    await bob.ask("hSubscribe", {"chid": "news"})
    large = {"name": "large", "chid": "news", "condition": {"gte": {"payload.n": 2}}}
    assert await bob.ask("hSetFilter", large) == (OK, None)
    convids: list[str] = []
    for number in range(4):
        _, message = await ann.publish("news", {"n": number}, transient=False)
        convids.append(message["msgid"])
    assert await deliveries(bob, 2) == [{"n": 2}, {"n": 3}]
    chid = {"chid": "news"}
    _, found = await bob.ask("hGetLastMessages", {**chid, "nbLastMsg": 5})
    assert [each["payload"]["n"] for each in found] == [3, 2]
    assert await bob.ask("hGetThreads", chid) == (OK, convids[2:])
    assert await bob.ask("hGetThread", {**chid, "convid": convids[0]}) == (OK, [])
    shown = {**large, "chid": "#news@demo"}
    assert await bob.ask("hListFilters") == (OK, [shown])
    assert await bob.ask("hListFilters", {"chid": "other"}) == (OK, [])
    assert await ann.ask("hListFilters") == (OK, [])
    one = {"name": "large", "template": {"publisher": "ann@demo/tab"}}
    assert await bob.ask("hSetFilter", one) == (OK, None)
    assert await bob.ask("hListFilters") == (OK, [shown, one])
    assert await bob.ask("hUnsetFilter", {"name": "large"}) == (OK, None)
    assert (await bob.ask("hUnsetFilter", {"name": "large"}))[0] == NOT_AVAILABLE
    assert (await bob.ask("hUnsetFilter", {}))[0] == MISSING
    assert (await bob.ask("hUnsetFilter"))[0] == INVALID


@pytest.mark.spec("CMD-06")
@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"name": "f"}, MISSING),
        ({"relevant": True}, MISSING),
        ({"name": 1, "relevant": True}, INVALID),
        ({"name": "f", "template": {"msgid": "x"}}, INVALID),
        ({"name": "f", "template": {"headers": 1}}, INVALID),
        ({"name": "f", "template": {"a": 1}, "radius": 5}, MISSING),
        ({"name": "f", "template": {"location": {"lat": 1, "lng": 1}}, "radius": 0}, INVALID),
        ({"name": "f", "condition": {"like": {}}}, INVALID),
        ({"name": "f", "condition": {"eq": 1}}, INVALID),
    ],
)
async def test_a_filter_that_cannot_be_is_refused(
    ann: User, params: dict[str, Any], status: int
) -> None:
    assert (await ann.ask("hSetFilter", params))[0] == status


async def test_filters_need_a_session(start_hub: StartHub) -> None:
    ann = (await Stage.open(start_hub, "http")).user("ann")
    for cmd in ("hSetFilter", "hUnsetFilter", "hListFilters"):
        assert (await ann.ask(cmd, {"name": "f", "relevant": True}))[0] == NOT_CONNECTED


# -- storing --------------------------------------------------------------------------------------


@pytest.mark.spec("CMD-07")
async def test_commands_are_stored_with_their_results_under_one_id(stage: Stage, ann: User) -> None:
    assert (await ann.ask("hEcho", {"a": 1}, transient=False))[0] == OK
    assert (await ann.ask("hNothing", transient=False))[0] == NOT_AVAILABLE
    for more in ({}, {"transient": True}):
        await ann.ask("hEcho", 2, **more)
    store = stage.hub.server.store
    commands = (await store.read_after("demo", "hCommands", 0, 10)).messages
    results = (await store.read_after("demo", "hResults", 0, 10)).messages
    assert [message.id for message in commands] == [message.id for message in results]
    kept = [msgspec.json.decode(message.payload) for message in commands]
    sent = kept[0].pop("sent")
    assert kept[0] == {
        "sender": "ann@demo", "entity": "hnode@demo", "cmd": "hEcho", "params": {"a": 1},
    }  # fmt: skip
    assert sent.endswith("Z")
    kept = [msgspec.json.decode(message.payload) for message in results]
    assert kept[0] == {"cmd": "hEcho", "status": 0, "result": {"a": 1}}
    assert kept[1]["status"] == NOT_AVAILABLE
    headers = {"Authorization": f"Bearer {ann.token}"}
    path = "/v1/hubs/demo/channels/hCommands/messages"
    async with stage.hub.http.get(path, headers=headers) as answer:
        assert answer.status == 403
    assert (await ann.create("hCommands", "ann"))[0] == INVALID
    await stage.hub.server.directory.put("demo", "hub", "", HubSettings(default_rules="public"))
    async with stage.hub.http.get(path, headers=headers) as answer:
        assert answer.status == 403, "what was stored stays closed when commands are switched off"


@pytest.mark.spec("CMD-05")
async def test_validators_of_channels_subscriptions_and_messages_answer_commands(
    stage: Stage, ann: User
) -> None:
    seen: list[str] = []

    async def judge(document: dict[str, Any], context: Any) -> Any:
        seen.append(context.collection)
        return (5, "not here") if "bad" in str(document) else None

    for collection in ("hChannels", "hSubscriptions", "hMessages"):
        stage.hub.server.add_validator(collection, judge)
    assert await ann.create("bad", "ann") == (NOT_AUTHORIZED, "not here")
    assert (await ann.create("news", "ann"))[0] == OK
    assert (await ann.ask("hSubscribe", {"chid": "news"}))[0] == OK
    assert await ann.publish("news", "bad", transient=False) == (NOT_AUTHORIZED, "not here")
    assert (await ann.publish("news", "bad"))[0] == OK
    assert await ann.ask("hGetLastMessages", {"chid": "news"}) == (OK, [])
    assert seen == ["hChannels", "hChannels", "hSubscriptions", "#news@demo"]


# -- clients --------------------------------------------------------------------------------------


async def test_the_python_client_sends_commands(stage: Stage, ann: User) -> None:
    async with connect(f"ws://{stage.hub.address}", hub="demo", token=ann.token) as client:
        assert await client.command("hEcho", [1]) == [1]
        record = {"chid": "news", "owner": ann.jid, "participants": [], "active": True}
        assert await client.command("hCreateUpdateChannel", record) is None
        with pytest.raises(CommandRefused) as refused:
            await client.command("hSubscribe", {"chid": "news"})
        assert refused.value.status == NOT_AUTHORIZED
        with pytest.raises(CommandRefused, match="nobody"):
            await client.command("hEcho", entity="bob@elsewhere", timeout=1)

    def ask() -> Any:
        url = f"ws://{stage.hub.address}"
        with sync.connect(url, hub="demo", token=ann.token) as blocking:
            return blocking.command("hEcho", {"a": None})

    assert await asyncio.to_thread(ask) == {"a": None}


async def test_the_command_line_sends_commands(stage: Stage, ann: User) -> None:
    env = {
        "HUBBUB_URL": f"http://{stage.hub.address}",
        "HUBBUB_HUB": "demo",
        "HUBBUB_TOKEN": ann.token,
    }
    done = await invoke("command", "hEcho", '{"a": 1}', **env)
    assert (done.code, done.out.strip()) == (0, '{"a":1}')
    done = await invoke("command", "hSubscribe", '{"chid": "x"}', **env)
    assert done.code == 1
    assert "status 9: there is no channel #x@demo" in done.err
    done = await invoke("command", "hEcho", "{", **env)
    assert (done.code, "PARAMS is no JSON" in done.err) == (2, True)
    done = await invoke("command", "hEchoo", **env)
    assert "there is no command 'hEchoo'; did you mean hEcho?" in done.err
    done = await invoke("command", "hSetFilter", '{"name": "f", "relevant": true}', **env)
    assert (done.code, done.out, "subscribe --where" in done.err) == (0, "", True)


def test_every_door_is_tried() -> None:
    assert set(DOORS) == set(Door.__args__)  # type: ignore[attr-defined]


async def test_a_long_answer_is_written_in_slices_between_which_others_are_served(
    every: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = every.user("ann")
    await ann.create("news", "ann")
    for _ in range(30):
        message = {"chid": "#news", "publisher": ann.jid, "transient": False, "payload": "x" * 2000}
        await ann.ask("hPublish", message)
    written = 0

    def counted(message: HMessage) -> dict[str, Any]:
        nonlocal written
        written += 1
        return write_message(message)

    monkeypatch.setattr(history, "write_message", counted)
    asking = asyncio.ensure_future(ann.ask("hGetLastMessages", {"chid": "#news", "nbLastMsg": 30}))
    seen = set()
    while not asking.done():
        seen.add(written)
        await asyncio.sleep(0)
    _, found = await asking
    assert len(found) == 30
    assert len(seen) >= 4
