"""Smaller promises of messages to peers that trials found broken."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import HUB
from harness.communication import BOXES, COMM, comm_hub, memory, until
from harness.receivers import Received, Receiver, Reply
from harness.running_hub import StartHub
from hubbub.client.people import People
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.permissions import Level

SERVICE = "component:MessageInfoService"


@pytest.mark.spec("COMM-08", "COMM-14")
async def test_a_question_about_types_reaches_the_service_alone(start_hub: StartHub) -> None:
    async with Receiver(lambda _: 204) as server:
        hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
        for name in ("ann", "bob"):
            await hub.peer(name, ("mail", name))
        callback = {"url": server.url, "roles": ["notify"]}
        assert (await hub.service("PUT", f"{HUB}/callbacks/all", callback)).status == 201
        rule = {"type": "MESSAGEINFO", "route": ["bob"]}
        assert (await hub.service("PUT", f"{HUB}/routes/all", rule)).status == 201
        asked: dict[str, Any] = {"type": "MESSAGEINFO", "subtype": "REQUEST", "sender": "ann"}
        for receiver in ("", SERVICE):
            await hub.send(receiver, **asked, content='{"type":"A","subtype":"b"}')
        replies = await hub.got(2)
        assert {each.peer for each in replies} == {"ann"}
        for path in ("messages", "input/door"):
            for wrong in ({"receiver": "bob"}, {"subtype": "NEWS"}):
                reply = await hub.service("POST", f"{COMM}/{path}", {**asked, **wrong})
                assert (reply.status, reply.code) == (422, "invalid_attribute"), reply.text
                assert SERVICE in reply.message
        assert server.received == []


@pytest.mark.spec("COMM-08")
async def test_info_about_the_same_messages_under_another_name_replaces_the_first(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    kind = {"type": "ALARM", "subtype": "fire"}
    for name, purpose in (("z", "old"), ("a", "new")):
        reply = await hub.service("PUT", f"{HUB}/message-info/{name}", {**kind, "purpose": purpose})
        assert reply.status == 201, reply.text
    other = {"type": "ALARM", "subtype": "flood"}
    assert (await hub.service("PUT", f"{HUB}/message-info/b", other)).status == 201
    listed = (await hub.service("GET", f"{HUB}/message-info")).json["items"]
    assert [each["name"] for each in listed] == ["a", "b"]
    found = await hub.service("GET", f"{HUB}/message-info-about?type=ALARM&subtype=fire")
    assert found.json["purpose"] == "new"


@pytest.mark.spec("COMM-05")
async def test_a_reason_names_the_channel_where_a_peer_has_several(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, mail=memory(), chat=memory())
    await hub.peer("ann", ("mail", "fail"), ("chat", "fail"), policy="AT_LEAST_ONE")
    said = "mail: no such mailbox; chat: no such mailbox"
    assert await hub.report(await hub.send("ann")) == ("COMERROR", said)
    await hub.peer("bob", ("mail", "fail"))
    assert await hub.report(await hub.send("bob")) == ("COMERROR", "no such mailbox")


@pytest.mark.spec("COMM-03", "COMM-09")
async def test_requests_name_the_hub_and_a_garbled_answer_is_tried_again(
    start_hub: StartHub,
) -> None:
    garbled = [b"HTTP/1.1 nonsense\r\n\r\n"]

    def answer(request: Received) -> Reply:
        if request.path.startswith("/peerInfo"):
            return 404
        return garbled.pop() if garbled else 204

    async with Receiver(answer) as server:
        pager = AdapterSettings("rest", {"url": server.url})
        hub = await comm_hub(start_hub, pager=pager)
        callback = {"url": server.url, "roles": ["peerInfo"]}
        assert (await hub.service("PUT", f"{HUB}/callbacks/all", callback)).status == 201
        await hub.peer("ann", ("pager", "a"))
        sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
        assert await hub.report(sent) == ("ACK", "")
        await hub.report(await hub.send("nobody"))
        assert len(server.received) >= 3
        agents = {each.headers["user-agent"].partition("/")[0] for each in server.received}
        assert agents == {"Hubbub"}


@pytest.mark.spec("COMM-11")
async def test_an_adapter_that_is_pulled_on_request_alone_goes_after_its_first_message(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory())
    token = hub.hub.token("desk", level=Level.SERVICE)
    people = People(f"ws://{hub.hub.address}", "acme", token)
    await people.set_adapter("inbox", "test-pull", {"box": "in"}, delete_if_successful=True)
    await people.pull("inbox")
    await people.pull("inbox")
    assert (await hub.service("GET", f"{HUB}/adapters/inbox")).status == 200
    BOXES["in"].inbox.append(PeerMessage(type="t", subtype="s", receiver="ann"))
    await people.pull("inbox")

    async def gone() -> bool:
        return (await hub.service("GET", f"{HUB}/adapters/inbox")).status == 404

    await until(gone)
