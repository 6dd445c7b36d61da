"""Validators and savers of plugins use the hub: they find, publish and save, and never run in
circles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.commands import User, command_hub
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.permissions import Level

pytestmark = pytest.mark.spec("CMD-05")

STOCK = """
validates = ["#orders"]
saves = ["#orders"]


async def validate(document, context):
    item = document["payload"]["item"]
    if not await context.find("stock", {"eq": {"item": item}}):
        return 7, f"there is no {item}"
    if (await context.channel("#orders"))["owner"] != document["publisher"]:
        return 5, "not yours"


async def saved(document, context):
    await context.save("sales", document["payload"])
    note = {"chid": "#notes", "payload": "sold " + document["payload"]["item"], "transient": False}
    await context.publish(note, "bob")
    who = [context.hub, context.sender, context.collection]
    await context.save("who", {"said": who})
"""
CIRCLES = """
validates = ["#self"]
saves = ["#ring", "ring"]


async def validate(document, context):
    await context.publish({"chid": "#self", "payload": "again", "transient": False})


async def saved(document, context):
    await context.save("ring", {"n": document.get("n", 0) + 1})
    await context.publish({"chid": "#ring", "payload": "again", "transient": False})
"""
KEEP = """
async def run(command, context):
    collection, document = command["params"]
    if document is None:
        return await context.find(collection, {}, None, 100)
    return await context.save(collection, document)
"""
BROKEN = """
saves = ["#orders"]
validates = ["#wrong"]


async def validate(document, context):
    raise ValueError("why")


async def saved(document, context):
    await context.publish({"chid": "#nowhere", "payload": 1, "transient": False})
"""


@pytest.fixture
async def hub(start_server: StartHub, tmp_path: Path) -> RunningHub:
    folder = tmp_path / "plugins"
    folder.mkdir()
    for name, text in (
        ("stock", STOCK), ("circles", CIRCLES), ("keep", KEEP), ("broken", BROKEN),
    ):  # fmt: skip
        (folder / f"{name}.py").write_text(text)
    return await start_server(command_hub(), hcommands__path=str(folder), hcommands__workers=2)


@pytest.fixture
async def ann(hub: RunningHub) -> User:
    ann = User(hub, "ann", "http", Level.CLIENT, ())
    for channel in ("orders", "notes", "self", "ring", "wrong"):
        await ann.create(channel, "ann", "bob")
    return ann


async def order(user: User, item: str, channel: str = "orders") -> tuple[int, Any]:
    message = {"chid": f"#{channel}", "publisher": user.jid, "payload": {"item": item}}
    return await user.ask("hPublish", {**message, "transient": False})


async def payloads(ann: User, channel: str) -> list[Any]:
    status, found = await ann.ask("hGetLastMessages", {"chid": f"#{channel}", "nbLastMsg": 100})
    assert status == 0
    return [each["payload"] for each in found]


async def test_a_validator_looks_into_the_hub_and_a_saver_stores_and_publishes(
    hub: RunningHub, ann: User
) -> None:
    assert await order(ann, "lamp") == (7, "there is no lamp")
    assert (await ann.ask("keep", ["stock", {"item": "lamp"}]))[0] == 0
    status, said = await order(ann, "lamp")
    assert status == 0, said
    bob = User(hub, "bob", "http", Level.CLIENT, ())
    assert await order(bob, "lamp") == (5, "not yours")
    assert await payloads(ann, "notes") == ["sold lamp"]
    assert await ann.ask("keep", ["sales", None]) == (0, [{"item": "lamp"}])
    who = ["demo", "ann@demo", "#orders@demo"]
    assert await ann.ask("keep", ["who", None]) == (0, [{"said": who}])


async def test_a_validator_that_stores_where_it_judges_is_refused_at_once(ann: User) -> None:
    async with asyncio.timeout(4):
        status, said = await order(ann, "x", "self")
    assert (status, "cannot store another one there" in str(said)) == (9, True), said
    assert await payloads(ann, "self") == []


async def test_savers_that_store_for_each_other_come_to_an_end(
    ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(20):
        assert (await order(ann, "x", "ring"))[0] == 0
        kept = 0
        while True:
            _, found = await ann.ask("keep", ["ring", None])
            if len(found) == kept > 0:
                break
            kept = len(found)
    assert len(found) <= 2**3
    assert len(await payloads(ann, "ring")) <= 2**3
    assert "savers store for each other" in caplog.text


async def test_an_error_names_the_file_and_the_line(
    ann: User, caplog: pytest.LogCaptureFixture
) -> None:
    assert await order(ann, "x", "wrong") == (1, "ValueError: why (broken.py, line 7)")
    await ann.ask("keep", ["stock", {"item": "lamp"}])
    assert (await order(ann, "lamp"))[0] == 0
    assert "broken.py" in caplog.text
