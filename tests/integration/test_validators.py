"""Validators before messages are stored, savers after, at every door of a real hub."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import HttpTopic
from hubbub.domain.commands.status import CommandRefused, Status
from hubbub.engine.storing import hooks
from hubbub.ports.plugins import CallContext

pytestmark = pytest.mark.spec("CMD-05")

Document = dict[str, Any]
STORING = msgspec.structs.replace(OPEN, store=True, store_by_default=True)


@pytest.fixture
async def hub(start_server: StartHub) -> RunningHub:
    """`log:…` stores; other channels are live only."""
    return await start_server(open_hub(namespaces={"log": STORING}))


async def publish(
    hub: RunningHub, channel: str = "log:a", payload: object = "x", **headers: str
) -> tuple[int, Document]:
    async with hub.http.post(
        f"/v1/hubs/acme/channels/{channel}/messages", json=payload, headers=headers
    ) as answer:
        return answer.status, await answer.json()


async def stored(hub: RunningHub, channel: str = "log:a") -> list[Any]:
    async with hub.http.get(f"/v1/hubs/acme/channels/{channel}/messages") as answer:
        return [message["payload"]["json"] for message in (await answer.json())["messages"]]


async def no_tens(document: Document, context: CallContext) -> object:
    return (5, "ten is not welcome") if document["payload"] in (10, "ten") else None


async def test_one_refusal_stores_and_delivers_nothing_at_any_door(hub: RunningHub) -> None:
    hub.server.add_validator("#log:a@acme", no_tens)
    reader, writer = await hub.socket(), await hub.socket()
    await reader.subscribe("log:a")

    status, answer = await publish(hub, payload=10)
    assert (status, answer["error"]["code"]) == (422, "validation_failed")
    assert answer["error"]["message"] == "ten is not welcome"
    assert answer["error"]["status"] == 5
    await writer.send(
        "Publish",
        publishes=[{"channel": "log:a", "event": "e", "payload": {"json": 10}, "reqID": 7}],
    )
    (result,) = (await writer.find("Ack"))["published"]
    assert result["error"]["code"] == "validation_failed"
    topic = HttpTopic(hub, "log:a")
    put = await topic.put("ten", producer="p", sequence="1")
    assert put.error == (422, "validation_failed")

    assert (await publish(hub, payload=11))[0] == 200
    assert (await reader.find("Publish"))["payload"] == {"json": 11}  # the first that was delivered
    assert await stored(hub) == [11]


async def test_validators_of_the_channel_and_of_all_messages_run(hub: RunningHub) -> None:
    seen: list[tuple[str, str]] = []

    def remember(name: str) -> hooks.Hook:
        async def validator(document: Document, context: CallContext) -> object:
            seen.append((name, document["chid"]))
            return True

        return validator

    for name in ("#log:a@acme", "#log:a", "hMessages", "#log:b@acme", "#log:a@other"):
        hub.server.add_validator(name, remember(name))
    await publish(hub)
    assert seen == [(name, "#log:a@acme") for name in ("#log:a@acme", "#log:a", "hMessages")]
    await publish(hub, "log:c")
    assert seen[3:] == [("hMessages", "#log:c@acme")]


async def test_only_what_is_stored_is_validated(hub: RunningHub) -> None:
    hub.server.add_validator("hMessages", no_tens)
    assert (await publish(hub, "live", 10))[0] == 200
    async with hub.http.post(
        "/v1/hubs/acme/channels/log:a/messages?transient=true", json=10
    ) as answer:
        assert answer.status == 200


async def test_a_retained_message_is_validated_too(start_server: StartHub) -> None:
    retaining = msgspec.structs.replace(OPEN, retain=True)
    hub = await start_server(open_hub(namespaces={"sign": retaining}))
    hub.server.add_validator("hMessages", no_tens)
    path = "/v1/hubs/acme/channels/sign:a/messages?retain=true"
    for payload, status in ((9, 200), (10, 422)):
        async with hub.http.post(path, json=payload) as answer:
            assert answer.status == status
    reader = await hub.socket()
    await reader.subscribe("sign:a")
    assert (await reader.find("Publish"))["payload"] == {"json": 9}


@pytest.mark.parametrize(
    ("said", "status", "text"),
    [
        ("no", 7, "no"),
        (False, 7, "a validator refuses the document"),
        ((6, "a is missing"), 6, "a is missing"),
        ((99, "odd"), 7, "odd"),
        (CommandRefused(Status.NOT_AVAILABLE, "gone"), 9, "gone"),
        (ValueError("broken"), 1, "ValueError: broken"),
    ],
)
async def test_how_a_validator_refuses(
    hub: RunningHub, said: object, status: int, text: str
) -> None:
    async def validator(document: Document, context: CallContext) -> object:
        if isinstance(said, Exception):
            raise said
        return said

    hub.server.add_validator("hMessages", validator)
    code, answer = await publish(hub)
    assert code == 422
    assert (answer["error"]["status"], answer["error"]["message"]) == (status, text)


async def test_a_validator_that_takes_too_long_refuses(
    hub: RunningHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "DEFAULT_TIMEOUT_MS", 20)

    async def validator(document: Document, context: CallContext) -> object:
        return await asyncio.get_running_loop().create_future()

    hub.server.add_validator("hMessages", validator)
    _, answer = await publish(hub)
    assert answer["error"]["status"] == 10
    assert await stored(hub) == []


async def test_a_validator_has_a_copy(hub: RunningHub) -> None:
    seen = []

    async def vandal(document: Document, context: CallContext) -> None:
        document["payload"]["a"] = "changed"

    async def witness(document: Document, context: CallContext) -> None:
        seen.append(document["payload"])

    hub.server.add_validator("hMessages", vandal)
    hub.server.add_validator("hMessages", witness)
    hub.server.add_saver("hMessages", witness)
    await publish(hub, payload={"a": 1})
    assert seen == [{"a": 1}, {"a": 1}]
    assert await stored(hub) == [{"a": 1}]


async def test_a_confirmation_waits_for_savers_and_they_for_the_store(hub: RunningHub) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    found = []

    async def saver(document: Document, context: CallContext) -> None:
        begun.set()
        found.extend(await stored(hub))
        await go_on.wait()

    hub.server.add_saver("#log:a@acme", saver)
    hub.server.add_saver("hMessages", saver)
    waiting = asyncio.create_task(publish(hub, payload=1))
    await begun.wait()
    assert not waiting.done()
    go_on.set()
    assert (await waiting)[0] == 200
    assert found == [1, 1]


async def test_a_saver_that_fails_undoes_nothing(
    hub: RunningHub, caplog: pytest.LogCaptureFixture
) -> None:
    async def saver(document: Document, context: CallContext) -> None:
        raise ValueError("broken")

    hub.server.add_saver("hMessages", saver)
    assert (await publish(hub, payload=1))[0] == 200
    assert await stored(hub) == [1]
    assert "ValueError: broken" in caplog.text


async def test_savers_hear_of_nothing_that_was_not_stored(hub: RunningHub) -> None:
    seen = []

    async def saver(document: Document, context: CallContext) -> None:
        seen.append(document["payload"])

    hub.server.add_saver("hMessages", saver)
    hub.server.add_validator("hMessages", no_tens)
    await publish(hub, payload=10)
    await publish(hub, payload=11)
    assert seen == [11]


async def test_a_put_that_is_repeated_is_saved_once(hub: RunningHub) -> None:
    seen = []

    async def saver(document: Document, context: CallContext) -> None:
        seen.append(document["payload"])

    hub.server.add_saver("hMessages", saver)
    topic = HttpTopic(hub, "log:a")
    first = await topic.put("a", producer="p", sequence="1")
    again = await topic.put("a", producer="p", sequence="1")
    assert (first.json["duplicate"], again.json["duplicate"]) == (False, True)
    assert seen == ["a"]


async def test_messages_of_a_channel_keep_their_order(hub: RunningHub) -> None:
    async def uneven(document: Document, context: CallContext) -> None:
        for _ in range(document["payload"] * 7 % 5):
            await asyncio.sleep(0)

    hub.server.add_validator("hMessages", uneven)
    writer = await hub.socket()
    items = [
        {"channel": "log:a", "event": "e", "payload": {"json": number}, "reqID": number}
        for number in range(1, 41)
    ]
    await writer.send("Publish", publishes=items)
    acknowledged: list[int] = []
    while len(acknowledged) < len(items):
        acknowledged += [each["reqID"] for each in (await writer.find("Ack"))["published"]]
    assert await stored(hub) == list(range(1, 41))


async def test_a_plugin_validates_and_saves(start_server: StartHub, tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "prices.py").write_text(
        'validates = ["#log:prices"]\nsaves = ["hMessages"]\n\n\n'
        "async def validate(document, context):\n"
        '    if document["payload"]["price"] < 0:\n'
        '        return 7, f"{context.hub}: price is negative"\n\n\n'
        "async def saved(document, context):\n"
        "    raise ValueError(context.collection)\n"
    )
    storing = open_hub(namespaces={"log": STORING})
    hub = await start_server(storing, hcommands__path=str(folder), hcommands__workers=1)
    status, answer = await publish(hub, "log:prices", {"price": -1})
    assert (status, answer["error"]["message"]) == (422, "acme: price is negative")
    status, answer = await publish(hub, "log:prices", {})
    assert answer["error"]["message"] == "KeyError: 'price' (prices.py, line 6)"
    assert answer["error"]["status"] == 1
    assert (await publish(hub, "log:prices", {"price": 1}))[0] == 200
    assert (await publish(hub, "log:other", {"price": -1}))[0] == 200
    assert await stored(hub, "log:prices") == [{"price": 1}]
