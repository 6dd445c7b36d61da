"""Sentences of the contract of messages to peers that stand alone: routes, reports, pulls, queries,
and what adapters may hand in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.admin import HUB
from harness.clock import FakeClock
from harness.communication import BOXES, COMM, Nothing, Pull, comm_hub, memory, until
from harness.peer_logins import Office, answers, contents, is_so, log_in, token_hub
from harness.peer_logins import hand_in as hand_in_as
from harness.receivers import Receiver
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, CollectiveInfo, PeerInfo
from hubbub.ports.adapters import AdapterContext, Pulled, adapter

NEWS = PeerMessage(type="NEWS", subtype="s", receiver="ann")


# -- routes and reports ---------------------------------------------------------------------------


@pytest.mark.spec("COMM-04", "COMM-05")
async def test_only_the_named_receiver_has_a_policy_also_where_it_is_a_component(
    start_server: StartHub,
) -> None:
    hub = await comm_hub(start_server)
    await hub.peer("lost", ("mail", "fail"))
    await hub.service("PUT", f"{HUB}/routes/r", {"subtype": "fire", "route": ["lost"]})
    sent = await hub.send("component:desk", deliveryPolicy="ACKNOWLEDGED")
    await until(lambda: is_so(hub.box.attempts))

    async def dead() -> bool:
        found = (await hub.service("GET", f"{HUB}/dead-deliveries")).json["items"]
        return [each["messageID"] for each in found] == [sent]

    await until(dead)
    assert await hub.reports(sent) == []


@pytest.mark.spec("COMM-05", "COMM-07")
async def test_a_report_that_cannot_be_delivered_is_not_reported_on(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("lost", ("mail", "fail"))
    sent = await hub.send("nobody", sender="lost")
    await until(lambda: is_so(hub.box.attempts))
    report = hub.box.attempts[0].message
    assert (report.type, report.subtype, report.refers_to) == ("CONTROL", "DELIVERYERROR", sent)
    assert report.delivery_policy == "UNACKNOWLEDGED"
    await hub.report(await hub.send("nobody"))  # what comes later is told
    controls = [each["message"]["refersTo"] for each in await hub.logged(type="CONTROL")]
    assert (controls.count(sent), report.id in controls) == (1, False)


@pytest.mark.spec("COMM-05")
async def test_an_outcome_after_the_verdict_changes_nothing(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, mail=memory(), chat=memory())
    await hub.peer("ann", ("mail", "hang"), ("chat", "fail"), policy="TO_ALL_CHANNELS")
    failed = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(failed) == ("COMERROR", "chat: no such mailbox")
    hub.box.gate.set()
    await hub.got(1)

    async def nothing_is_open() -> bool:
        return not await hub.hub.server.store.read_busy_hubs()

    await until(nothing_is_open)
    assert await hub.reports(failed) == [("COMERROR", "chat: no such mailbox")]


@pytest.mark.spec("COMM-11")
async def test_an_unknown_delivery_policy_is_refused_by_name(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub)
    body = {"type": "t", "subtype": "s", "sender": "x", "deliveryPolicy": "SOMETIMES"}
    reply = await hub.service("POST", f"{COMM}/messages", body)
    assert (reply.status, reply.code) == (422, "invalid_attribute")
    assert "deliveryPolicy" in reply.message


# -- pulls ----------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-02", "COMM-11")
@pytest.mark.parametrize("interval", [0, -1, 86_400_000 * 31, 1.5, "5"])
async def test_an_interval_that_is_none_is_refused(start_hub: StartHub, interval: Any) -> None:
    hub = await comm_hub(start_hub)
    body = {"kind": "test-pull", "intervalMs": interval}
    reply = await hub.service("PUT", f"{HUB}/adapters/new", body)
    assert (reply.status, "intervalMs" in reply.message) == (400, True), reply.text


class Slow:
    """How many pulls run at the same time."""

    running = most = pulls = 0
    gate = asyncio.Event()


@adapter(name="test-slow-pull", settings=Nothing, direction="pull")
class SlowPull:
    def __init__(self, settings: Nothing, context: AdapterContext) -> None:
        pass

    async def pull(self) -> Pulled | None:
        Slow.running += 1
        Slow.pulls += 1
        Slow.most = max(Slow.most, Slow.running)
        try:
            await Slow.gate.wait()
        finally:
            Slow.running -= 1
        return None

    async def settle(self, receipt: object) -> None:
        pass

    async def close(self) -> None:
        pass


@pytest.mark.spec("COMM-02")
async def test_pulls_run_one_at_a_time_on_request_alone_and_so_many_wait(
    start_hub: StartHub,
) -> None:
    Slow.running = Slow.most = Slow.pulls = 0
    Slow.gate = asyncio.Event()
    hub = await comm_hub(start_hub, mail=memory(), inbox=memory("test-slow-pull"))
    await hub.send("component:desk")
    assert Slow.pulls == 0, "without an interval only on request"
    path = f"{HUB}/adapters/inbox/pull"
    assert (await hub.service("POST", path)).status == 204
    await until(lambda: is_so(Slow.running == 1))
    for _ in range(100):
        assert (await hub.service("POST", path)).status == 204
    refused = await hub.service("POST", path)
    assert (refused.status, refused.code) == (409, "conflict"), refused.text
    assert "100 pulls of the adapter 'inbox' wait already" in refused.message
    Slow.gate.set()
    await until(lambda: is_so(Slow.pulls == 101))
    assert Slow.most == 1


# -- garbage and forgeries ------------------------------------------------------------------------


@pytest.mark.spec("COMM-02", "COMM-07")
@pytest.mark.parametrize(
    "garbage",
    [
        PeerMessage(id="g", type=5, subtype=None, headers={"a": 1}),  # type: ignore[arg-type, dict-item]
        PeerMessage(id="g", type="t", subtype="s", content="\ud800"),
        PeerMessage(id=7, type="t", subtype="s"),  # type: ignore[arg-type]
        PeerMessage(id="g", type="t", subtype="s", ttl_ms=-5),
        PeerMessage(id="\ud800\n", type="t", subtype="s"),
        PeerMessage(id="g", type="t", subtype="s", headers={"a": "x" * 9000}),
    ],
)
async def test_garbage_is_refused_told_of_and_holds_nothing_up(
    start_hub: StartHub, garbage: PeerMessage
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), inbox=memory("test-pull", "in"))
    await hub.peer("ann", ("mail", "ann"))
    BOXES["in"].inbox += [garbage, NEWS]
    assert (await hub.service("POST", f"{HUB}/adapters/inbox/pull")).status == 204
    (news,) = await hub.got(1)
    assert news.message.type == "NEWS"
    (told,) = await hub.logged(type="CONTROL", subtype="ERROR")
    assert told["message"]["sender"] == "component:inbox"
    assert BOXES["in"].settled == [2, 1]


@adapter(name="test-hasty-pull", settings=Nothing, direction="pull", timeout_seconds=0.05)
class HastyPull(Pull):
    """Its first pull hangs."""

    async def pull(self) -> Pulled | None:
        if not self.box.pulls:
            self.box.pulls += 1
            await self.box.gate.wait()
        return await super().pull()


@pytest.mark.spec("COMM-02")
@pytest.mark.parametrize(
    ("kind", "faults", "says"),
    [
        ("test-pull", [asyncio.CancelledError("lost")], "lost"),
        ("test-pull", [SystemExit(3)], "3"),
        ("test-pull", [ConnectionResetError("reset")], "reset"),
        ("test-hasty-pull", [], "the adapter took too long"),
    ],
)
async def test_after_a_pull_that_fails_hangs_or_ends_in_odd_ways_the_schedule_goes_on(
    start_hub: StartHub, kind: str, faults: list[BaseException], says: str
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "ann"))
    BOXES["in"].inbox += [*faults, NEWS]
    body = {"kind": kind, "settings": {"box": "in"}, "intervalMs": 20}
    assert (await hub.service("PUT", f"{HUB}/adapters/inbox", body)).status == 201
    await hub.got(1)
    statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    (inbox,) = [each for each in statuses if each["name"] == "inbox"]
    assert inbox["last_error"] == says


@adapter(name="test-nonsense", settings=Nothing, direction="pull")
class Nonsense(Pull):
    """Its first pull gives a text."""

    async def pull(self) -> Pulled | None:
        found = await super().pull()
        return found if self.box.pulls > 1 else "nonsense"  # type: ignore[return-value]


@pytest.mark.spec("COMM-02")
async def test_an_adapter_that_gives_no_message_at_all_is_shown_and_goes_on(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), inbox=memory("test-nonsense", "in"))
    await hub.peer("ann", ("mail", "ann"))
    BOXES["in"].inbox += [NEWS]
    for _ in range(2):
        assert (await hub.service("POST", f"{HUB}/adapters/inbox/pull")).status == 204
    await hub.got(1)
    statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
    (inbox,) = [each for each in statuses if each["name"] == "inbox"]
    assert inbox["last_error"] == "the adapter gave 'str' in place of a message"


@pytest.mark.spec("COMM-07")
@pytest.mark.parametrize(
    "forged",
    [
        {"type": "CONTROL", "subtype": "TIMEOUT"},
        {"type": "CONTROL", "subtype": "COMERROR"},
        {"type": "AUTH", "subtype": "REPLY", "content": "token"},
        {"type": "AUTH", "subtype": "ERROR"},
        {"type": "AUTH", "subtype": "REQUEST", "receiver": "bob", "content": "password"},
        {"type": "MESSAGEINFO", "subtype": "REPLY", "receiver": "ann", "content": "{}"},
    ],
)
async def test_what_only_the_hub_says_is_dropped_when_an_adapter_hands_it_in(
    start_hub: StartHub, forged: dict[str, str]
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    for peer in ("ann", "bob"):
        await hub.peer(peer, ("mail", peer))
    body = {"sender": "component:AuthenticationManager", "receiver": "ann", **forged}
    for sender in ("component:AuthenticationManager", "bob"):
        reply = await hub.service("POST", f"{COMM}/input/door", {**body, "sender": sender})
        assert reply.status == 200
        assert await hub.logged(id=reply.json["id"]) == []
    await hub.report(await hub.send("ann", deliveryPolicy="ACKNOWLEDGED"))
    assert [each.message.type for each in hub.box.got] == ["ALARM"]


# -- services -------------------------------------------------------------------------------------


@pytest.mark.spec("COMM-08")
async def test_every_criterion_of_a_query_is_asked_over_http_and_all_must_hold(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub)
    ids = [
        await hub.send("component:a", sender="component:x", conversationID="c1"),
        await hub.send("component:b", sender="component:x", subtype="flood"),
        await hub.send("component:a", sender="component:y", type="NEWS"),
    ]
    times = [each["at"] for each in await hub.logged()]

    async def found(**criteria: Any) -> list[str]:
        return [each["message"]["id"] for each in await hub.logged(**criteria)]

    assert await found() == ids
    for criteria, expected in (
        ({"id": ids[1]}, [1]),
        ({"type": "NEWS"}, [2]),
        ({"subtype": "flood"}, [1]),
        ({"sender": "component:x"}, [0, 1]),
        ({"receiver": "component:a"}, [0, 2]),
        ({"conversation": "c1"}, [0]),
        ({"sender": "component:x", "receiver": "component:a"}, [0]),
        ({"sender": "component:y", "subtype": "flood"}, []),
    ):
        assert await found(**criteria) == [ids[each] for each in expected], criteria
    assert await found(since=times[0], until=times[-1]) == ids, "both ends belong to it"
    assert await found(since=times[-1] + 1) == await found(until=times[0] - 1) == []


class Staff:
    """A directory in Python."""

    async def peer_info(self, hub: str, peer: str) -> PeerInfo | None:
        return PeerInfo((Address("mail", (peer,)),)) if peer == "eve" else None

    async def collective_info(self, hub: str, collective: str) -> CollectiveInfo | None:
        return CollectiveInfo(("eve",)) if collective == "staff" else None

    async def authenticate(self, hub: str, peer: str, password: str) -> bool:
        if password == "crash":
            raise RuntimeError("s3cret detail")
        return (peer, password) == ("eve", "open")


@pytest.mark.spec("COMM-09")
async def test_a_directory_in_python_knows_peers_collectives_and_passwords(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub)
    hub.hub.server.communication.directories.append(Staff())
    sent = await hub.send("collective:staff", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert [each.peer for each in hub.box.got] == ["eve"]
    assert await log_in(hub, "eve", "shut", 1) == ("FAILED", "")
    subtype, text = await log_in(hub, "eve", "crash", 2)
    assert (subtype, "detail" in text) == ("ERROR", False)
    subtype, token = await log_in(hub, "eve", "open", 3)
    assert subtype == "REPLY"
    await hand_in_as(hub, "eve", securityToken=token, content="hello")
    await until(lambda: is_so(contents(hub) == ["hello"]))
    assert await hub.report(await hub.send("collective:none")) == (
        "DELIVERYERROR",
        "unknown collective",
    )


@pytest.mark.spec("COMM-07", "COMM-11")
async def test_a_token_holds_after_a_restart_and_a_login_released_what_was_held(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await token_hub(start_server)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        await hand_in_as(hub, "ann", content="held")
        (dispatcher,) = [each.dispatcher for each in hub.hub.server.communication._hubs.values()]
        monkeypatch.setattr(dispatcher, "release", lambda held: None)  # as if it were killed here
        _, token = await log_in(hub, "ann", "s3cret", 2)
        await hub.hub.close()
    hub = await token_hub(start_server)
    await until(lambda: is_so(contents(hub) == ["held"]))
    await hand_in_as(hub, "ann", securityToken=token, content="again")
    await until(lambda: is_so(contents(hub) == ["held", "again"]))
    assert [each for each in hub.box.got if each.message.type == "AUTH"] == [], "never from disk"
    await hand_in_as(hub, "ann", securityToken="other", content="no")
    assert await answers(hub, "ann", 1) == [("FAILED", "")]


@pytest.mark.spec("COMM-05", "COMM-09")
@pytest.mark.parametrize("sender", ["ci", "unserved", "silent"])
async def test_a_report_that_its_peer_cannot_get_goes_to_the_callbacks(
    start_hub: StartHub, sender: str
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("unserved", ("fax", "1"))
    await hub.peer("silent", ("mail", "s"), privacy=[{"effect": "deny", "types": ["CONTROL"]}])
    heard: list[tuple[str, str]] = []

    class Log:
        async def notify(self, hub: str, message: PeerMessage) -> None:
            heard.append((message.receiver, message.subtype))

    hub.hub.server.communication.callbacks.append(Log())
    async with Receiver(lambda _: 204) as server:
        body = {"url": server.url, "roles": ["notify"]}
        assert (await hub.service("PUT", f"{HUB}/callbacks/log", body)).status == 201
        sent = await hub.send("nobody", sender=sender)
        assert await hub.report(sent) == ("DELIVERYERROR", "unknown peer")
        await hub.send("component:desk", subtype="last")
        await until(lambda: is_so(heard[-1:] == [("component:desk", "last")]))
        told = (
            [] if sender == "silent" else [(sender, "DELIVERYERROR")]
        )  # the peer wants no reports
        assert heard == [*told, ("component:desk", "last")]
        posted = [json.loads(each.body) for each in await server.got(len(heard))]
        assert [(each["receiver"], each["subtype"]) for each in posted] == heard


@pytest.mark.spec("COMM-11", "COMM-08")
async def test_all_that_was_set_is_there_after_a_restart(start_server: StartHub) -> None:
    hub = await comm_hub(start_server)
    await hub.peer("ann", ("own", "ann"), policy="PREFERRED")
    await hub.collective("team", "ann")
    async with Receiver(lambda _: 204) as server:
        kind = {"type": "ALARM", "subtype": "fire"}
        puts: dict[str, Any] = {
            "adapters/own": {"kind": "test-own", "settings": {"box": "box"}},
            "routes/r": {"type": "ALARM", "route": ["collective:team"]},
            "callbacks/log": {"url": server.url, "roles": ["notify"]},
            "message-info/alarms": {**kind, "relatedMessages": [kind], "validAnswer": "safe"},
        }
        for path, body in puts.items():
            reply = await hub.service("PUT", f"{HUB}/{path}", body)
            assert reply.status == 201, reply.text
        await hub.hub.close()
        hub = await comm_hub(start_server)
        sent = await hub.send("component:desk")
        (delivery,) = await hub.got(1)
        assert (delivery.peer, delivery.message.id) == ("ann", sent)
        assert json.loads((await server.got(1))[0].body)["id"] == sent
        about = await hub.service("GET", f"{HUB}/message-info-about?id={sent}")
        assert about.json == {
            **puts["message-info/alarms"],
            "purpose": "",
            "validAnswerTypes": [],
        }
    assert (await hub.service("GET", f"{HUB}/peers/ann")).json["policy"] == "PREFERRED"
    assert [each["message"]["id"] for each in await hub.logged(type="ALARM")] == [sent]


# -- awaited answers ------------------------------------------------------------------------------

AWAITING = {"headers": {"await": "reply"}, "deliveryPolicy": "ACKNOWLEDGED"}
TIMED_OUT = ("TIMEOUT", "the time to live is over")


@pytest.mark.spec("COMM-10")
@pytest.mark.parametrize(
    ("receiver", "reports"),
    [("component:desk", "component:desk"), ("", "component:Communication")],
)
async def test_an_answer_is_awaited_also_of_components_and_of_nobody_in_particular(
    start_hub: StartHub, receiver: str, reports: str
) -> None:
    hub = await comm_hub(start_hub)
    await hub.peer("ann", ("mail", "ann"))
    late = await hub.send(receiver, sender="ann", ttl=50, **AWAITING)
    assert await hub.report(late) == TIMED_OUT
    (report,) = [each.message for each in await hub.got(1)]
    assert (report.sender, report.receiver, report.refers_to) == (reports, "ann", late)
    in_time = await hub.send(receiver, sender="ann", ttl=60_000, **AWAITING)
    await hub.send("ann", sender="component:desk", refersTo=in_time)
    subtype, _ = await hub.report(in_time)
    assert subtype == "ACK"
    plain = await hub.send(receiver, sender="ann", ttl=50)
    endless = await hub.send(receiver, sender="ann", **AWAITING)
    await hub.report(await hub.send(receiver, sender="ann", ttl=60, **AWAITING))
    assert await hub.reports(plain) == await hub.reports(endless) == []


@pytest.mark.spec("COMM-10")
async def test_the_time_of_an_awaited_answer_goes_on_after_a_restart(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await comm_hub(start_server, clock=clock)
    await hub.peer("ann", ("mail", "ann"))
    sent = [
        await hub.send("component:desk", ttl=5000, **AWAITING),
        await hub.send("ann", ttl=5000, **AWAITING),
        await hub.send("ann", ttl=600_000, **AWAITING),
    ]
    await hub.got(2)
    await hub.hub.close()
    clock.advance(6)
    hub = await comm_hub(start_server, clock=clock)
    for each in sent[:2]:
        assert await hub.report(each) == TIMED_OUT
    await hub.send("component:desk", sender="ann", refersTo=sent[2])
    assert await hub.report(sent[2]) == ("ACK", "")
    assert len(await hub.reports(sent[0])) == len(await hub.reports(sent[1])) == 1


@pytest.mark.spec("COMM-10", "COMM-11")
async def test_messages_that_wait_for_a_reply_count_in_the_quota(start_hub: StartHub) -> None:
    hub = await comm_hub(start_hub, more={"quotas": {"deliveries": 2}})
    await hub.peer("ann", ("mail", "ann"))
    first = await hub.send("ann", **AWAITING)
    await hub.send("ann", **AWAITING)
    await hub.got(2)
    body = {"type": "ALARM", "subtype": "fire", "sender": "component:desk", "receiver": "ann"}

    async def is_refused() -> bool:
        reply = await hub.service("POST", f"{COMM}/messages", {**body, "id": "third"})
        return (reply.status, reply.code) == (429, "quota_exceeded")

    assert await is_refused()
    await hub.send("component:desk", sender="ann", refersTo=first)  # the reply itself comes in
    assert await hub.report(first) == ("ACK", "")
    assert not await is_refused()
    assert [each.message.id for each in await hub.got(3)][2] == "third"
