"""Erasing a user reaches what the user sent and got as a peer: on disk, in queues, in reports."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import HUB, admin_of
from harness.communication import COMM, FAULTS, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from hubbub.ports.adapters import AdapterFailed

pytestmark = pytest.mark.spec("PIPE-05", "COMM-08")
TO_BOB = {"receiver": "bob", "content": "for bob"}


async def erase(hub: CommHub, user: str = "ann") -> dict[str, int]:
    reply = await admin_of(hub.hub)("DELETE", f"{HUB}/users/{user}")
    assert reply.status == 200, reply.text
    return {name: count for name, count in reply.json.items() if count}


async def hand_in(hub: CommHub, **fields: str) -> None:
    body = {"type": "NOTE", "subtype": "TEXT", **fields}
    assert (await hub.service("POST", f"{COMM}/input/door", body)).status == 200


async def test_an_erased_user_is_neither_in_the_log_nor_among_dead_letters(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(start_hub, mail=memory(), door=memory("test-push", "in"))
    await hub.peer("ann", ("mail", "fail"))
    await hub.peer("bob", ("mail", "bob@example.org"))
    await hub.collective("team", "bob", "ann")
    await hub.report(await hub.send("ann", content="for ann", conversationID="about ann"))
    assert (await hub.report(await hub.send("collective:team")))[1] == "ann: no such mailbox"
    await hand_in(hub, sender="ann", **TO_BOB)
    await hand_in(hub, sender="eve", **TO_BOB)
    await hub.got(3)
    counts = await erase(hub)
    # To ann, the report on that, the report that names ann as a member, and what ann sent.
    assert counts == {"peers": 1, "messages": 4}
    kept = (await hub.service("GET", f"{HUB}/messages?limit=500")).text
    assert "ann" not in kept
    assert kept.count("for bob") == 1, "what eve sent stays"
    assert (await hub.service("GET", f"{HUB}/dead-deliveries")).json["items"] == []
    assert await hub.logged(receiver="ann") == []
    assert await erase(hub) == {}, "nothing is left"


async def test_what_waits_for_an_erased_user_goes_nowhere_and_nobody_is_told(
    start_hub: StartHub,
) -> None:
    hub = await comm_hub(
        start_hub,
        more={"communication": {"tokens": "required"}},
        mail=memory(),
        chat=memory(),
        door=memory("test-push", "in"),
    )
    await hub.peer("ann", ("mail", "hang"))
    await hub.peer("bob", ("chat", "bob"))
    await hub.collective("team", "bob", "ann")
    await hub.collective("any", "ann", "bob", policy="TO_ANY")
    first = await hub.send("ann", deliveryPolicy="ACKNOWLEDGED")
    await until(lambda: _is(len(hub.box.attempts) == 1))
    waiting = await hub.send("ann", ttl=60_000)
    await hand_in(hub, sender="ann", **TO_BOB)  # held until ann logs in
    team = await hub.send("collective:team", deliveryPolicy="ACKNOWLEDGED")
    met = await hub.send("collective:any", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(met) == ("ACK", "")
    counts = await erase(hub)
    assert counts["peers"] == 1
    assert "left" not in counts
    assert await hub.report(team) == ("DELIVERYERROR", "erased member 1: unknown peer")
    hub.box.gate.set()
    last = await hub.send("bob", deliveryPolicy="ACKNOWLEDGED")
    assert await hub.report(last) == ("ACK", "")

    async def drained() -> bool:
        statuses = (await hub.service("GET", f"{HUB}/adapter-status")).json["items"]
        return all(each.get("waiting", 0) == 0 for each in statuses)

    await until(drained)
    assert {each.message.id for each in hub.box.attempts if each.peer == "ann"} == {first}
    assert [each.message.content for each in hub.box.got if each.message.type == "NOTE"] == []
    for sent in (first, waiting):
        assert await hub.reports(sent) == []
    assert await hub.hub.server.store.read_open("acme", 0, 10) == []
    kept = (await hub.service("GET", f"{HUB}/messages?limit=500")).text
    assert "ann" not in kept


async def test_an_erased_member_counts_as_failed_also_after_a_restart(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await comm_hub(start_server)
    for peer in ("ann", "bob"):
        await hub.peer(peer, ("mail", "hang"))
    await hub.collective("any", "ann", "bob", policy="TO_ANY")
    rule = {"type": "BOTH", "route": ["ann", "bob"]}
    assert (await hub.service("PUT", f"{HUB}/routes/both", rule)).status == 201
    sent = await hub.send("collective:any")
    routed = await hub.send(type="BOTH")
    await until(lambda: _is(len(hub.box.attempts) == 2))
    await erase(hub)
    assert await hub.reports(sent) == []
    await hub.hub.close()
    hub = await comm_hub(start_server)
    monkeypatch.setitem(FAULTS, "hang", AdapterFailed("gone"))
    hub.box.gate.set()
    assert await hub.report(sent) == ("DELIVERYERROR", "bob: gone")
    assert await hub.report(routed) == ("COMERROR", "gone")

    async def nothing_is_open() -> bool:
        return not await hub.hub.server.store.read_busy_hubs()

    await until(nothing_is_open)


async def _is(value: Any) -> bool:
    return bool(value)
