"""Promises of messages to peers that are small by themselves: adapters, policies, services and
journal, through the public doors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from harness.admin import HUB, service_of
from harness.clock import FakeClock
from harness.communication import BOXES, COMM, CommHub, comm_hub, memory, until
from harness.journal import QUIET, journalled
from harness.receivers import Receiver
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo
from hubbub.domain.errors import NotFound
from hubbub.engine.communication import knowledge

NEWS = PeerMessage(type="NEWS", subtype="s", receiver="ann")


async def _is(value: object) -> bool:
    return bool(value)


async def put(hub: CommHub, path: str, body: Any) -> None:
    reply = await hub.service("PUT", f"{HUB}/{path}", body)
    assert reply.status < 300, reply.text


async def hand_in(hub: CommHub, **fields: Any) -> str:
    body = {"type": "NOTE", "subtype": "TEXT", **fields}
    reply = await hub.service("POST", f"{COMM}/input/door", body)
    assert reply.status == 200, reply.text
    return str(reply.json["id"])


# -- messages and rules ---------------------------------------------------------------------------


@pytest.mark.spec("COMM-01", "COMM-02")
async def test_a_message_that_is_handed_in_may_spell_its_conversation_as_the_report_does(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    await hub.peer("ann", ("mail", "a"))
    for name in ("conversation-id", "conversationID", "conversation"):
        await hand_in(hub, receiver="ann", sender="bob", **{name: "c 1", "ttl": 60_000.0})
    assert {each.message.conversation_id for each in await hub.got(3)} == {"c 1"}


@pytest.mark.spec("COMM-04", "COMM-11")
@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"type": "x", "route": []}, "route"),
        ({"type": "x"}, "route"),
        ({"route": ["ann"]}, "type"),
        ({"type": "x", "route": ["collective:"]}, "route"),
    ],
)
async def test_an_invalid_rule_is_refused_and_its_field_is_named(
    start_hub: StartHub, rule: dict[str, Any], says: str
) -> None:
    hub = await comm_hub(start_hub)
    reply = await hub.service("POST", f"{HUB}/routes", rule)
    assert (reply.status, reply.code, says in reply.message) == (400, "bad_request", True), (
        reply.text
    )
    assert (await hub.service("GET", f"{HUB}/routes")).json["items"] == []


@pytest.mark.spec("COMM-04")
async def test_rules_apply_once_to_a_message_and_not_to_its_copies_and_equal_ones_coexist(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    for name in ("ann", "bob", "eve"):
        await hub.peer(name, ("mail", name))
    await hub.collective("team", "bob")
    rules = [{"receiver": "bob", "route": ["eve"]}, *[{"type": "ALARM", "route": ["ann"]}] * 2]
    ids = [(await hub.service("POST", f"{HUB}/routes", each)).json["id"] for each in rules]
    assert len(set(ids)) == 3
    await hub.send("collective:team")
    await hub.send("ann", subtype="last")
    got = await hub.got(3)
    assert sorted((each.peer, each.message.receiver) for each in got) == [
        ("ann", "ann"),
        ("ann", "ann"),
        ("bob", "bob"),
    ]


@pytest.mark.spec("COMM-01", "COMM-07", "COMM-09", "COMM-11")
async def test_callbacks_get_messages_and_reports_to_components_and_a_repeated_one_is_one(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    async with Receiver(lambda _: 204) as server:
        for _ in range(2):
            await put(hub, "callbacks/log", {"url": server.url, "roles": ["notify"]})
        asked = await hub.send("component:desk", content="to a component", sender="ann")
        failed = await hub.send("nobody", conversationID="c")
        bodies = [json.loads(each.body) for each in await server.got(2)]
    by_type = {each["type"]: each for each in bodies}
    assert (by_type["ALARM"]["id"], by_type["ALARM"]["receiver"]) == (asked, "component:desk")
    report = by_type["CONTROL"]
    assert (report["subtype"], report["sender"], report["receiver"]) == (
        "DELIVERYERROR",
        "nobody",
        "component:desk",
    )
    assert (report["refersTo"], report["conversationID"]) == (failed, "c")
    assert report["content"] == "unknown peer"


# -- adapters -------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-02", "COMM-11")
@pytest.mark.parametrize(
    ("adapter", "says"),
    [
        (("test-push", "deaf"), "the port is taken"),
        (("test-memory", "broken"), "no such server"),
    ],
)
async def test_an_adapter_that_cannot_begin_is_not_added(
    start_hub: StartHub, adapter: tuple[str, str], says: str
) -> None:
    hub = await comm_hub(start_hub)
    kind, box = adapter
    reply = await hub.service(
        "PUT", f"{HUB}/adapters/new", {"kind": kind, "settings": {"box": box}}
    )
    assert (reply.status, reply.code, says in reply.message) == (400, "bad_request", True), (
        reply.text
    )
    assert (await hub.service("GET", f"{HUB}/adapters/new")).status == 404


@pytest.mark.spec("COMM-02")
async def test_a_stateless_adapter_is_made_once_and_each_address_of_a_peer_gets_its_copy(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    await until(lambda: _is(hub.box.made))  # before any message
    await hub.peer("ann", ("mail", "first"), ("mail", "second"))
    await hub.peer("bob", ("mail", "third"))
    await hub.send("ann")
    await hub.send("bob")
    got = await hub.got(3)
    assert sorted(each.address.parameters[0] for each in got) == ["first", "second", "third"]
    assert len({each.key for each in got}) == 3
    assert hub.box.made == 1


@pytest.mark.spec("COMM-02")
@pytest.mark.parametrize(
    ("addresses", "policy", "report"),
    [
        ([("own", "nowhere"), ("mail", "a")], "TO_ALL_CHANNELS", ("ACK", "")),
        ([("own", "nowhere"), ("mail", "a")], "PREFERRED", ("ACK", "")),
        (
            [("own", "nowhere")],
            "TO_ALL_CHANNELS",
            ("DELIVERYERROR", "no adapter serves an address"),
        ),
    ],
)
async def test_an_address_whose_own_adapter_cannot_be_made_is_passed_over(
    start_hub: StartHub,
    addresses: list[tuple[str, str]],
    policy: str,
    report: tuple[str, str],
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), own=memory("test-own"))
    await hub.peer("ann", *addresses, policy=policy)
    assert await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")) == report
    statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    (own,) = [each for each in statuses if each["name"] == "own"]
    assert "no such account" in own["last_error"]


@pytest.mark.spec("COMM-02")
async def test_an_adapter_of_a_peers_own_is_dropped_when_it_is_idle(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await comm_hub(start_server, clock=clock, own=memory("test-own"))
    await hub.peer("ann", ("own", "a"))
    await hub.send("ann")
    await hub.got(1)
    clock.advance(599)
    hub.hub.server.communication.sweep()
    assert hub.box.closed == 0
    clock.advance(2)
    hub.hub.server.communication.sweep()
    await until(lambda: _is(hub.box.closed == 1))
    hub.service = service_of(hub.hub)  # the first token has expired
    await hub.send("ann")
    await hub.got(2)
    assert hub.box.made == 2


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_the_order_of_addresses_is_part_of_a_peers_preferences(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, mail=memory(), chat=memory())
    for addresses in ([("mail", "a"), ("chat", "b")], [("chat", "b"), ("mail", "a")]):
        await hub.peer("ann", *addresses, policy="PREFERRED")
        await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    assert [each.address.adapter for each in hub.box.got] == ["mail", "chat"]


@pytest.mark.spec("COMM-02")
async def test_so_many_deliveries_of_an_adapter_are_under_way_as_its_settings_say(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(max_parallel=2), chat=memory())
    for name in ("ann", "bob", "eve"):
        await hub.peer(name, ("mail", "hang"))
        await hub.send(name)
    await until(lambda: _is(len(hub.box.attempts) == 2))
    await hub.peer("ida", ("chat", "ida"))
    await hub.report(await hub.send("ida", deliveryPolicy="ACKNOWLEDGED"))
    assert [each.peer for each in hub.box.attempts[2:]] == ["ida"]
    hub.box.gate.set()
    await hub.got(4)


@pytest.mark.spec("COMM-02", "COMM-05")
async def test_a_push_that_hangs_is_given_up_and_tried_again_under_the_same_key(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory("test-hasty"))
    await hub.peer("ann", ("mail", "hang"))
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(lambda: _is(len(hub.box.attempts) >= 2))
    statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    assert statuses[0]["last_error"] == "the adapter took too long"
    hub.box.gate.set()
    assert await hub.report(sent) == ("ACK", "")
    assert len({each.key for each in hub.box.attempts}) == 1


@pytest.mark.spec("COMM-02")
async def test_pulls_begin_at_once_go_on_after_errors_and_end_after_the_first_message(
    start_hub: StartHub,
) -> None:
    BOXES.clear()
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "a"))
    BOXES["in"].inbox += [NEWS]
    slow = {"kind": "test-pull", "settings": {"box": "in"}, "intervalMs": 3_600_000}
    await put(hub, "adapters/hourly", slow)
    await hub.got(1)
    assert (await hub.service("DELETE", f"{HUB}/adapters/hourly")).status == 204
    BOXES["once"].inbox += [OSError("no answer"), None, NEWS, NEWS]
    once = {"kind": "test-pull", "settings": {"box": "once"}, "intervalMs": 5}
    await put(hub, "adapters/once", {**once, "deleteIfSuccessful": True})

    async def gone() -> bool:
        return (await hub.service("GET", f"{HUB}/adapters/once")).status == 404

    await until(gone)
    await hub.got(2)
    assert (BOXES["once"].pulls, len(BOXES["once"].inbox)) == (3, 1)


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_a_removed_input_adapter_is_neither_pulled_nor_publishes(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(
        start_hub,
        mail=memory(),
        inbox=memory("test-pull", "in", interval_ms=5),
        door=memory("test-push", "in"),
    )
    await until(lambda: _is(BOXES["in"].pulls and BOXES["in"].publish))
    publish = BOXES["in"].publish
    assert publish is not None
    for name in ("inbox", "door"):
        assert (await hub.service("DELETE", f"{HUB}/adapters/{name}")).status == 204
    await until(lambda: _is(BOXES["in"].stopped and BOXES["in"].closed))
    pulls = BOXES["in"].pulls
    with pytest.raises(NotFound, match="'door' was removed"):
        await publish(NEWS)
    for path, status in (("pull", 404), ("", 404)):
        reply = await hub.service("POST", f"{HUB}/adapters/inbox/{path}".rstrip("/"))
        assert reply.status in (status, 405), reply.text
    await hub.send("component:desk")  # a turn of the hub later
    assert (BOXES["in"].pulls, await hub.logged(type="NEWS")) == (pulls, [])


@pytest.mark.spec("COMM-02", "COMM-11")
async def test_what_comes_by_a_transient_adapter_is_delivered_and_not_in_the_log(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in", transient=True))
    await hub.peer("ann", ("mail", "a"))
    sent = await hand_in(hub, sender="bob", receiver="ann", content="quick")
    (delivery,) = await hub.got(1)
    assert (delivery.message.id, delivery.message.content) == (sent, "quick")
    assert await hub.logged(type="NOTE") == []
    lost = await hand_in(hub, sender="component:desk", receiver="nobody")
    assert await hub.reports(lost) == [], "the report is as transient as the message"


class SlowDirectory:
    """Knows everybody, and answers when the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        await self.gate.wait()
        return PeerInfo((Address("mail", (peer,)),))

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        return None

    async def authenticate(self, hub: str, peer: str, password: str) -> bool:
        return False


@pytest.mark.spec("COMM-09", "COMM-11")
async def test_messages_whose_receivers_are_asked_about_count_in_the_quota(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "CALLBACK_SECONDS", 60.0)
    hub = await comm_hub(start_hub, more={"quotas": {"deliveries": 2}})
    directory = SlowDirectory()
    hub.hub.server.communication.directories.append(directory)
    sent = [await hub.send("ann"), await hub.send("bob")]
    body = {"type": "ALARM", "subtype": "fire", "sender": "component:desk", "receiver": "eve"}
    refused = await hub.service("POST", f"{COMM}/messages", body)
    assert (refused.status, refused.code) == (429, "quota_exceeded")
    assert "2 deliveries that wait" in refused.message
    directory.gate.set()
    assert sorted(each.message.id for each in await hub.got(2)) == sorted(sent)


# -- policies, privacy and time -------------------------------------------------------------------


@pytest.mark.spec("COMM-05")
async def test_copies_of_a_decided_collective_still_go_out_and_change_no_verdict(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), chat=memory())
    await hub.peer("ann", ("chat", "a"))
    await hub.peer("slow", ("mail", "hang"))
    await hub.collective("any", "slow", "ann", policy="TO_ANY")
    sent = await hub.send("collective:any", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    hub.box.gate.set()
    assert [each.peer for each in await hub.got(2)] == ["ann", "slow"]
    assert await hub.reports(sent) == [("ACK", "")]


@pytest.mark.spec("COMM-04", "COMM-05")
async def test_behind_a_member_that_cannot_be_tried_the_other_members_get_nothing(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    await hub.collective("all", "ann", "nobody", "bob")
    sent = await hub.send("collective:all")
    assert await hub.report(sent) == ("DELIVERYERROR", "nobody: unknown peer")
    await hub.report(await hub.send("bob", subtype="last", deliveryPolicy="ACKNOWLEDGED"))
    assert [(each.peer, each.message.subtype) for each in await hub.got(2)] == [
        ("ann", "fire"),
        ("bob", "last"),
    ]


@pytest.mark.spec("COMM-06")
async def test_privacy_is_asked_again_before_what_waited_goes_out(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    under_way = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(lambda: _is(hub.box.attempts))
    waiting = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    denied = [{"effect": "deny", "types": ["ALARM"]}]
    await hub.peer("ann", ("mail", "hang"), privacy=denied)
    hub.box.gate.set()
    assert await hub.report(under_way) == ("ACK", "")
    assert await hub.report(waiting) == ("COMERROR", "refused by a privacy policy")
    assert len(hub.box.attempts) == 1


@pytest.mark.spec("COMM-10")
async def test_copies_that_wait_when_the_time_is_over_never_go_out(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "hang"))
    await hub.send("ann")
    await until(lambda: _is(hub.box.attempts))
    late = await hub.send("ann", ttl=50)
    assert await hub.report(late) == ("TIMEOUT", "the time to live is over")
    hub.box.gate.set()
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    assert late not in [each.message.id for each in hub.box.attempts]
    assert (await hub.service("GET", f"{HUB}/dead-deliveries")).json["items"] == []


@pytest.mark.spec("COMM-10")
async def test_the_time_to_live_runs_while_the_hub_asks_about_the_receiver(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "CALLBACK_SECONDS", 60.0)
    clock = FakeClock()
    hub = await comm_hub(start_server, clock=clock)
    directory = SlowDirectory()
    hub.hub.server.communication.directories.append(directory)
    sent = await hub.send("ann", ttl=5000, deliveryPolicy="ACKNOWLEDGED")
    clock.advance(6)
    directory.gate.set()
    assert await hub.report(sent) == ("TIMEOUT", "the time to live is over")
    assert hub.box.attempts == []


@pytest.mark.spec("COMM-10", "COMM-02")
@pytest.mark.parametrize("answered", [True, False])
async def test_the_adapter_that_awaits_an_answer_looks_once_more_and_is_removed(
    start_hub: StartHub, answered: bool
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "a"))
    waits = {"kind": "test-pull", "settings": {"box": "in"}, "intervalMs": 3_600_000}
    await put(hub, "adapters/answers", {**waits, "awaits": "q1"})
    await until(lambda: _is(BOXES["in"].pulls == 1))
    if answered:
        reply = {"type": "MAIL", "subtype": "REPLY", "sender": "ann", "refers_to": "q1"}
        BOXES["in"].inbox.append(PeerMessage(**reply))  # type: ignore[arg-type]
    awaiting = {"headers": {"await": "reply"}, "deliveryPolicy": "ACKNOWLEDGED"}
    await hub.send("ann", id="q1", ttl=1000 if answered else 50, **awaiting)
    said = ("ACK", "") if answered else ("TIMEOUT", "the time to live is over")
    assert await hub.report("q1") == said
    assert BOXES["in"].pulls >= 2

    async def gone() -> bool:
        return (await hub.service("GET", f"{HUB}/adapters/answers")).status == 404

    await until(gone)


# -- services and journal -------------------------------------------------------------------------


@pytest.mark.spec("COMM-07", "COMM-08")
async def test_message_info_is_replaced_and_a_question_by_an_adapter_is_answered_once(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    await hub.peer("ann", ("mail", "a"))
    kind = {"type": "ALARM", "subtype": "fire"}
    for purpose in ("old", "get out"):
        await put(hub, "message-info/alarms", {**kind, "purpose": purpose})
    asked = {"type": "MESSAGEINFO", "subtype": "REQUEST", "sender": "ann", "id": "q"}
    for _ in range(2):
        await hand_in(hub, **asked, content=json.dumps(kind))
    (delivery,) = await hub.got(1)
    reply = delivery.message
    assert (reply.type, reply.subtype) == ("MESSAGEINFO", "REPLY")
    assert (reply.sender, reply.receiver, reply.refers_to) == (
        "component:MessageInfoService",
        "ann",
        "q",
    )
    assert json.loads(reply.content)["purpose"] == "get out"
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    assert len(hub.box.got) == 2
    assert len(await hub.logged(type="MESSAGEINFO", subtype="REPLY")) == 1


@pytest.mark.spec("COMM-05", "COMM-07", "PIPE-01")
async def test_the_journal_knows_attempts_verdicts_and_forgeries_and_no_secret(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await comm_hub(start_server, server=QUIET, mail=memory(), door=memory("test-push", "in"))
    await hub.peer("ann", ("mail", "later"), policy="AT_LEAST_ONE")
    await hub.collective("team", "ann", "nobody", policy="TO_ANY")
    sent = await hub.send("collective:team", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    forged = await hand_in(hub, type="CONTROL", subtype="ACK", sender="ann", refersTo=sent)
    await hand_in(hub, type="AUTH", subtype="REQUEST", sender="ann", content="s3cret")
    events = await journalled(
        tmp_path / "data" / "journal",
        lambda found: (
            {"adapter.attempt", "policy.verdict"} <= {each.kind for each in found}
            and any(each.message_id == forged for each in found)
            and sum(each.kind == "adapter.attempt" for each in found) >= 3
        ),
    )
    attempts = [each for each in events if each.kind == "adapter.attempt" and each.peer == "ann"]
    about = [(each.adapter, each.policy, each.outcome) for each in attempts[:2]]
    assert about == [("mail", "AT_LEAST_ONE", "retry"), ("mail", "AT_LEAST_ONE", "ok")]
    assert all(each.duration is not None for each in attempts[:2])
    (verdict,) = [each for each in events if each.kind == "policy.verdict"]
    assert (verdict.receiver, verdict.policy, verdict.outcome) == (
        "collective:team",
        "TO_ANY",
        "met",
    )
    (dropped,) = [each for each in events if each.message_id == forged]
    assert (dropped.kind, dropped.adapter, dropped.reason) == ("message.dropped", "door", "forged")
    assert not any("s3cret" in str(each) for each in events)
