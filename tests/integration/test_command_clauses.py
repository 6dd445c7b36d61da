"""Single sentences of Hubiquitus' contract that hold across commands: order of checks, channels of
other doors, what is stored, what filters leave alone, and how long is waited."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from harness.auth_provider import auth_provider, saying
from harness.commands import Stage, User, command_hub
from harness.hubiquitus import SUBPROTOCOL, HClient, restoring
from harness.running_hub import StartHub
from harness.topics import until
from hubbub.domain.filters import filters
from hubbub.domain.notices import CommandReceived, MessageDelivery
from hubbub.domain.permissions import Level
from hubbub.domain.requests import AnswerCommand
from hubbub.domain.rules import AuthProvider
from hubbub.engine.commands import history, routing
from hubbub.engine.commands.service import Commands

pytestmark = pytest.mark.spec("CMD-03")

OK, TECHNICAL, NOT_AUTHORIZED, MISSING, INVALID, NOT_AVAILABLE, TIMEOUT = 0, 1, 5, 6, 7, 9, 10


async def heard(user: User, kind: type[Any]) -> Any:
    """The next notice of this kind."""
    socket = await user.connected()
    async with asyncio.timeout(10):
        while True:
            for notice in socket._heard:
                if isinstance(notice, kind):
                    socket._heard.remove(notice)
                    return notice
            frame = await socket.connection.recv()
            data = frame.encode() if isinstance(frame, str) else frame
            socket._heard += socket._codec.decode_notices(data)


async def payload(user: User) -> Any:
    return msgspec.json.decode((await heard(user, MessageDelivery)).message.payload)


async def stored(stage: Stage, collection: str) -> list[dict[str, Any]]:
    page = await stage.hub.server.store.read_after("demo", collection, 0, 10)
    return [{"id": each.id, **msgspec.json.decode(each.payload)} for each in page.messages]


# -- order and existence --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "status"),
    [({"type": 1}, INVALID), ({"publisher": "bob@demo"}, NOT_AUTHORIZED), ({}, NOT_AVAILABLE)],
)
async def test_the_channel_of_a_message_is_checked_last(
    ann: User, wrong: dict[str, Any], status: int
) -> None:
    assert (await ann.publish("nowhere", 1, **wrong))[0] == status


async def test_a_channel_that_only_other_doors_use_is_not_available(
    stage: Stage, ann: User
) -> None:
    service = stage.user("backend", Level.SERVICE)
    headers = {"Authorization": f"Bearer {service.token}"}
    path = "/v1/hubs/demo/channels/public:x/messages"
    async with stage.hub.http.post(path, json=1, headers=headers) as answer:
        assert answer.status == 200
    chid = {"chid": "public:x"}
    for cmd, more in (
        ("hSubscribe", {}),
        ("hPublish", {"publisher": "ann@demo"}),
        ("hGetLastMessages", {}),
        ("hRelevantMessages", {}),
        ("hGetThread", {"convid": "c"}),
        ("hGetThreads", {}),
        ("hSetFilter", {"name": "f", "relevant": True}),
    ):
        assert (await ann.ask(cmd, {**chid, **more}))[0] == NOT_AVAILABLE, cmd


async def test_the_name_of_the_hub_is_nobody_s(stage: Stage) -> None:
    assert (await stage.user("hnode").ask("hEcho", 1))[0] == NOT_AUTHORIZED


@pytest.mark.spec("CMD-02")
async def test_an_update_that_is_refused_unsubscribes_nobody(stage: Stage, ann: User) -> None:
    bob = stage.user("bob")
    await ann.create("news", "bob")
    await bob.ask("hSubscribe", {"chid": "news"})
    for wrong in ({"priority": 9}, {"active": "no"}, {"owner": "bob@demo"}):
        assert (await ann.create("news", **wrong))[0] in (INVALID, NOT_AUTHORIZED)
    assert await bob.ask("hGetSubscriptions", sender="bob@demo/tab") == (OK, ["#news@demo"])


# -- messages -------------------------------------------------------------------------------------


async def test_a_publisher_hears_itself_only_where_it_subscribed_and_nothing_waits_for_the_absent(
    stage: Stage, ann: User
) -> None:
    await ann.create("news", "ann", "bob")
    bob = stage.user("bob")
    await bob.ask("hSubscribe", {"chid": "news"})
    assert (await ann.publish("news", "without a subscription", transient=False))[0] == OK
    assert await payload(bob) == "without a subscription"
    await (await bob.connected()).connection.close()
    await ann.ask("hSubscribe", {"chid": "news"})
    later = stage.user("bob")
    assert (await ann.publish("news", "mine", transient=False))[0] == OK
    assert await payload(ann) == "mine"
    await later.connected()
    feeds = stage.hub.server.node.hub("demo").feeds
    await until(lambda: feeds["news"].subscribers == 2)
    assert (await ann.publish("bob@demo", "for those who are there"))[0] == OK
    assert await payload(later) == "for those who are there"


async def test_there_are_never_more_last_messages_than_the_bound(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert history.MAX_LAST == 1000
    monkeypatch.setattr(history, "MAX_LAST", 2)
    await ann.create("news", "ann")
    for number in range(3):
        await ann.publish("news", number, transient=False)
    _, found = await ann.ask("hGetLastMessages", {"chid": "news", "nbLastMsg": 3})
    assert [each["payload"] for each in found] == [2, 1]


# -- filters --------------------------------------------------------------------------------------


@pytest.mark.spec("CMD-06")
async def test_filters_hold_for_direct_and_relevant_messages_and_for_nothing_that_one_sends(
    stage: Stage, ann: User
) -> None:
    bob = stage.user("bob")
    await ann.create("news", "ann", "bob")
    await bob.ask("hSetFilter", {"name": "large", "condition": {"gte": {"payload": 2}}})
    relevance = {"relevance": "2100-01-01", "transient": False}
    for number in (1, 2):
        assert (await bob.publish("news", number, **relevance))[0] == OK, "publishing is not"
        assert (await ann.publish("bob@demo", number))[0] == OK
    assert await payload(bob) == 2
    _, found = await bob.ask("hRelevantMessages", {"chid": "news"})
    assert [each["payload"] for each in found] == [2]
    _, found = await ann.ask("hRelevantMessages", {"chid": "news"})
    assert [each["payload"] for each in found] == [2, 1]
    assert await bob.ask("hEcho", 1) == (OK, 1), "results are not"
    asking = asyncio.ensure_future(ann.ask("ring", 1, entity="bob@demo"))
    command = (await heard(bob, CommandReceived)).command
    assert command["params"] == 1, "commands are not"
    answer = {"cmd": "ring", "reqid": command["reqid"], "status": 0, "result": 1}
    await (await bob.connected()).send(AnswerCommand(answer))
    assert await asking == (OK, 1)


@pytest.mark.spec("CMD-06")
async def test_a_thread_is_judged_by_its_first_message_alone(stage: Stage, ann: User) -> None:
    bob = stage.user("bob")
    await ann.create("news", "ann", "bob")
    await bob.ask("hSetFilter", {"name": "large", "condition": {"gte": {"payload": 2}}})
    convids: list[str] = []
    for first, reply in ((5, 0), (0, 9)):
        _, message = await ann.publish("news", first, transient=False)
        await ann.publish("news", reply, transient=False, convid=message["convid"])
        convids.append(message["convid"])
    assert await bob.ask("hGetThreads", {"chid": "news"}) == (OK, convids[:1])
    _, whole = await bob.ask("hGetThread", {"chid": "news", "convid": convids[0]})
    assert [each["payload"] for each in whole] == [5, 0]
    assert await bob.ask("hGetThread", {"chid": "news", "convid": convids[1]}) == (OK, [])


@pytest.mark.spec("CMD-06")
async def test_filters_of_a_session_are_bounded_and_outlive_a_channel_that_one_has_lost(
    stage: Stage, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert filters.MAX_FILTERS == 100
    monkeypatch.setattr(filters, "MAX_FILTERS", 3)
    bob = stage.user("bob")
    await ann.create("news", "bob")
    of_news = {"name": "f", "chid": "#news@demo", "relevant": True}
    assert await bob.ask("hSetFilter", of_news) == (OK, None)
    assert await bob.ask("hSetFilter", {"name": "f", "chid": "", "condition": {}}) == (OK, None)
    assert await bob.ask("hSetFilter", {"name": "g", "condition": {}}) == (OK, None)
    assert await bob.ask("hSetFilter", {"name": "f", "relevant": True}) == (OK, None)
    status, text = await bob.ask("hSetFilter", {"name": "h", "condition": {}})
    assert (status, "unset one" in text) == (TECHNICAL, True)
    _, listed = await bob.ask("hListFilters")
    assert listed == [of_news, {"name": "f", "relevant": True}, {"name": "g", "condition": {}}]
    await ann.create("news")
    assert (await bob.ask("hSetFilter", of_news))[0] == NOT_AUTHORIZED
    assert await bob.ask("hListFilters", {"chid": "news"}) == (OK, [of_news])
    assert await bob.ask("hUnsetFilter", {"name": "f", "chid": "news"}) == (OK, None)
    assert len((await bob.ask("hListFilters"))[1]) == 2


# -- threads --------------------------------------------------------------------------------------


@pytest.mark.spec("CMD-07")
async def test_pages_of_threads_have_bounds_and_go_on_behind_what_is_stored(
    stage: Stage, ann: User
) -> None:
    await ann.create("news", "ann")
    service = stage.user("backend", Level.SERVICE)
    stored = {"channel": "news", "extra": {"store": True}}
    items = [
        {**stored, "payload": {"json": n}, "conversationID": name}
        for names in (["long"] * 101, [f"c{n}" for n in range(101)])
        for n, name in enumerate(names)
    ]
    async with stage.hub.http.post(
        "/v1/hubs/demo/messages",
        json={"publishes": items},
        headers={"Authorization": f"Bearer {service.token}"},
    ) as answer:
        assert answer.status == 200, await answer.text()
    chid, long = {"chid": "news"}, {"chid": "news", "convid": "long"}
    names = ["long", *(f"c{n}" for n in range(101))]
    assert await ann.ask("hGetThreads", chid) == (OK, names[:100])
    assert await ann.ask("hGetThreads", {**chid, "limit": 1000}) == (OK, names)
    assert await ann.ask("hGetThreads", {**chid, "after": names[99]}) == (OK, names[100:])
    assert await ann.ask("hGetThreads", {**chid, "after": names[-1]}) == (OK, [])
    _, page = await ann.ask("hGetThread", long)
    assert [each["payload"] for each in page] == list(range(100))
    _, rest = await ann.ask("hGetThread", {**long, "after": page[-1]["msgid"], "limit": 1000})
    assert [each["payload"] for each in rest] == [100]
    for cmd, params in (("hGetThread", long), ("hGetThreads", chid)):
        assert (await ann.ask(cmd, {**params, "limit": 1001}))[0] == INVALID
        status, text = await ann.ask(cmd, {**params, "after": "gone"})
        assert (status, "'gone'" in text) == (NOT_AVAILABLE, True)


# -- waiting and storing --------------------------------------------------------------------------


@pytest.mark.spec("CMD-07")
async def test_commands_to_clients_are_stored_with_their_results_also_after_a_timeout(
    stage: Stage, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert routing.DEFAULT_SECONDS == 5
    bob = stage.user("bob")
    await bob.connected()
    asking = asyncio.ensure_future(ann.ask("ring", 1, entity="bob@demo", transient=False))
    command = (await heard(bob, CommandReceived)).command
    assert command["sent"].endswith("Z"), "filled in where it is absent"
    answer = {"cmd": "ring", "reqid": command["reqid"], "status": 0, "result": "rang"}
    await (await bob.connected()).send(AnswerCommand(answer))
    assert await asking == (OK, "rang")
    monkeypatch.setattr(routing, "DEFAULT_SECONDS", 0.02)
    assert (await ann.ask("ring", 2, entity="bob@demo", transient=False))[0] == TIMEOUT

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setitem(stage.hub.server.node.feature(Commands)._builtin, "hgetchannels", hang)
    assert (await ann.ask("hGetChannels", timeout=5, transient=False))[0] == TIMEOUT
    commands, results = await stored(stage, "hCommands"), await stored(stage, "hResults")
    assert [each["id"] for each in commands] == [each["id"] for each in results]
    assert [each["cmd"] for each in commands] == ["ring", "ring", "hGetChannels"]
    assert [each["status"] for each in results] == [OK, TIMEOUT, TIMEOUT]
    assert results[0]["result"] == "rang"
    assert not {"reqid", "transient"} & set().union(*commands, *results)


@pytest.mark.spec("CMD-05")
async def test_a_saver_that_takes_too_long_is_a_timeout_and_the_message_is_stored(
    stage: Stage, ann: User
) -> None:
    saved = asyncio.Event()

    async def hang(*_: object) -> None:
        saved.set()
        await asyncio.Event().wait()

    stage.hub.server.add_saver("hMessages", hang)
    await ann.create("news", "ann")
    message = {"chid": "news", "publisher": ann.jid, "payload": 1, "transient": False}
    assert (await ann.ask("hPublish", message, timeout=50))[0] == TIMEOUT
    await asyncio.wait_for(saved.wait(), 10)
    _, found = await ann.ask("hGetLastMessages", {"chid": "news"})
    assert [each["payload"] for each in found] == [1]


# -- the connection -------------------------------------------------------------------------------


@pytest.mark.spec("CMD-01")
@pytest.mark.parametrize("password", ["secret", "s.e.cret"])
async def test_a_password_that_is_no_token_is_asked_of_the_auth_provider(
    start_hub: StartHub, password: str
) -> None:
    async with auth_provider() as provider:
        hub = msgspec.structs.replace(
            command_hub(auth_provider="main"), auth_providers={"main": AuthProvider(provider.url)}
        )
        running = await start_hub(hub)
        refused = await HClient.open(running)
        assert await refused.connect("ann@demo", password) == (6, 3)
        provider.answer = saying({"success": True, "userID": "ann"})
        client = await HClient.open(running)
        assert await client.connect("ann@demo/tab", password) == (2, 0)
        asked = msgspec.json.decode(provider.requests[-1][1])
        assert {"publisher": "ann@demo", "password": password}.items() <= _flat(asked).items()
        await client.key()
        assert (await client.ask("hEcho", 1))["status"] == OK
        eve = await HClient.open(running)
        assert await eve.connect("eve@demo", password) == (6, 3), "the provider says who it is"


def _flat(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, **next((each for each in value.values() if isinstance(each, dict)), {})}


@pytest.mark.spec("CMD-08")
async def test_the_rid_counts_messages_commands_and_results(start_hub: StartHub) -> None:
    hub = await start_hub(restoring(rid_window=0))
    ann = await HClient.connected(hub, "ann")
    message = {"chid": "ann@demo", "publisher": "ann@demo", "payload": 1}
    assert (await ann.ask("hPublish", message))["status"] == OK
    assert (await ann.ask("ring", entity="ann@demo", timeout=20))["status"] == TIMEOUT
    again = await HClient.open(hub)
    await again.emit("attach", {**ann.attributes, "rid": ann.attributes["rid"] + 4})
    assert await again.status() == (4, 0)


# -- nested values --------------------------------------------------------------------------------


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("protocol", [None, SUBPROTOCOL])
async def test_a_command_is_answered_however_deep_its_params_are(
    stage: Stage, ann: User, protocol: str | None
) -> None:
    path = f"/v1/hubs/demo/socket?token={ann.token}"
    asked = '{"reqid":"1","sender":"ann@demo","entity":"hnode@demo","cmd":"%s","params":%s}'
    event = (
        '{"name":"hCommand","args":[%s]}'
        if protocol
        else '{"event":"HCommand","payload":{"reqID":1,"command":%s}}'
    )
    protocols = [protocol] if protocol else []
    async with stage.hub.http.ws_connect(path, protocols=protocols) as socket, asyncio.timeout(30):
        answers = []
        for levels in (1, *range(800, 1000, 4), 1):
            await socket.send_str(event % (asked % ("hEcho", _nested(levels))))
            while "esult" not in (answer := await socket.receive_str()):
                if "rror" in answer and "nested too deeply" in answer:
                    break  # the frame itself cannot be read
            answers.append(answer)
    assert _nested(1) in answers[0]
    assert _nested(1) in answers[-1], "the session goes on"
    assert sum("nested too deeply" in answer for answer in answers) > 5
    assert sum(_nested(800) in answer for answer in answers) > 5


async def test_over_http_a_command_is_answered_however_deep_its_params_are(
    stage: Stage, ann: User
) -> None:
    headers = {"Authorization": f"Bearer {ann.token}"}
    asked = '{"reqid":"1","sender":"ann@demo","entity":"hnode@demo","cmd":"hEcho","params":%s}'
    for levels in range(800, 1000, 4):
        async with stage.hub.http.post(
            "/v1/hubs/demo/commands", data=asked % _nested(levels), headers=headers
        ) as answer:
            text = await answer.text()
            assert _nested(levels) in text or "recursion" in text or "too deeply" in text


async def test_a_command_to_a_client_is_nested_in_bounds(stage: Stage, ann: User) -> None:
    bob = stage.user("bob")
    await bob.connected()
    params = msgspec.json.decode(_nested(273))
    status, text = await ann.ask("ring", params, entity="bob@demo")
    assert (status, text) == (INVALID, "params have more than 272 levels; make them flatter")
