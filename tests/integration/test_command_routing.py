"""Commands and messages from one client to another, on one node and between nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from harness.engine import Cluster, FakeConnection, receive
from harness.unreliable import CALM, STORMY
from hubbub.domain.notices import CommandAnswered, CommandReceived, MessageDelivery
from hubbub.domain.permissions import Identity
from hubbub.domain.requests import AnswerCommand, SendCommand
from hubbub.domain.rules import HubConfiguration, HubSettings
from hubbub.engine.commands import routing
from hubbub.engine.commands.service import Commands

pytestmark = pytest.mark.spec("CMD-03")

OK, TECHNICAL, NOT_AUTHORIZED, INVALID, NOT_AVAILABLE, TIMEOUT = 0, 1, 5, 7, 9, 10
HUB = HubConfiguration(hub="acme", settings=HubSettings(commands=True, allow_anonymous=True))
SHORT = 40
"""Milliseconds, for commands that nobody will answer."""


@pytest.fixture(params=["one node", "two nodes"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    several = request.param == "two nodes"
    names = ("east", "west") if several else ("east",)
    faults = STORMY if several else CALM
    async with Cluster(tmp_path, seed=5, faults=faults, names=names, hubs=[HUB]) as cluster:
        yield cluster


def connect(cluster: Cluster, user: str, node: int = 0) -> FakeConnection:
    """A session on the node of this number, as far as there are so many."""
    name = cluster.names[node % len(cluster.names)]
    return cluster.nodes[name].connect(identity=Identity(user_id=user))


def session_id(connection: FakeConnection) -> str:
    assert connection.session is not None
    return connection.session.id


def send(connection: FakeConnection, entity: str, **more: Any) -> None:
    command = {"reqid": "mine", "sender": "ann@acme", "entity": entity, "cmd": "ring", **more}
    receive(connection, SendCommand(command, req_id=7))


async def result(connection: FakeConnection, number: int = 1) -> dict[str, Any]:
    answered = await connection.next(CommandAnswered, number)
    assert answered.req_id == 7
    return answered.result


async def asked(connection: FakeConnection, number: int = 1) -> dict[str, Any]:
    return (await connection.next(CommandReceived, number)).command


def answer(connection: FakeConnection, reqid: object, **more: Any) -> None:
    receive(connection, AnswerCommand({"cmd": "ring", "reqid": reqid, "status": 0, **more}))


async def test_a_command_reaches_the_client_and_its_result_comes_back(cluster: Cluster) -> None:
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob", 1)
    send(ann, "bob@acme", params={"loud": True})
    handed = await asked(bob)
    assert handed["sender"] == f"ann@acme/{session_id(ann)}"
    assert (handed["cmd"], handed["params"]) == ("ring", {"loud": True})
    assert handed["reqid"] != "mine"
    answer(bob, handed["reqid"], result=["rang"])
    assert await result(ann) == {"cmd": "ring", "reqid": "mine", "status": OK, "result": ["rang"]}


async def test_a_bare_jid_reaches_every_session_and_the_first_answer_wins(cluster: Cluster) -> None:
    ann = connect(cluster, "ann")
    bobs = [connect(cluster, "bob", number) for number in range(3)]
    send(ann, "bob@acme")
    handed = [await asked(bob) for bob in bobs]
    assert len({each["reqid"] for each in handed}) == 1
    answer(bobs[1], handed[1]["reqid"], result="one")
    assert (await result(ann))["result"] == "one"
    answer(bobs[0], handed[0]["reqid"], result="late")
    send(ann, "nobody@acme")
    assert (await result(ann, 2))["status"] == NOT_AVAILABLE
    assert len(ann.all(CommandAnswered)) == 2


async def test_a_full_jid_reaches_one_session(cluster: Cluster) -> None:
    ann, one, other = connect(cluster, "ann"), connect(cluster, "bob", 1), connect(cluster, "bob")
    send(ann, f"bob@acme/{session_id(one)}")
    answer(one, (await asked(one))["reqid"])
    assert await result(ann) == {"cmd": "ring", "reqid": "mine", "status": OK}
    assert other.all(CommandReceived) == []
    send(ann, f"eve@acme/{session_id(one)}")
    assert (await result(ann, 2))["status"] == NOT_AVAILABLE


async def test_one_may_ask_oneself(cluster: Cluster) -> None:
    ann = connect(cluster, "ann")
    send(ann, "ann@acme")
    answer(ann, (await asked(ann))["reqid"], status=INVALID, result="no")
    assert await result(ann) == {"cmd": "ring", "reqid": "mine", "status": INVALID, "result": "no"}


@pytest.mark.parametrize("entity", ["bob@acme", "bob@acme/s1", "bob@other", "#bob@acme"])
async def test_where_nobody_is_there_the_answer_is_not_available(
    cluster: Cluster, entity: str
) -> None:
    ann = connect(cluster, "ann")
    send(ann, entity)
    assert (await result(ann))["status"] == NOT_AVAILABLE


async def test_who_does_not_answer_in_time_is_a_timeout_and_a_late_answer_is_dropped(
    cluster: Cluster,
) -> None:
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob")
    send(ann, "bob@acme", timeout=SHORT)
    handed = await asked(bob)
    assert (await result(ann))["status"] == TIMEOUT
    answer(bob, handed["reqid"], result="late")
    send(ann, "bob@acme")
    answer(bob, (await asked(bob, 2))["reqid"], result="in time")
    assert (await result(ann, 2))["result"] == "in time"
    assert len(ann.all(CommandAnswered)) == 2


async def test_a_receiver_that_dies_is_a_timeout(cluster: Cluster) -> None:
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob", 1)
    send(ann, "bob@acme", timeout=1000)
    await asked(bob)
    assert bob.session is not None
    bob.session.hub.remove_session(bob.session)
    assert (await result(ann))["status"] == TIMEOUT
    send(ann, "bob@acme")
    assert (await result(ann, 2))["status"] == NOT_AVAILABLE


async def test_nobody_else_can_answer_and_nobody_can_answer_twice(cluster: Cluster) -> None:
    ann, bob, eve = connect(cluster, "ann"), connect(cluster, "bob", 1), connect(cluster, "eve", 1)
    send(ann, "bob@acme")
    reqid = (await asked(bob))["reqid"]
    for wrong in (reqid, "mine", "", None, 7, [reqid]):
        answer(eve, wrong, result="forged")
    for unasked in ({}, {"reqid": "x"}, {"reqid": None, "status": 0}):
        receive(bob, AnswerCommand(unasked))
    answer(bob, reqid, result="first")
    answer(bob, reqid, result="second")
    assert (await result(ann))["result"] == "first"
    assert len(ann.all(CommandAnswered)) == 1


async def test_a_sender_cannot_be_forged(cluster: Cluster) -> None:
    eve, bob = connect(cluster, "eve"), connect(cluster, "bob")
    send(eve, "bob@acme")
    assert (await result(eve))["status"] == NOT_AUTHORIZED
    send(eve, "bob@acme", sender="eve@acme/somebody", requester="ann@acme")
    assert (await result(eve, 2))["status"] == NOT_AUTHORIZED
    send(eve, "bob@acme", sender="eve@acme/somebody")
    handed = await asked(bob)
    assert handed["sender"] == f"eve@acme/{session_id(eve)}"
    assert "requester" not in handed
    answer(bob, handed["reqid"])
    await result(eve, 3)


@pytest.mark.parametrize("status", [None, "0", True, 2, -1, 1.5])
async def test_an_answer_that_cannot_be_read_is_a_technical_failure(
    cluster: Cluster, status: object
) -> None:
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob", 1)
    send(ann, "bob@acme")
    answer(bob, (await asked(bob))["reqid"], status=status)
    assert (await result(ann))["status"] == TECHNICAL


async def test_a_session_that_answers_nothing_is_handed_a_bounded_number(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "MOST_OF_SESSION", 2)
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob")
    for _ in range(3):
        send(ann, "bob@acme")
    assert (await result(ann))["status"] == NOT_AVAILABLE
    answer(bob, (await asked(bob))["reqid"])
    answer(bob, (await asked(bob, 2))["reqid"])
    await result(ann, 3)
    send(ann, "bob@acme")
    answer(bob, (await asked(bob, 3))["reqid"])
    assert (await result(ann, 4))["status"] == OK


@pytest.mark.parametrize(("bound", "most"), [("MOST_OF_HUB", 1), ("MOST_BYTES_OF_HUB", 250)])
async def test_commands_of_a_hub_that_wait_are_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(routing, bound, most)
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob")
    send(ann, "bob@acme")
    reqid = (await asked(bob))["reqid"]
    send(ann, "bob@acme")
    refused = await result(ann)
    assert refused["status"] == NOT_AVAILABLE
    assert "wait for an answer" in refused["result"]
    answer(bob, reqid)
    assert (await result(ann, 2))["status"] == OK


async def test_nothing_is_kept_of_what_ended(cluster: Cluster) -> None:
    ann, bob = connect(cluster, "ann"), connect(cluster, "bob", 1)
    send(ann, "bob@acme", timeout=60_000)  # much longer than the test waits below
    answer(bob, (await asked(bob))["reqid"])
    await result(ann)
    send(ann, "bob@acme", timeout=SHORT)
    assert (await result(ann, 2))["status"] == TIMEOUT
    for node in cluster.nodes.values():
        router = node.node.feature(Commands).router
        assert isinstance(router, routing.ClientRouter)
        while router._handed_out:
            await asyncio.sleep(0.01)
        assert not router._waiting
        assert not router._waiting_of_hub
        assert not router._unanswered


async def test_a_message_to_a_user_reaches_all_sessions_and_to_a_session_one(
    cluster: Cluster,
) -> None:
    ann, one, other = connect(cluster, "ann"), connect(cluster, "bob"), connect(cluster, "bob", 1)
    for chid in ("bob@acme", f"bob@acme/{session_id(other)}"):
        message = {"chid": chid, "publisher": "ann@acme", "type": "hi", "payload": {"to": chid}}
        send(ann, "hnode@acme", cmd="hPublish", params=message)
    assert [(await result(ann, n))["status"] for n in (1, 2)] == [OK, OK]
    await other.next(MessageDelivery, 2)
    assert [each.message.event for each in other.all(MessageDelivery)] == ["hi", "hi"]
    assert [each.message.publisher for each in one.all(MessageDelivery)] == ["ann"]
    send(ann, "hnode@acme", cmd="hPublish", params={"chid": "no@acme", "publisher": "ann@acme"})
    assert (await result(ann, 3))["status"] == OK
