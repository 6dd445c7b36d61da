"""IN_ORDER: the next address of a peer, or the next member of a collective, has its turn after a
failure, or after a time without an acknowledgement."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import HUB, admin_of
from harness.communication import COMM, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.ports.adapters import Delivery

pytestmark = pytest.mark.spec("COMM-13")
LATE = 60_000
SOON = 50
"""How long a turn takes, in milliseconds."""


@pytest.fixture
async def hub(start_hub: StartHub) -> CommHub:
    return await comm_hub(start_hub, mail=memory(), chat=memory(), door=memory("test-push", "in"))


def addresses(deliveries: list[Delivery]) -> list[str]:
    return [each.address.parameters[0] for each in deliveries]


def peers(deliveries: list[Delivery]) -> list[str]:
    return [each.peer for each in deliveries]


async def attempted(hub: CommHub, count: int) -> list[Delivery]:
    async def enough() -> bool:
        return len(hub.box.attempts) >= count

    await until(enough)
    return hub.box.attempts


async def reply_to(hub: CommHub, message_id: str, sender: str = "ann") -> None:
    body = {"type": "NOTE", "subtype": "TEXT", "sender": sender, "refersTo": message_id}
    reply = await hub.service("POST", f"{COMM}/input/door", body)
    assert reply.status == 200, reply.text


async def rows_left(hub: CommHub) -> int:
    store = hub.hub.server.store
    rows = [await store.read_deliveries("acme", state, (0, -1), 100) for state in (0, 1, 3)]
    return sum(map(len, rows))


# -- addresses of a peer ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "tried", "report"),
    [
        (["a", "b"], ["a"], ("ACK", "")),
        (["fail", "b", "c"], ["fail", "b"], ("ACK", "")),
        (["fail", "fail", "c"], ["fail", "fail", "c"], ("ACK", "")),
        (
            ["fail", "crash"],
            ["fail", "crash"],
            ("COMERROR", "chat: no such mailbox; mail: the adapter failed"),
        ),
        (["later", "b"], ["later", "later"], ("ACK", "")),
    ],
)
async def test_the_next_address_is_tried_after_a_failure_and_none_after_a_success(
    hub: CommHub, given: list[str], tried: list[str], report: tuple[str, str]
) -> None:
    where = [("mail" if n % 2 else "chat", name) for n, name in enumerate(given)]
    await hub.peer("ann", *where, policy="IN_ORDER", nextAfterMs=LATE)
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    subtype, text = await hub.report(sent)
    assert (subtype, text[: len(report[1])]) == report
    assert addresses(hub.box.attempts) == tried
    assert await rows_left(hub) == 0


async def test_the_next_address_is_tried_after_a_time_while_the_first_one_still_hangs(
    hub: CommHub,
) -> None:
    await hub.peer("ann", ("mail", "hang"), ("chat", "b"), policy="IN_ORDER", nextAfterMs=SOON)
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert addresses(hub.box.got) == ["b"]
    hub.box.gate.set()
    await until(lambda: _all_gone(hub))
    assert len(await hub.reports(sent)) == 1


async def _all_gone(hub: CommHub) -> bool:
    return await rows_left(hub) == 0


async def test_a_reply_is_the_acknowledgement_where_one_is_awaited(hub: CommHub) -> None:
    where = [("mail", name) for name in ("a", "b", "c")]
    await hub.peer("ann", *where, policy="IN_ORDER", nextAfterMs=2 * SOON)
    more = {"headers": {"await": "reply"}, "ttl": LATE, "deliveryPolicy": "ACKNOWLEDGED"}
    sent = await hub.send("ann", **more)
    await hub.got(2)
    await reply_to(hub, sent)
    assert await hub.report(sent) == ("ACK", "")
    assert addresses(hub.box.got) == ["a", "b"]
    assert await rows_left(hub) == 0


async def test_the_time_to_live_ends_the_turns(hub: CommHub) -> None:
    where = [("mail", "hang"), ("chat", "hang"), ("chat", "c")]
    await hub.peer("ann", *where, policy="IN_ORDER", nextAfterMs=LATE)
    sent = await hub.send("ann", ttl=SOON)
    assert await hub.report(sent) == ("TIMEOUT", "the time to live is over")
    hub.box.gate.set()
    await until(lambda: _all_gone(hub))
    assert addresses(hub.box.attempts) == ["hang"]


async def test_a_report_goes_through_the_addresses_of_its_peer_in_turn(hub: CommHub) -> None:
    """A report has no policy of its own, and nobody hears of its fate."""
    await hub.peer("lead", ("mail", "fail"), ("mail", "b"), ("mail", "c"), policy="IN_ORDER")
    sent = await hub.send("nobody", sender="lead")
    (report,) = await hub.got(1)
    assert (report.message.subtype, report.message.refers_to) == ("DELIVERYERROR", sent)
    await until(lambda: _all_gone(hub))
    assert addresses(hub.box.attempts) == ["fail", "b"]
    assert len(await hub.logged(type="CONTROL")) == 1


# -- members of a collective -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "reached", "report"),
    [
        (["ann", "bob"], ["ann"], ("ACK", "")),
        (["lost", "bob", "ann"], ["bob"], ("ACK", "")),
        (["nobody", "deaf", "bob"], ["bob"], ("ACK", "")),
        (["lost", "nobody"], [], ("DELIVERYERROR", "lost: no such mailbox")),
        (["nobody", "lost"], [], ("DELIVERYERROR", "lost: no such mailbox")),
        ([], [], ("DELIVERYERROR", "the collective is empty")),
    ],
)
async def test_the_next_member_is_tried_after_a_failure_and_none_after_a_success(
    hub: CommHub, members: list[str], reached: list[str], report: tuple[str, str]
) -> None:
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", name))
    await hub.peer("lost", ("mail", "fail"))
    await hub.peer("deaf", ("mail", "d"), privacy=[{"effect": "deny", "types": ["ALARM"]}])
    await hub.collective("on-call", *members, policy="IN_ORDER", nextAfterMs=LATE)
    sent = await hub.send("collective:on-call", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == report
    assert peers(hub.box.got) == reached
    assert await rows_left(hub) == 0


async def test_each_member_has_its_addresses_in_turn_before_the_next_member(hub: CommHub) -> None:
    ordered: dict[str, Any] = {"policy": "IN_ORDER", "nextAfterMs": LATE}
    await hub.peer("ann", ("mail", "fail"), ("chat", "fail"), **ordered)
    await hub.peer("bob", ("mail", "fail"), ("chat", "b"), ("mail", "c"), **ordered)
    await hub.collective("on-call", "ann", "bob", **ordered)
    sent = await hub.send("collective:on-call", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    assert [(each.peer, each.address.parameters[0]) for each in hub.box.attempts] == [
        ("ann", "fail"), ("ann", "fail"), ("bob", "fail"), ("bob", "b"),
    ]  # fmt: skip


async def test_the_lead_gets_the_original_where_nobody_on_call_answers(hub: CommHub) -> None:
    for name in ("ann", "lead"):
        await hub.peer(name, ("mail", name))
    await hub.collective("on-call", "ann", "lead", policy="IN_ORDER", nextAfterMs=SOON)
    headers = {"await": "reply", "subject": "disk full"}
    sent = await hub.send("collective:on-call", content="sda1", headers=headers, ttl=LATE)
    first, second = await hub.got(2)
    assert (first.peer, second.peer) == ("ann", "lead")
    for each in (first.message, second.message):
        assert (each.id, each.type, each.content) == (sent, "ALARM", "sda1")
        assert each.headers["subject"] == "disk full"


async def test_a_rule_that_adds_a_rotation_keeps_its_order_and_reports_nothing(
    hub: CommHub,
) -> None:
    for name, address in (("ann", "a"), ("lost", "fail"), ("bob", "b"), ("eve", "e")):
        await hub.peer(name, ("mail", address))
    await hub.collective("on-call", "lost", "bob", "eve", policy="IN_ORDER", nextAfterMs=LATE)
    rule = {"type": "ALARM", "route": ["collective:on-call"]}
    assert (await hub.service("POST", f"{HUB}/routes", rule)).status == 200
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(sent) == ("ACK", "")
    await hub.got(2)
    await until(lambda: _all_gone(hub))
    assert sorted(peers(hub.box.got)) == ["ann", "bob"]
    assert len(await hub.reports(sent)) == 1


async def test_a_member_that_is_erased_gives_its_turn_to_the_next(hub: CommHub) -> None:
    for name in ("ann", "bob"):
        await hub.peer(name, ("mail", "hang" if name == "ann" else "b"))
    await hub.collective("on-call", "ann", "bob", policy="IN_ORDER", nextAfterMs=LATE)
    sent = await hub.send("collective:on-call", deliveryPolicy="ACKNOWLEDGED")
    await attempted(hub, 1)
    reply = await admin_of(hub.hub)("DELETE", f"{HUB}/users/ann")
    assert reply.status < 300, reply.text
    assert await hub.report(sent) == ("ACK", "")
    assert peers(hub.box.got) == ["bob"]
    hub.box.gate.set()


# -- settings --------------------------------------------------------------------------------------


async def test_the_policy_and_its_time_are_kept_and_wrong_ones_are_refused(hub: CommHub) -> None:
    ordered = {"policy": "IN_ORDER", "nextAfterMs": 1000}
    for path, body in (
        (f"{HUB}/peers/ann", {"addresses": [], **ordered}),
        (f"{HUB}/collectives/team", {"members": ["ann"], **ordered}),
    ):
        assert (await hub.service("PUT", path, body)).status == 200
        read = await hub.service("GET", path)
        assert (read.json["policy"], read.json["nextAfterMs"]) == ("IN_ORDER", 1000)
        for wrong in (0, -1, 86_400_000 * 31, "soon"):
            refused = await hub.service("PUT", path, {**body, "nextAfterMs": wrong})
            assert (refused.status, "nextAfterMs" in refused.message) == (400, True), refused.text
        assert (await hub.service("PUT", path, {**body, "policy": "ANY_ORDER"})).status == 400
        del body["nextAfterMs"]
        assert (await hub.service("PUT", path, body)).status == 200
        assert "nextAfterMs" not in (await hub.service("GET", path)).json


async def test_turns_that_wait_count_for_the_quota_of_deliveries(start_hub: StartHub) -> None:
    quota = {"quotas": {"deliveries": 3}}
    hub = await comm_hub(start_hub, more=quota, mail=memory())
    where = [("mail", "hang"), ("mail", "b"), ("mail", "c")]
    await hub.peer("ann", *where, policy="IN_ORDER", nextAfterMs=LATE)
    await hub.send("ann")
    await attempted(hub, 1)
    body = {"type": "t", "subtype": "s", "sender": "x", "receiver": "ann"}
    refused = await hub.service("POST", f"{COMM}/messages", body)
    assert (refused.status, refused.code) == (429, "quota_exceeded"), refused.text
    hub.box.gate.set()
    await until(lambda: _all_gone(hub))
    assert (await hub.service("POST", f"{COMM}/messages", body)).status == 200


async def test_a_transient_message_takes_its_turns_too(hub: CommHub) -> None:
    await hub.peer("ann", ("mail", "fail"), ("chat", "b"), policy="IN_ORDER", nextAfterMs=LATE)
    await hub.send("ann", how="?transient=true")
    await hub.got(1)
    assert addresses(hub.box.attempts) == ["fail", "b"]


# -- restarts --------------------------------------------------------------------------------------


async def test_turns_go_on_after_a_restart_where_they_stood(start_server: StartHub) -> None:
    hub = await comm_hub(start_server)
    where = [("mail", "fail"), ("mail", "hang"), ("mail", "c"), ("mail", "d")]
    await hub.peer("ann", *where, policy="IN_ORDER", nextAfterMs=300)
    sent = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await attempted(hub, 2)
    await hub.hub.close()
    hub = await comm_hub(start_server)
    assert await hub.report(sent) == ("ACK", "")
    assert addresses(hub.box.attempts) == ["hang", "c"]
    hub.box.gate.set()
    await until(lambda: _all_gone(hub))


async def test_members_who_do_not_answer_give_their_turn_away_also_after_a_restart(
    start_server: StartHub,
) -> None:
    members = ("ann", "bob", "eve")
    hub = await comm_hub(start_server)
    for name in members:
        await hub.peer(name, ("mail", name))
    await hub.collective("on-call", *members, policy="IN_ORDER", nextAfterMs=300)
    more = {"headers": {"await": "reply"}, "ttl": LATE, "deliveryPolicy": "ACKNOWLEDGED"}
    sent = await hub.send("collective:on-call", **more)
    await hub.got(1)
    await hub.hub.close()
    hub = await comm_hub(start_server, mail=memory(), door=memory("test-push", "in"))
    assert peers(await hub.got(1)) == ["bob"]
    await reply_to(hub, sent, "bob")
    assert await hub.report(sent) == ("ACK", "")
    assert await rows_left(hub) == 0
