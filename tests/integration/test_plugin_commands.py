"""Commands of plugins, sent to a real hub, and what their context does there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.commands import Stage, User, command_hub
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.filters.definition import FilterDefinition
from hubbub.domain.plugins.criteria import Criteria
from hubbub.domain.requests import SetFilter
from hubbub.engine.commands import collections
from hubbub.ports.plugins import CallContext

pytestmark = pytest.mark.spec("CMD-04")

ASK = """
async def run(command, context):
    operation, arguments = command["params"]
    try:
        match operation:
            case "who": return [context.hub, context.sender, context.session is not None]
            case "publish": return await context.publish(*arguments)
            case "command": return await context.command(*arguments)
            case "find": return await context.find(*arguments)
            case "channel": return await context.channel(*arguments)
            case "save": return await context.save(*arguments)
            case "filter": return await context.filter_messages(*arguments)
    except CommandRefused as refused:
        return 0, {"refused": refused.status, "text": refused.text}
"""


@pytest.fixture
async def hub(start_server: StartHub, tmp_path: Path) -> RunningHub:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "ask.py").write_text(ASK)
    (folder / "Status.py").write_text("async def run(command, context):\n    return 42, 'mine'\n")
    (folder / "again.py").write_text(
        "async def run(command, context):\n    return await context.command('again')\n"
    )
    (folder / "broken.py").write_text("async def run(command, context): command['params']\n")
    (folder / "slow.py").write_text(
        "import asyncio\ntimeout = 50\nasync def run(command, context): await asyncio.sleep(60)\n"
    )
    (folder / "vandal.py").write_text(
        "async def run(command, context):\n"
        "    (await context.channel('#news'))['participants'].clear()\n"
        "    (await context.find('hChannels'))[0].clear()\n"
        "    return (await context.channel('#news'))['participants']\n"
    )
    (folder / "refused.py").write_text("import os\nasync def run(command, context):\n    pass\n")
    return await start_server(command_hub(), hcommands__path=str(folder), hcommands__workers=2)


@pytest.fixture
async def ann(hub: RunningHub) -> User:
    return Stage(hub, "http").user("ann")


async def test_a_plugin_answers_in_any_case_of_its_name_with_any_status(ann: User) -> None:
    assert await ann.ask("STATUS") == (42, "mine")
    assert (await ann.ask("refused"))[0] == 9


async def test_the_context_says_who_asks(ann: User) -> None:
    assert await ann.ask("ask", ["who", []]) == (0, ["demo", "ann@demo", False])


async def test_a_plugin_publishes_as_its_asker_or_as_another_user(
    hub: RunningHub, ann: User
) -> None:
    await ann.create("news", "ann", "bob")
    status, message = await ann.ask("ask", ["publish", [{"chid": "#news", "payload": 1}]])
    assert (status, message["publisher"], message["payload"]) == (0, "ann@demo", 1)
    for bob in ("bob", "bob@demo"):
        _, message = await ann.ask("ask", ["publish", [{"chid": "#news"}, bob]])
        assert message["publisher"] == "bob@demo"
    _, refused = await ann.ask("ask", ["publish", [{"chid": "#news"}, "eve"]])
    assert refused["refused"] == 5
    for nobody in ("bob@other", "hnode", "@", 7):
        _, refused = await ann.ask("ask", ["publish", [{"chid": "#news"}, nobody]])
        assert refused["refused"] == 7, nobody


async def test_a_plugin_filters_as_the_session_of_its_asker_does(hub: RunningHub) -> None:
    ann = Stage(hub, "json").user("ann")
    socket = await ann.connected()
    cheap = FilterDefinition("cheap", condition={"lt": {"payload.price": 10}})
    await socket.ask(SetFilter, cheap)
    messages = [
        {"chid": "#news@demo", "publisher": "bob@demo", "payload": {"price": price}}
        for price in (9, 10, 11, 1)
    ]
    status, passed = await ann.ask("ask", ["filter", [messages]])
    assert (status, passed) == (0, [messages[0], messages[3]])
    assert (await ann.ask("ask", ["who", []]))[1][2] is True
    for wrong in (7, [7], [{"publisher": "bob@demo"}]):
        _, refused = await ann.ask("ask", ["filter", [wrong]])
        assert refused["refused"] in (6, 7)
    await socket.connection.close()


async def test_a_plugin_asks_other_commands(ann: User) -> None:
    assert await ann.ask("ask", ["command", ["hEcho", {"a": 1}]]) == (0, {"a": 1})
    assert await ann.ask("ask", ["command", ["ask", ["who", []], "bob"]]) == (
        0, ["demo", "bob@demo", False],
    )  # fmt: skip
    _, refused = await ann.ask("ask", ["command", ["hSubscribe", {"chid": "#none"}]])
    assert refused["refused"] == 9
    _, refused = await ann.ask("ask", ["command", ["Status"]])
    assert refused == {"refused": 42, "text": "mine"}


async def test_plugins_that_ask_each_other_come_to_an_end(ann: User) -> None:
    status, text = await ann.ask("again")
    assert status == 9
    assert "wait for each other" in text


async def test_a_plugin_finds_messages_of_the_hub(ann: User) -> None:
    await ann.create("news", "ann")
    for price in (3, 1, 2):
        message = {"chid": "#news", "publisher": ann.jid, "transient": False}
        await ann.ask("hPublish", {**message, "payload": {"price": price}})

    async def prices(*arguments: Any) -> list[int]:
        _, found = await ann.ask("ask", ["find", ["#news@demo", *arguments]])
        return [each["payload"]["price"] for each in found]

    assert await prices() == [2, 1, 3]
    assert await prices(None, "payload.price") == [1, 2, 3]
    assert await prices(None, ["-payload.price"], 2) == [3, 2]
    assert await prices({"gte": {"payload.price": 2}}, "payload.price") == [2, 3]
    assert await prices({"eq": {"publisher": "ann@demo"}}, None, 1) == [2]
    for wrong in (
        ["#news", {"like": {}}], ["#news", None, 7], ["#news", None, None, 0], [7], ["a b"],
        ["#a@other"],
    ):  # fmt: skip
        _, refused = await ann.ask("ask", ["find", wrong])
        assert refused["refused"] in (7, 9), wrong


async def test_a_search_leaves_the_loop_to_others(
    hub: RunningHub, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ann.create("news", "ann")
    for _ in range(20):
        message = {"chid": "#news", "publisher": ann.jid, "transient": False, "payload": "x" * 8000}
        await ann.ask("hPublish", message)
    searched = 0

    def matches(document: object, message: object) -> bool:
        nonlocal searched
        searched += 1
        return False

    monkeypatch.setattr(collections, "compile_criteria", lambda criteria, now: Criteria(matches, 1))
    searching = asyncio.ensure_future(ann.ask("ask", ["find", ["#news"]]))
    seen = set()
    while not searching.done():
        seen.add(searched)
        await asyncio.sleep(0)
    assert await searching == (0, [])
    assert len(seen) > 5


async def test_a_plugin_finds_channels_and_commands(ann: User) -> None:
    await ann.create("news", "ann", "bob")
    await ann.ask("hSubscribe", {"chid": "#news"})
    await ann.ask("hEcho", {"a": 1}, transient=False)
    _, (channel,) = await ann.ask("ask", ["find", ["hChannels", {"eq": {"owner": ann.jid}}]])
    assert channel["participants"] == ["ann@demo", "bob@demo"]
    assert (await ann.ask("ask", ["channel", ["#news"]]))[1] == channel
    _, refused = await ann.ask("ask", ["channel", ["#none"]])
    assert refused["refused"] == 9
    _, (command,) = await ann.ask("ask", ["find", ["hCommands", {"eq": {"cmd": "hEcho"}}]])
    assert command["params"] == {"a": 1}
    _, (subscription,) = await ann.ask("ask", ["find", ["hSubscriptions"]])
    assert subscription == {"chid": "#news@demo", "subscriber": "ann@demo"}


@pytest.mark.spec("CMD-05")
async def test_a_plugin_saves_through_validators(hub: RunningHub, ann: User) -> None:
    async def small(document: dict[str, Any], context: CallContext) -> object:
        return None if document["n"] < 10 else (7, f"{context.collection}: too large")

    hub.server.add_validator("visits", small)
    assert await ann.ask("ask", ["save", ["visits", {"n": 1}]]) == (0, {"n": 1})
    _, refused = await ann.ask("ask", ["save", ["visits", {"n": 10}]])
    assert refused == {"refused": 7, "text": "visits: too large"}
    assert await ann.ask("ask", ["find", ["visits"]]) == (0, [{"n": 1}])
    await ann.create("news", "ann")
    _, saved = await ann.ask("ask", ["save", ["#news", {"payload": "kept"}]])
    assert (saved["payload"], saved["transient"]) == ("kept", False)
    for wrong in (["hCommands", {}], ["hMessages", {}], ["visits", 7], [7, {}]):
        _, refused = await ann.ask("ask", ["save", wrong])
        assert refused["refused"] == 7, wrong


async def test_clients_do_not_reach_collections_of_plugins(hub: RunningHub, ann: User) -> None:
    await ann.ask("ask", ["save", ["visits", {"n": 1}]])
    headers = {"Authorization": f"Bearer {ann.token}"}
    path = "/v1/hubs/demo/channels/hPlugin:visits/messages"
    async with hub.http.get(path, headers=headers) as answer:
        assert answer.status == 403
    async with hub.http.post(path, headers=headers, json=1) as answer:
        assert answer.status == 403


@pytest.mark.spec("CMD-05")
async def test_a_refused_publication_becomes_the_result(hub: RunningHub, ann: User) -> None:
    async def refuse(document: dict[str, Any], context: CallContext) -> object:
        return 5, f"{document['payload']} for {context.collection}"

    hub.server.add_validator("hMessages", refuse)
    await ann.create("news", "ann")
    message = {"chid": "#news", "publisher": ann.jid, "payload": "no"}
    assert (await ann.ask("hPublish", message))[0] == 0  # absent means transient
    assert await ann.ask("hPublish", {**message, "transient": False}) == (5, "no for #news@demo")
    assert await ann.ask("hGetLastMessages", {"chid": "#news"}) == (0, [])


@pytest.mark.spec("CMD-05")
async def test_hooks_of_channels_commands_and_subscriptions(hub: RunningHub, ann: User) -> None:
    seen: list[str] = []

    async def remember(document: dict[str, Any], context: CallContext) -> None:
        seen.append(context.collection)

    async def refuse(document: dict[str, Any], context: CallContext) -> object:
        return "no"

    for collection in ("hChannels", "hSubscriptions", "hCommands", "hResults"):
        hub.server.add_saver(collection, remember)
    await ann.create("news", "ann")
    await ann.ask("hSubscribe", {"chid": "#news"})
    await ann.ask("hEcho", 1, transient=False)
    assert seen == ["hChannels", "hSubscriptions", "hCommands", "hResults"]
    for collection in ("hChannels", "hSubscriptions", "hCommands"):
        hub.server.add_validator(collection, refuse)
    assert await ann.create("more", "ann") == (7, "no")
    assert await ann.ask("hEcho", 1, transient=False) == (0, 1)  # it is only not stored
    _, found = await ann.ask("ask", ["find", ["hCommands"]])
    assert len(found) == 1


async def test_without_filters_every_message_passes(ann: User) -> None:
    messages = [{"chid": "#news", "publisher": "bob@demo", "payload": each} for each in (1, 2)]
    assert await ann.ask("ask", ["filter", [messages]]) == (0, messages)


async def test_what_a_plugin_finds_is_a_copy(ann: User) -> None:
    await ann.create("news", "ann")
    assert await ann.ask("vandal") == (0, ["ann@demo"])


@pytest.mark.spec("CMD-05")
async def test_whatever_a_plugin_stores_its_validators_judge(hub: RunningHub, ann: User) -> None:
    async def refuse(document: dict[str, Any], context: CallContext) -> object:
        return 5, f"not in {context.collection}"

    await ann.create("news", "ann")
    for collection in ("#news@demo", "hChannels"):
        hub.server.add_validator(collection, refuse)
    more = {"chid": "#more", "owner": ann.jid, "participants": [], "active": True}
    for operation, arguments, collection in (
        ("save", ["#news", {"payload": 1}], "#news@demo"),
        ("save", ["hChannels", more], "hChannels"),
        ("publish", [{"chid": "#news", "transient": False}], "#news@demo"),
        ("command", ["hCreateUpdateChannel", more], "hChannels"),
    ):
        _, refused = await ann.ask("ask", [operation, arguments])
        assert refused == {"refused": 5, "text": f"not in {collection}"}
    assert await ann.ask("ask", ["find", ["#news"]]) == (0, [])
    _, refused = await ann.ask("ask", ["channel", ["#more"]])
    assert refused["refused"] == 9


async def test_a_plugin_s_exception_and_its_time_become_the_result(ann: User) -> None:
    assert await ann.ask("broken") == (1, "KeyError: 'params' (broken.py, line 1)")
    assert await ann.ask("slow") == (10, "slow did not end within 50 ms")


async def test_a_plugin_has_the_rights_of_the_user_for_whom_it_acts_and_no_more(
    ann: User,
) -> None:
    await ann.create("news", "ann")
    forged = {"chid": "#news", "publisher": "bob@demo"}
    _, refused = await ann.ask("ask", ["publish", [forged]])
    assert refused["refused"] == 5, "a publisher cannot be forged"
    for cmd, params in (
        ("hGetLastMessages", {"chid": "#news"}),
        ("hCreateUpdateChannel", {
            "chid": "#news", "owner": "eve@demo", "participants": [], "active": True,
        }),
    ):  # fmt: skip
        _, refused = await ann.ask("ask", ["command", [cmd, params, "eve"]])
        assert refused["refused"] == 5, cmd
