"""The Python API of messages to people and tools."""

from __future__ import annotations

import json

import pytest

from harness.receivers import Receiver
from harness.running_hub import StartHub, open_hub
from harness.topics import STORED, HttpTopic
from hubbub.client.people import People
from hubbub.domain.errors import BadRequest, Conflict
from hubbub.domain.permissions import Level
from hubbub.domain.rules import HubConfiguration, HubSettings

pytestmark = pytest.mark.spec("COMM-11")


async def test_the_api_sends_routes_and_answers_nothing_for_unknown_ids(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(HubConfiguration("acme", HubSettings(callback_addresses="loopback")))
    people = People(f"ws://{hub.address}", "acme", hub.token("desk", level=Level.SERVICE))
    async with Receiver(lambda _: 204) as server:
        await people.set_adapter("pager", "rest", {}, interval_ms=None)
        await people.set_peer("ann", [{"adapter": "pager", "parameters": [f"{server.url}/ann"]}])
        sent = await people.send("hello", to="ann", sender="ci", id="m-1")
        assert sent == "m-1"
        (first,) = await server.got(1)
        assert json.loads(first.body)["message"]["content"] == "hello"
        assert await people.send("hello", to="ann", sender="ci", id="m-1") == "m-1"
        with pytest.raises(Conflict):
            await people.send("other", to="ann", sender="ci", id="m-1")

        rule = await people.add_routing(["ann"], type="BUILD")
        await people.send("red", type="BUILD", sender="ci")
        await server.got(2)
        removed = await people.remove_routing(rule)
        assert removed is not None
        assert removed["route"] == ["ann"]

        await people.register_callback("log", f"{server.url}/log")
        await people.send("to nobody", sender="ci", type="NEWS")
        assert (await server.got(3))[2].path == "/log"
        assert await people.unregister_callback("log")

    found = [each["message"]["content"] async for each in people.messages(receiver="ann")]
    assert "hello" in found
    assert await people.remove_routing("nothing") is None
    assert await people.remove_adapter("nothing") is None
    assert await people.peer("nobody") is None
    assert not await people.unregister_callback("nothing")
    assert await people.remove_adapter("pager") is not None
    meaning = {"purpose": "get out", "valid_answer_types": [{"type": "A", "subtype": "b"}]}
    for purpose in ("old", "get out"):
        await people.add_message_info("ALARM", "fire", **{**meaning, "purpose": purpose})
    about = await people.message_info("ALARM", "fire")
    assert about is not None
    assert (about["purpose"], about["validAnswerTypes"]) == (
        "get out",
        [{"type": "A", "subtype": "b"}],
    )
    sent = await people.send("x", type="ALARM", subtype="fire", sender="ci")
    assert await people.message_info(id=sent) == about
    assert await people.message_info("ALARM", "flood") is None
    assert await people.message_info(id="nothing") is None
    assert await people.message_info("ALARM") is None
    done = [count async for count in people.set_peers((f"p{n}", {}) for n in range(1500))]
    assert done == [1000, 1500]


async def test_the_api_has_peers_follow_channels(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))
    people = People(f"ws://{hub.address}", "acme", hub.token("desk", level=Level.SERVICE))
    async with Receiver(lambda _: 204) as server:
        await people.set_adapter("pager", "rest", {})
        await people.set_peer("ann", [{"adapter": "pager", "parameters": [f"{server.url}/ann"]}])
        topic = HttpTopic(hub, "news", hub.token("desk", level=Level.SERVICE))
        assert (await topic.put("early")).status == 200
        made = await people.follow("ann", "news", "first")
        assert made["channel"] == "news"
        (first,) = await server.got(1)
        assert json.loads(first.body)["message"]["content"] == "early"
        assert [each["channel"] async for each in people.followed("ann")] == ["news"]
        assert await people.unfollow("ann", "news")
        assert not await people.unfollow("ann", "news")
        ann = People(f"ws://{hub.address}", "acme", hub.token("ann"))
        assert (await ann.follow(None, "news"))["channel"] == "news"
        assert [each["channel"] async for each in ann.followed()] == ["news"]
        assert [each["channel"] async for each in people.followed("ann")] == ["news"]
        assert await ann.unfollow(None, "news")
        assert not await ann.unfollow(None, "news")


async def test_what_cannot_work_is_refused_at_once(start_hub: StartHub) -> None:
    hub = await start_hub(HubConfiguration("acme", HubSettings()))
    people = People(f"ws://{hub.address}", "acme", hub.token("desk", level=Level.SERVICE))
    with pytest.raises(BadRequest):
        await people.set_adapter("mail", "email-in", {}, interval_ms=0)
    with pytest.raises(BadRequest):
        await people.add_routing([], type="BUILD")
    with pytest.raises(BadRequest):
        await people.add_routing(["ann"])
    with pytest.raises(BadRequest):
        await people.send("x", type="", sender="ci")
    with pytest.raises(BadRequest):
        await people.send("x", type="CONTROL", sender="ci")
