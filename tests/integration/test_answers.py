"""Answers find their way: to who asked, over channels, and to strangers where the hub allows it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import HUB, client_of
from harness.communication import BOXES, COMM, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.rules import Rules
from hubbub.ports.adapters import Delivery

pytestmark = pytest.mark.spec("COMM-01", "COMM-07")
KEPT = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)
EVE = "eve@example.org"


async def hand_in(hub: CommHub, sender: str, refers_to: str, **more: Any) -> str:
    body = {"type": "NOTE", "subtype": "TEXT", "sender": sender, "refersTo": refers_to, **more}
    reply = await hub.service("POST", f"{COMM}/input/door", body)
    assert reply.status == 200, reply.text
    return str(reply.json["id"])


def notes(hub: CommHub) -> list[Delivery]:
    return [each for each in hub.box.got if each.message.type == "NOTE"]


async def noted(hub: CommHub) -> list[Delivery]:
    await until(lambda: _is(notes(hub)))
    return notes(hub)


async def _is(value: object) -> bool:
    return bool(value)


async def with_door(start_hub: StartHub, **more: Any) -> CommHub:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"), **more)
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    return hub


async def test_an_answer_without_a_receiver_goes_to_the_peer_who_asked(
    start_hub: StartHub,
) -> None:
    hub = await with_door(start_hub)
    asked = await hub.send("bob", sender="ann")
    await hand_in(hub, "bob", asked, content="yes")
    (answer,) = await noted(hub)
    assert (answer.peer, answer.message.sender, answer.message.content) == ("ann", "bob", "yes")
    answered = await hub.send("", type="NOTE", sender="bob", refersTo=asked, content="sent")
    await until(lambda: _is(len(notes(hub)) == 2))
    assert (notes(hub)[1].peer, notes(hub)[1].message.id) == ("ann", answered)


async def test_an_answer_to_a_program_goes_where_rules_say_and_troubles_nobody(
    start_hub: StartHub,
) -> None:
    hub = await with_door(start_hub)
    for sender in ("ci", "component:desk"):
        asked = await hub.send("bob", sender=sender)
        answer = await hand_in(hub, "bob", asked)
        assert await hub.reports(answer) == []
        (logged,) = await hub.logged(id=answer)
        assert logged["message"].get("receiver", "") == ""
    await hand_in(hub, "bob", "of no message")
    await hand_in(hub, "ann", await hub.send("bob", sender="ann"))  # to oneself
    assert notes(hub) == []


async def followed(hub: CommHub, channel: str) -> None:
    """Waits until `channel-in` has subscribed: what is published before is not for it."""

    async def follows() -> bool:
        return channel in (await hub.service("GET", f"{HUB}/subscriptions")).text

    await until(follows)


# -- channels --------------------------------------------------------------------------------------


async def test_the_copy_on_a_channel_carries_the_id_to_which_an_answer_refers(
    start_hub: StartHub,
) -> None:
    answers = AdapterSettings("channel-in", {"channel": "answers:all"}, interval_ms=50)
    hub = await comm_hub(
        start_hub,
        rules={"for-bob": KEPT, "answers": KEPT},
        more={"allowAnonymous": True},
        mail=memory(),
        channel=AdapterSettings("channel"),
        answers=answers,
    )
    await hub.peer("ann", ("mail", "ann"))
    await hub.peer("bob", ("channel", "for-bob:1"))
    await followed(hub, "answers:all")
    watching = await hub.hub.socket()
    await watching.subscribe("for-bob:1")
    awaited = {"headers": {"await": "reply"}, "ttl": 60_000, "deliveryPolicy": "ACKNOWLEDGED"}
    asked = await hub.send("bob", sender="ann", **awaited)
    copy = await watching.find("Publish")
    assert copy["headers"]["message"] == asked
    refers_to = copy["headers"]["message"]
    said = {"event": "NOTE", "payload": {"text": "on it"}, "refersTo": refers_to}
    stored = {"channel": "answers:all", "extra": {"store": True}}
    body = {"publishes": [{**stored, **said}]}
    reply = await client_of(hub.hub, "bob")("POST", "/v1/hubs/acme/messages", body)
    assert reply.status == 200, reply.text
    assert await hub.report(asked) == ("ACK", "")
    (answer,) = await noted(hub)
    assert (answer.peer, answer.message.sender, answer.message.content) == ("ann", "bob", "on it")


async def test_ordinary_messages_of_a_channel_get_type_subtype_and_receiver_by_setting(
    start_hub: StartHub,
) -> None:
    settings = {"channel": "news:a", "type": "NEWS", "subtype": "FLASH", "receiver": "ann"}
    news = AdapterSettings("channel-in", settings, interval_ms=50)
    hub = await comm_hub(start_hub, rules={"news": KEPT}, mail=memory(), news=news)
    await hub.peer("ann", ("mail", "ann"))
    await followed(hub, "news:a")
    await hub.publish("news:a", "rain")
    (got,) = await hub.got(1)
    assert (got.peer, got.message.type, got.message.subtype) == ("ann", "NEWS", "FLASH")
    refused = await hub.service(
        "PUT", f"{HUB}/adapters/wrong", {"kind": "channel-in", "settings": {**settings, "type": 1}}
    )
    assert (refused.status, "type" in refused.message) == (422, True), refused.text


async def test_the_copy_of_a_report_on_a_channel_is_no_answer(start_hub: StartHub) -> None:
    back = AdapterSettings("channel-in", {"channel": "for-ann:1"}, interval_ms=50)
    hub = await comm_hub(
        start_hub,
        rules={"for-ann": KEPT},
        mail=memory(),
        channel=AdapterSettings("channel"),
        back=back,
    )
    await followed(hub, "for-ann:1")
    await hub.peer("ann", ("channel", "for-ann:1"))
    await hub.peer("bob", ("mail", "fail"))
    awaited = {"headers": {"await": "reply"}, "ttl": 60_000, "deliveryPolicy": "ACKNOWLEDGED"}
    await hub.peer("eve", ("mail", "e"))
    open_one = await hub.send("eve", sender="ann", **awaited)
    failed = await hub.send("bob", sender="ann", deliveryPolicy="ACKNOWLEDGED")
    assert (await hub.report(failed))[0] == "COMERROR"
    await hub.publish("for-ann:1", "the last one")
    await until(lambda: _came_in(hub, "the last one"))
    assert await hub.reports(open_one) == []
    assert len(await hub.logged(type="CONTROL")) == 1


async def _came_in(hub: CommHub, text: str) -> bool:
    found = await hub.logged(type="note")
    return any(each["message"].get("content") == text for each in found)


# -- strangers -------------------------------------------------------------------------------------


async def asked_by_eve(start_hub: StartHub, strangers: str) -> tuple[CommHub, str]:
    more = {"communication": {"strangers": strangers}}
    inbox = memory("test-pull", "inbox", interval_ms=50)
    hub = await with_door(start_hub, more=more, inbox=inbox)
    question = PeerMessage(
        id="mail:q@example.org", type="MAIL", subtype="NEW", receiver="ann", headers={"from": EVE}
    )
    BOXES["inbox"].inbox.append(question)
    await hub.got(1)
    return hub, question.id


async def test_a_peers_answer_goes_to_a_stranger_where_the_hub_allows_it(
    start_hub: StartHub,
) -> None:
    hub, asked = await asked_by_eve(start_hub, "mail")
    await hand_in(hub, "ann", asked, content="42")
    (answer,) = await noted(hub)
    assert (answer.address.parameters, answer.message.refers_to) == ((EVE,), asked)
    assert answer.message.content == "42"


@pytest.mark.parametrize(("strangers", "sender"), [("", "ann"), ("mail", "mallory")])
async def test_a_stranger_gets_no_answer_unless_allowed_nor_mail_of_another_stranger(
    start_hub: StartHub, strangers: str, sender: str
) -> None:
    hub, asked = await asked_by_eve(start_hub, strangers)
    answer = await hand_in(hub, sender, asked)
    assert await hub.reports(answer) == []
    (logged,) = await hub.logged(id=answer)
    assert logged["message"].get("receiver", "") == ""


async def test_nobody_writes_to_strangers_by_himself(start_hub: StartHub) -> None:
    hub, asked = await asked_by_eve(start_hub, "mail")
    body = {"type": "t", "subtype": "s", "sender": "ann", "receiver": f"stranger:{EVE}"}
    for path in ("messages", "input/door"):
        reply = await hub.service("POST", f"{COMM}/{path}", {**body, "refersTo": asked})
        assert (reply.status, reply.code) == (422, "invalid_attribute"), reply.text
        assert "strangers are only answered" in reply.message
    rule = {"type": "t", "route": [f"stranger:{EVE}"]}
    assert (await hub.service("POST", f"{HUB}/routes", rule)).status == 400
    members = {"members": [f"stranger:{EVE}"]}
    assert (await hub.service("PUT", f"{HUB}/collectives/team", members)).status == 400
