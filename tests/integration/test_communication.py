"""Messages to peers, through the public doors: who gets what, and what the sender hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.admin import HUB, Caller, admin_of, client_of
from harness.communication import BOXES, COMM, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.permissions import Level


@pytest.fixture
async def hub(start_hub: StartHub) -> CommHub:
    return await comm_hub(start_hub, mail=memory(), chat=memory())


# -- one peer --------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-01", "COMM-11")
async def test_a_message_reaches_its_peer_with_the_same_id(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "ann@example.org"))
    sent = await hub.send("ann", content="the build is red", conversationID="c1", language="en")
    (delivery,) = await hub.got(1)
    message = delivery.message
    assert (message.id, message.receiver, message.content) == (sent, "ann", "the build is red")
    assert (message.conversation_id, message.language) == ("c1", "en")
    assert (delivery.peer, delivery.address.parameters) == ("ann", ("ann@example.org",))
    assert await hub.reports(sent) == []


@pytest.mark.spec("COMM-05")
async def test_success_is_reported_where_it_was_asked_for_and_once(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"), ("chat", "b"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert len(hub.box.got) == 2


@pytest.mark.spec("COMM-05")
@pytest.mark.parametrize(
    ("policy", "addresses", "report"),
    [
        (
            "TO_ALL_CHANNELS",
            [("mail", "a"), ("chat", "fail")],
            ("COMERROR", "chat: no such mailbox"),
        ),
        ("AT_LEAST_ONE", [("mail", "fail"), ("chat", "b")], ("ACK", "")),
        ("AT_LEAST_ONE", [("mail", "fail"), ("chat", "fail")], ("COMERROR", "mail: no such")),
        ("PREFERRED", [("mail", "fail"), ("chat", "b")], ("COMERROR", "no such mailbox")),
        ("PREFERRED", [("fax", "x"), ("chat", "b")], ("ACK", "")),
        ("TO_ALL_CHANNELS", [("fax", "x"), ("chat", "b")], ("ACK", "")),
        ("TO_ALL_CHANNELS", [("fax", "x")], ("DELIVERYERROR", "no adapter serves an address")),
        ("TO_ALL_CHANNELS", [("mail", "crash")], ("COMERROR", "the adapter failed: Zero")),
        ("TO_ALL_CHANNELS", [("mail", "cancel")], ("COMERROR", "the adapter failed: Cancelled")),
        ("TO_ALL_CHANNELS", [("mail", "exit")], ("COMERROR", "the adapter failed: SystemExit")),
        ("TO_ALL_CHANNELS", [("mail", "later")], ("ACK", "")),
    ],
)
async def test_the_policy_of_a_peer_decides(
    hub: CommHub, policy: str, addresses: list[tuple[str, str]], report: tuple[str, str]
) -> None:
    await hub.peer("ann", *addresses, policy=policy)
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    subtype, content = await hub.report(sent)
    assert (subtype, content[: len(report[1])]) == report


@pytest.mark.spec("COMM-05", "COMM-09")
async def test_an_unknown_peer_is_reported(hub: CommHub) -> None:
    assert await hub.report(await hub.send("nobody")) == ("DELIVERYERROR", "unknown peer")


@pytest.mark.spec("COMM-06")
async def test_a_privacy_policy_refuses_and_the_sender_hears_it(hub: CommHub) -> None:
    privacy = [{"effect": "deny", "types": ["ALARM"]}]
    await hub.peer("ann", ("mail", "a"), privacy=privacy)
    report = await hub.report(await hub.send("ann"))
    assert report == ("DELIVERYERROR", "refused by a privacy policy")
    assert hub.box.got == []


@pytest.mark.spec("COMM-01", "COMM-11")
async def test_an_id_of_the_senders_own_is_kept_repeated_and_in_conflict(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"))
    for _ in range(2):
        assert await hub.send("ann", id="mine", content="one") == "mine"
    body = {"id": "mine", "type": "ALARM", "subtype": "fire", "sender": "component:desk"}
    reply = await hub.service("POST", f"{COMM}/messages", {**body, "receiver": "ann"})
    assert (reply.status, reply.code) == (409, "conflict")
    await hub.send("ann", id="other")
    assert [each.message.id for each in await hub.got(2)] == ["mine", "other"]


@pytest.mark.spec("COMM-07", "COMM-11")
@pytest.mark.parametrize(
    ("body", "code", "names"),
    [
        ({"subtype": "s", "sender": "x"}, "invalid_attribute", "type is missing"),
        ({"type": "t", "sender": "x"}, "invalid_attribute", "subtype is missing"),
        ({"type": "t", "subtype": "s"}, "invalid_attribute", "sender is missing"),
        ({"type": "CONTROL", "subtype": "ACK", "sender": "x"}, "invalid_attribute", "CONTROL"),
        ({"type": "AUTH", "subtype": "REPLY", "sender": "x"}, "invalid_attribute", "AUTH"),
        ({"type": "t", "subtype": "s", "sender": "x", "ttl": -1}, "invalid_attribute", "ttl"),
        (
            {"type": "t", "subtype": "s", "sender": "x", "id": "a.verdict"},
            "invalid_attribute",
            "id",
        ),
        ({"type": "t", "subtype": "s", "sender": "x", "to": "y"}, "invalid_attribute", "to"),
        ([], "invalid_attribute", "message"),
    ],
)
async def test_a_wrong_message_is_refused_and_its_field_named(
    hub: CommHub, body: Any, code: str, names: str
) -> None:
    reply = await hub.service("POST", f"{COMM}/messages", body)
    assert (reply.status, reply.code) == (422, code), reply.text
    assert names in reply.message


# -- collectives and routes -----------------------------------------------------------------------


@pytest.mark.spec("COMM-01", "COMM-04", "COMM-05")
async def test_each_member_of_a_collective_is_the_receiver_of_its_copy(hub: CommHub) -> None:
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    await hub.collective("team", "ann", "bob", "ann")
    sent = await hub.send("collective:team", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert sorted(each.message.receiver for each in hub.box.got) == ["ann", "bob"]
    assert {each.message.id for each in hub.box.got} == {sent}


@pytest.mark.spec("COMM-05")
@pytest.mark.parametrize(
    ("policy", "members", "report"),
    [
        ("TO_ANY", ["lost", "ann"], ("ACK", "")),
        ("TO_ANY", ["lost"], ("DELIVERYERROR", "lost: no such mailbox")),
        ("TO_ANY", ["nobody", "ann"], ("ACK", "")),
        ("TO_ALL_MEMBERS", ["ann", "lost"], ("DELIVERYERROR", "lost: no such mailbox")),
        ("TO_ALL_MEMBERS", ["nobody", "ann"], ("DELIVERYERROR", "nobody: unknown peer")),
        ("TO_ALL_MEMBERS", [], ("DELIVERYERROR", "the collective is empty")),
    ],
)
async def test_the_policy_of_a_collective_decides(
    hub: CommHub, policy: str, members: list[str], report: tuple[str, str]
) -> None:
    await hub.peer("ann", ("mail", "a"))
    await hub.peer("lost", ("mail", "fail"))
    await hub.collective("team", *members, policy=policy)
    sent = await hub.send("collective:team", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == report
    assert await hub.report(await hub.send("collective:none")) == (
        "DELIVERYERROR",
        "unknown collective",
    )


@pytest.mark.spec("COMM-01", "COMM-09")
async def test_members_come_and_go_and_hold_at_once(hub: CommHub) -> None:
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    await hub.collective("team", "ann")
    members = f"{HUB}/collectives/team/members"
    for method in ("PUT", "PUT"):
        assert (await hub.service(method, f"{members}/bob")).status == 204
    for method in ("DELETE", "DELETE"):
        assert (await hub.service(method, f"{members}/ann")).status == 204
    await hub.send("collective:team")
    (delivery,) = await hub.got(1)
    assert delivery.peer == "bob"
    refused = await hub.service("PUT", f"{members}/collective:team")
    assert (refused.status, refused.code) == (400, "invalid_name")


@pytest.mark.spec("COMM-04", "COMM-11")
async def test_rules_add_receivers_until_they_are_removed(hub: CommHub) -> None:
    for name in ("ann", "bob", "eve"):
        await hub.peer(name, ("mail", name))
    ids = []
    for route in (["bob", "ann"], ["bob"]):
        rule = {"type": "ALARM", "route": route}
        reply = await hub.service("POST", f"{HUB}/routes", rule)
        ids.append(reply.json["id"])
    assert len(set(ids)) == 2
    await hub.send("ann")
    assert sorted(each.peer for each in await hub.got(2)) == ["ann", "bob"]
    for rule_id in ids:
        assert (await hub.service("DELETE", f"{HUB}/routes/{rule_id}")).status == 204
    assert (await hub.service("DELETE", f"{HUB}/routes/{ids[0]}")).status == 404
    await hub.send("eve")
    assert [each.peer for each in (await hub.got(3))[2:]] == ["eve"]
    for wrong in ({"route": ["ann"]}, {"type": "x", "route": []}, {"type": "x"}):
        reply = await hub.service("POST", f"{HUB}/routes", wrong)
        assert reply.status in (400, 422), reply.text


@pytest.mark.spec("COMM-04", "COMM-05")
async def test_failed_routed_copies_are_reported_only_where_no_receiver_was_named(
    hub: CommHub,
) -> None:
    await hub.peer("ann", ("mail", "a"))
    await hub.peer("lost", ("mail", "fail"))
    await hub.service("PUT", f"{HUB}/routes/r", {"subtype": "fire", "route": ["lost"]})
    named = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(named) == ("ACK", "")
    nobody = await hub.send()
    assert await hub.report(nobody) == ("COMERROR", "no such mailbox")
    dead = (await hub.service("GET", f"{HUB}/dead-deliveries")).json["items"]
    assert [each["messageID"] for each in dead] == [named, nobody]
    assert len(await hub.reports(named)) == 1


@pytest.mark.spec("COMM-04")
async def test_rules_that_route_in_a_circle_deliver_once(hub: CommHub) -> None:
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    await hub.service("PUT", f"{HUB}/routes/1", {"receiver": "ann", "route": ["bob"]})
    await hub.service("PUT", f"{HUB}/routes/2", {"receiver": "bob", "route": ["ann"]})
    await hub.send("ann")
    await hub.send("ann", subtype="last")
    got = await hub.got(4)
    assert sorted(each.peer for each in got) == ["ann", "ann", "bob", "bob"]


# -- time -----------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-10")
async def test_a_message_that_runs_out_yields_a_time_out_instead_of_its_verdict(
    hub: CommHub,
) -> None:
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", ttl=100, deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("TIMEOUT", "the time to live is over")
    hub.box.gate.set()
    later = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(later) == ("ACK", "")
    assert len(await hub.reports(sent)) == 1


@pytest.mark.spec("COMM-10")
async def test_an_awaited_reply_is_part_of_the_verdict(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"))
    awaiting = {"headers": {"await": "reply"}, "deliveryPolicy": "ACKNOWLEDGED"}
    answered = await hub.send("ann", ttl=60_000, **awaiting)
    await hub.got(1)
    assert await hub.reports(answered) == []
    await hub.send("component:desk", sender="ann", refersTo=answered)
    assert await hub.report(answered) == ("ACK", "")
    ignored = await hub.send("ann", ttl=100, **awaiting)
    assert await hub.report(ignored) == ("TIMEOUT", "the time to live is over")


# -- adapters -------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_stateful_adapters_are_one_for_each_peer_and_go_with_its_address(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, own=memory("test-own"))
    for name in ("ann", "bob"):
        await hub.peer(name, ("own", name))
        await hub.send(name)
        await hub.send(name)
    await hub.got(4)
    assert hub.box.made == 2
    await hub.peer("ann", ("own", "elsewhere"))

    async def closed() -> bool:
        return hub.box.closed == 1

    await until(closed)


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_a_removed_output_adapter_sends_what_waits_and_nothing_new(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "hang"))
    waiting = [await hub.send("ann", deliveryPolicy="ACKNOWLEDGED") for _ in range(3)]
    assert (await hub.service("DELETE", f"{HUB}/adapters/mail")).status == 204
    refused = await hub.send("ann")
    assert await hub.report(refused) == ("DELIVERYERROR", "no adapter serves an address")
    hub.box.gate.set()
    for sent in waiting:
        assert await hub.report(sent) == ("ACK", "")


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_a_full_queue_refuses_what_comes_and_is_still_sent_after_its_adapter_is_removed(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, more={"quotas": {"deliveries": 2}})
    await hub.peer("ann", ("mail", "hang"))
    sent = [await hub.send("ann") for _ in range(2)]
    await until(lambda: _is_true(hub.box.attempts))
    body = {"type": "ALARM", "subtype": "fire", "sender": "component:desk", "receiver": "ann"}
    refused = await hub.service("POST", f"{COMM}/messages", body)
    assert (refused.status, refused.code) == (429, "quota_exceeded")
    assert (await hub.service("DELETE", f"{HUB}/adapters/mail")).status == 204
    hub.box.gate.set()
    assert [each.message.id for each in await hub.got(2)] == sent
    report = await hub.report(await hub.send("ann"))
    assert report == ("DELIVERYERROR", "no adapter serves an address")


async def _is_true(value: object) -> bool:
    return bool(value)


@pytest.mark.spec("COMM-05", "COMM-06")
async def test_other_names_of_policies_are_understood_and_unknown_time_zones_refused(
    hub: CommHub,
) -> None:
    for given, kept in (("TO_ANY", "AT_LEAST_ONE"), ("TO_ALL", "TO_ALL_CHANNELS")):
        await hub.peer("ann", ("mail", "a"), policy=given)
        assert (await hub.service("GET", f"{HUB}/peers/ann")).json["policy"] == kept
    window = {"begins": "22:00", "ends": "06:00", "zone": "Mars/Base"}
    body = {"privacy": [{"effect": "deny", "during": window}]}
    for method, path, said in (
        ("PUT", f"{HUB}/peers/ann", body),
        ("POST", f"{HUB}/peers", {"peers": [{"id": "ann", "peer": body}]}),
    ):
        reply = await hub.service(method, path, said)
        assert (reply.status, reply.code) == (422, "invalid_attribute"), reply.text
        assert "Mars/Base" in reply.message


@pytest.mark.spec("COMM-02")
async def test_the_order_of_a_peer_is_kept_and_another_peer_does_not_wait(hub: CommHub) -> None:
    await hub.peer("slow", ("mail", "hang"))
    await hub.peer("ann", ("mail", "a"))
    for _ in range(3):
        await hub.send("slow")
    sent = [await hub.send("ann") for _ in range(5)]
    got = await hub.got(5)
    assert [each.message.id for each in got] == sent
    statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    mail = next(each for each in statuses if each["name"] == "mail")
    assert (mail["waiting"], mail["delivered"]) == (3, 5)
    hub.box.gate.set()


@pytest.mark.spec("COMM-02", "COMM-03")
async def test_pulled_messages_come_in_with_the_adapter_as_their_sender(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), inbox=memory("test-pull", "in"))
    await hub.peer("ann", ("mail", "a"))
    BOXES["in"].inbox.append(PeerMessage(id="p1", type="NEWS", subtype="s", receiver="ann"))
    assert (await hub.service("POST", f"{HUB}/adapters/inbox/pull")).status == 204
    (delivery,) = await hub.got(1)
    assert (delivery.message.id, delivery.message.sender) == ("p1", "inbox")
    assert BOXES["in"].settled == [1]
    assert (await hub.service("POST", f"{HUB}/adapters/nothing/pull")).status == 404


@pytest.mark.spec("COMM-02", "COMM-07")
async def test_garbage_from_an_adapter_is_an_error_that_rules_route_and_holds_nothing_up(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), inbox=memory("test-pull", "in"))
    await hub.peer("ann", ("mail", "ann"))
    rule = {"type": "CONTROL", "subtype": "ERROR", "route": ["ann"]}
    assert (await hub.service("POST", f"{HUB}/routes", rule)).status == 200
    BOXES["in"].inbox += [
        PeerMessage(id="bad", type="", subtype="x"),
        PeerMessage(id="good", type="NOTE", subtype="x", receiver="ann"),
    ]
    assert (await hub.service("POST", f"{HUB}/adapters/inbox/pull")).status == 204
    fault, note = [each.message for each in await hub.got(2)]
    assert (fault.type, fault.subtype, fault.sender) == ("CONTROL", "ERROR", "component:inbox")
    assert (fault.refers_to, "type is missing" in fault.content) == ("bad", True)
    assert (note.id, note.sender) == ("good", "inbox")


@pytest.mark.spec("COMM-02")
async def test_a_pull_adapter_that_is_to_be_deleted_goes_after_its_first_message(
    start_hub: StartHub,
) -> None:
    more = {"interval_ms": 20, "delete_if_successful": True}
    hub = await comm_hub(start_hub, inbox=memory("test-pull", "in", **more))
    body = PeerMessage(type="NEWS", subtype="s")
    BOXES["in"].inbox += [body, body]

    async def gone() -> bool:
        return (await hub.service("GET", f"{HUB}/adapters/inbox")).status == 404

    await until(gone)
    assert len(BOXES["in"].inbox) == 1


@pytest.mark.spec("COMM-02", "COMM-11")
@pytest.mark.parametrize(
    ("adapter", "problem"),
    [
        ({"kind": "no-such-kind"}, "no-such-kind"),
        ({"kind": "test-memory", "settings": {"bx": "y"}}, "bx"),
        ({"kind": "test-pull", "intervalMs": 0}, "intervalMs"),
        ({"kind": "test-memory", "intervalMs": 5}, "intervalMs"),
        ({"kind": "test-memory", "secrets": {"x": "y"}}, "secrets"),
    ],
)
async def test_an_adapter_that_cannot_work_is_refused(
    hub: CommHub, adapter: dict[str, Any], problem: str
) -> None:
    reply = await hub.service("PUT", f"{HUB}/adapters/new", adapter)
    assert reply.status in (400, 422), reply.text
    assert problem in reply.message


@pytest.mark.spec("COMM-07")
async def test_forged_control_messages_from_adapters_are_dropped(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    forged = {"type": "CONTROL", "subtype": "ACK", "sender": "ann", "refersTo": sent}
    assert (await hub.service("POST", f"{COMM}/input/door", forged)).status == 200
    for subtype in ("REPLY", "FAILED"):
        stray = {"type": "AUTH", "subtype": subtype, "sender": "ann", "receiver": "ann"}
        assert (await hub.service("POST", f"{COMM}/input/door", stray)).status == 200
    assert await hub.logged(sender="ann") == []
    assert await hub.reports(sent) == []
    assert (await hub.service("POST", f"{COMM}/input/none", forged)).status == 404
    assert (await client_of(hub.hub)("POST", f"{COMM}/input/door", forged)).status == 403
    hub.box.gate.set()


# -- senders, answers, services -------------------------------------------------------------------


@pytest.mark.spec("COMM-05", "COMM-07")
async def test_a_peer_that_sends_hears_by_its_own_adapters(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"))
    await hub.peer("lost", ("chat", "fail"))
    sent = await hub.send("lost", sender="ann", conversationID="c")
    (report,) = await hub.got(1)
    assert (report.peer, report.message.type, report.message.subtype) == (
        "ann",
        "CONTROL",
        "COMERROR",
    )
    assert (report.message.refers_to, report.message.conversation_id) == (sent, "c")


@pytest.mark.spec("COMM-11")
async def test_users_send_only_where_they_may_and_only_as_themselves(start_hub: StartHub) -> None:
    body = {"type": "t", "subtype": "s", "receiver": "bob"}
    closed = await comm_hub(start_hub)
    refused = await client_of(closed.hub)("POST", f"{COMM}/messages", body)
    assert (refused.status, refused.code) == (403, "not_permitted")
    hub = closed
    settings = await hub.service("GET", f"{HUB}/settings")
    changed = {**settings.json, "communication": {"clientSend": True}}
    saved = await hub.service("PUT", f"{HUB}/settings", changed)
    assert saved.status == 200, saved.text
    client = client_of(hub.hub)
    assert (await client("POST", f"{COMM}/messages", body)).status == 200
    forged = await client("POST", f"{COMM}/messages", {**body, "sender": "eve"})
    assert (forged.status, forged.code) == (403, "not_permitted")
    for name in ("collective:ops", "component:AuthenticationManager"):
        odd = await Caller(hub.hub, hub.hub.token(name))("POST", f"{COMM}/messages", body)
        assert (odd.status, odd.code) == (403, "not_permitted"), name
    (logged,) = await hub.logged(type="t")
    assert logged["message"]["sender"] == "ann"
    viewer = Caller(hub.hub, hub.hub.token("vera", level=Level.VIEWER))
    for path in ("messages", "input/desk"):
        looking = await viewer("POST", f"{COMM}/{path}", {**body, "sender": "the boss"})
        assert (looking.status, looking.code) == (403, "not_permitted"), path
    assert (await hub.service("POST", COMM, body)).status == 404


@pytest.mark.spec("COMM-08")
async def test_message_info_is_kept_and_asked_for_by_a_message(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"))
    info = {"type": "ALARM", "subtype": "fire", "purpose": "get out", "validAnswer": "safe"}
    saved = await hub.service("PUT", f"{HUB}/message-info/alarms", info)
    assert saved.status == 201, saved.text
    wrong = await hub.service("PUT", f"{HUB}/message-info/x", {"type": "ALARM"})
    assert (wrong.status, "subtype" in wrong.message) == (400, True), wrong.text
    assert (await hub.service("GET", f"{HUB}/message-info/x")).status == 404
    asked = {"type": "MESSAGEINFO", "subtype": "REQUEST", "sender": "ann"}
    service = "component:MessageInfoService"
    about = await hub.send("component:desk")
    for content in ('{"type":"ALARM","subtype":"fire"}', f'{{"id":"{about}"}}', "{}"):
        await hub.send(service, **asked, content=content)
    replies = [each.message for each in await hub.got(3)]
    assert [each.subtype for each in replies] == ["REPLY"] * 3
    assert ["get out" in each.content for each in replies] == [True, True, False]
    assert replies[2].content == '{"known":false}'


@pytest.mark.spec("COMM-08")
async def test_the_log_answers_queries_by_criteria_in_pages(hub: CommHub) -> None:
    for number in range(5):
        await hub.send(id=f"m{number}", subtype="odd" if number % 2 else "even")
    assert [each["message"]["id"] for each in await hub.logged(subtype="odd")] == ["m1", "m3"]
    pages = await hub.service.all(f"{HUB}/messages", 2)
    assert [each["message"]["id"] for each in pages] == ["m4", "m3", "m2", "m1", "m0"]
    illegal = await hub.service("GET", f"{HUB}/messages?since=5&until=4")
    assert (illegal.status, illegal.code) == (400, "bad_request")


@pytest.mark.spec("COMM-11")
async def test_dead_letters_are_listed_and_replayed(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "fail"))
    sent = await hub.send("ann")
    await hub.report(sent)
    (dead,) = (await hub.service("GET", f"{HUB}/dead-deliveries")).json["items"]
    assert (dead["peer"], dead["adapter"], dead["reason"]) == ("ann", "mail", "no such mailbox")
    before = len(hub.box.attempts)
    reply = await hub.service("POST", f"{HUB}/dead-deliveries/replay", {"keys": [dead["key"]]})
    assert reply.json == {"tried": 1}

    async def again() -> bool:
        return len(hub.box.attempts) > before

    await until(again)
    assert hub.box.attempts[0].key == hub.box.attempts[-1].key
    assert len(await hub.reports(sent)) == 1


@pytest.mark.spec("COMM-11")
async def test_dead_letters_are_discarded_once_their_message_is_decided(
    hub: CommHub,
) -> None:
    await hub.peer("ann", ("mail", "fail"), ("mail", "hang"), policy="AT_LEAST_ONE")
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")

    async def dead() -> list[str]:
        found = await hub.service("GET", f"{HUB}/dead-deliveries")
        return [each["key"] for each in found.json["items"]]

    await until(dead)
    (key,) = await dead()

    async def discard(*keys: str) -> int:
        reply = await hub.service("POST", f"{HUB}/dead-deliveries/discard", {"keys": keys})
        assert reply.status == 200, reply.text
        return int(reply.json["discarded"])

    assert await discard(key) == 0
    hub.box.gate.set()
    assert await hub.report(sent) == ("ACK", "")
    assert await discard(key, "none") == 1
    assert await dead() == []
    assert await discard(key) == 0
    reply = await hub.service("POST", f"{HUB}/dead-deliveries/discard", {"keys": []})
    assert reply.status == 400
    audit = (await admin_of(hub.hub)("GET", f"{HUB}/audit")).json["items"]
    assert "dead_letters.discard" in [each["action"] for each in audit]


@pytest.mark.spec("COMM-11")
async def test_a_transient_message_is_delivered_and_not_in_the_log(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "a"))
    body = {"type": "t", "subtype": "s", "sender": "component:x", "receiver": "ann"}
    assert (await hub.service("POST", f"{COMM}/messages?transient=true", body)).status == 200
    await hub.got(1)
    assert await hub.logged(type="t") == []


@pytest.mark.spec("COMM-01")
async def test_nobody_publishes_to_the_log(hub: CommHub) -> None:
    path = "/v1/hubs/acme/channels/comm:log/messages"
    for caller in (hub.service, client_of(hub.hub)):
        reply = await caller("POST", path, {"a": 1})
        assert reply.status in (401, 403), reply.text


# -- coming back ----------------------------------------------------------------------------------


@pytest.mark.spec("COMM-05", "COMM-11")
async def test_what_was_open_goes_on_after_a_restart_under_the_same_key(
    start_server: StartHub,
) -> None:
    hub = await comm_hub(start_server, mail=memory(), chat=memory())
    await hub.peer("ann", ("mail", "hang"), ("chat", "b"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await hub.got(1)
    keys = {each.key for each in hub.box.attempts}
    await asyncio.sleep(0)
    await hub.hub.close()
    again = await comm_hub(start_server, mail=memory(), chat=memory())
    again.box.gate.set()
    assert await again.report(sent) == ("ACK", "")
    assert {each.key for each in again.box.attempts} <= keys
