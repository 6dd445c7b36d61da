"""Logins of peers: which tokens hold, and what becomes of messages without one."""

from __future__ import annotations

import asyncio
from hashlib import sha256

import pytest

from harness.admin import HUB
from harness.clock import FakeClock
from harness.communication import BOXES, COMM, CommHub, until
from harness.peer_logins import Office, answers, contents, hand_in, is_so, log_in, token_hub
from harness.receivers import whole_answer
from harness.running_hub import StartHub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.steps import ARRIVED
from hubbub.domain.errors import StoreUnavailable
from hubbub.engine.communication import logins


@pytest.mark.spec("COMM-07", "COMM-09")
async def test_tokens_hold_for_their_peer_and_their_time_and_a_new_one_replaces_the_old(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await token_hub(start_server, clock, onInvalid="discard")
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        assert await log_in(hub, "ann", "wrong", 1) == ("FAILED", "")
        subtype, of_ann = await log_in(hub, "ann", "s3cret", 2)
        assert subtype == "REPLY"
        _, of_bob = await log_in(hub, "bob", "other", 1)
        for sender, token, content in (
            ("ann", of_ann, "hers"),
            ("ann", of_bob, "his"),
            ("ann", "", "none"),
            ("bob", of_bob, "his own"),
        ):
            await hand_in(hub, sender, securityToken=token, content=content)
        await until(lambda: is_so(contents(hub) == ["hers", "his own"]))
        assert (await answers(hub, "ann", 3))[2] == ("FAILED", ""), "told to renew, once a minute"
        _, newer = await log_in(hub, "ann", "s3cret", 4)
        await hand_in(hub, "ann", securityToken=of_ann, content="replaced")
        await hand_in(hub, "ann", securityToken=newer, content="renewed")
        await until(lambda: is_so(contents(hub)[2:] == ["renewed"]))
        clock.advance(60.5)
        await hand_in(hub, "ann", securityToken=newer, content="expired")
        assert (await answers(hub, "ann", 5))[4] == ("FAILED", "")
        office.respond = lambda request: 500
        assert (await log_in(hub, "ann", "s3cret", 6))[0] == "ERROR"
    assert contents(hub) == ["hers", "his own", "renewed"]
    whole = (await hub.service("GET", f"{HUB}/messages?limit=500")).text
    for secret in ("s3cret", of_ann, newer):
        assert secret not in whole


@pytest.mark.spec("COMM-07")
async def test_messages_without_a_token_wait_in_order_once_each_until_their_sender_logs_in(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        for content in ("one", "two", "one"):  # an adapter may hand a message in again
            await hand_in(hub, "ann", id=f"m-{content}", content=content)
        await hand_in(hub, "bob", content="of somebody else")
        held = [each["message"]["content"] for each in await hub.logged(type="NOTE")]
        assert held == ["one", "two", "of somebody else"]
        assert await answers(hub, "ann", 1) == [("FAILED", "")]
        assert contents(hub) == []
        await log_in(hub, "ann", "s3cret", 2)
        await until(lambda: is_so(len(contents(hub)) >= 2))
        await hand_in(hub, "ann", id="m-one", content="one")
        await log_in(hub, "bob", "other", 2)
        await until(lambda: is_so(len(contents(hub)) >= 3))
    assert contents(hub) == ["one", "two", "of somebody else"]


@pytest.mark.spec("COMM-07")
async def test_a_login_that_is_handed_in_again_keeps_the_token_and_only_hashes_are_on_disk(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub, onInvalid="discard")
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        login = {"type": "AUTH", "subtype": "REQUEST", "receiver": "", "content": "s3cret"}
        await hand_in(hub, "ann", **login, id="login-1")
        ((subtype, token),) = await answers(hub, "ann", 1)
        await hand_in(hub, "ann", **login, id="login-1")
        await hand_in(hub, "ann", securityToken=token, content="mine")
        await until(lambda: is_so(contents(hub) == ["mine"]))
        assert (subtype, len(await answers(hub, "ann", 1))) == ("REPLY", 1)
        assert office.asked("/peerAuth/ann") == 1
        (reply,) = [each.message for each in hub.box.got if each.message.type == "AUTH"]
        assert (reply.sender, reply.refers_to) == ("component:AuthenticationManager", "login-1")
        kept = await hub.hub.server.store.read_peer_token("acme", "ann")
        assert kept is not None
        assert kept.token_hash == sha256(token.encode()).digest()
        office.respond = lambda request: whole_answer(500, b"of no concern to ann")
        subtype, text = await log_in(hub, "ann", "s3cret", 2)
        assert (subtype, text) == ("ERROR", "the login cannot be checked now; try again later")


@pytest.mark.spec("COMM-07", "COMM-14")
async def test_rules_collectives_and_callbacks_get_no_copy_of_a_token(start_hub: StartHub) -> None:
    hub = await token_hub(start_hub, onInvalid="discard")
    await hub.peer("assistant", ("mail", "assistant"))
    await hub.collective("all", "ann", "assistant")
    heard: list[PeerMessage] = []

    class Attentive:
        async def notify(self, hub: str, message: PeerMessage) -> None:
            heard.append(message)

    hub.hub.server.communication.callbacks.append(Attentive())
    for number, fields in enumerate(
        (
            {"receiver": "ann", "route": ["assistant", "collective:all", "component:spy"]},
            {"sender": "component:AuthenticationManager", "route": ["assistant"]},
            {"subtype": "REPLY", "route": ["assistant"]},
        )
    ):
        reply = await hub.service("PUT", f"{HUB}/routes/r{number}", fields)
        assert reply.status < 300, reply.text
    async with Office() as office:
        office.passwords["collective:all"] = "ours"
        await office.serve(hub, "peerAuth")
        subtype, token = await log_in(hub, "ann", "s3cret", 1)
        assert subtype == "REPLY"
        login = {"type": "AUTH", "subtype": "REQUEST", "receiver": "", "content": "ours"}
        await hand_in(hub, "collective:all", **login)
        await hand_in(hub, "component:spy", **login)
        note = {"receiver": "ann", "content": "for both", "securityToken": token}
        await hand_in(hub, "ann", **note)
        await hand_in(hub, "ann", receiver="", content="for callbacks", securityToken=token)
        await until(lambda: is_so([each for each in heard if each.content == "for callbacks"]))
        await until(lambda: is_so("for both" in of("assistant", hub)))
    assert of("assistant", hub) == ["for both"]
    assert [each.security_token for each in heard] == [""] * len(heard)
    assert "AUTH" not in {each.type for each in heard}


def of(peer: str, hub: CommHub) -> list[object]:
    return [each.message.content for each in hub.box.got if each.peer == peer]


@pytest.mark.spec("COMM-07")
async def test_where_tokens_are_optional_one_that_is_given_must_hold(start_hub: StartHub) -> None:
    hub = await token_hub(start_hub, tokens="optional", onInvalid="discard")
    await hand_in(hub, "ann", content="without")
    await hand_in(hub, "ann", content="wrong", securityToken="made up")
    assert await answers(hub, "ann", 1) == [("FAILED", "")]
    await hand_in(hub, "ann", content="without again")
    await until(lambda: is_so(contents(hub) == ["without", "without again"]))


@pytest.mark.spec("COMM-07", "COMM-10")
async def test_held_messages_are_bounded_and_dropped_at_the_end_of_their_time(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "MOST_HELD", 3)
    clock = FakeClock()
    hub = await token_hub(start_server, clock)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        for content, ttl in (("one", 0), ("short", 5000), ("long", 60_000), ("too many", 0)):
            await hand_in(hub, "ann", content=content, ttl=ttl)
        clock.advance(6)
        hub.hub.server.communication.sweep()
        await log_in(hub, "ann", "s3cret", 2)
        await until(lambda: is_so(len(contents(hub)) >= 2))
    assert contents(hub) == ["one", "long"]
    states = {each["message"]["content"]: each["state"] for each in await hub.logged(type="NOTE")}
    assert "too many" not in states
    assert states["short"] == "decided"
    (timed_out,) = await hub.logged(type="CONTROL", subtype="TIMEOUT")
    assert timed_out["message"]["receiver"] == "ann"


@pytest.mark.spec("COMM-05", "COMM-07")
async def test_held_messages_survive_a_restart_and_have_their_verdict_after_the_next_one(
    start_server: StartHub,
) -> None:
    hub = await token_hub(start_server)
    await hub.collective("both", "desk", "bob")
    await hub.peer("bob", ("mail", "hang"))
    held = await hand_in(
        hub, "ann", receiver="collective:both", deliveryPolicy="ACKNOWLEDGED", content="held"
    )
    await hub.hub.close()
    hub = await token_hub(start_server)
    await hub.peer("bob", ("mail", "hang"))
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        await log_in(hub, "ann", "s3cret", 1)
        await until(lambda: is_so(contents(hub) == ["held"]))

        async def noted() -> bool:
            store = hub.hub.server.store
            return len(await store.read_deliveries("acme", ARRIVED, (0, -1), 10)) == 1

        await until(noted)
        await hub.hub.close()
        hub = await token_hub(start_server)
        hub.box.gate.set()
        assert await hub.report(held) == ("ACK", "")


# -- messages that are held for too long ----------------------------------------------------------

HELD_TOO_LONG = "its sender did not log in before its time was over"


@pytest.mark.spec("COMM-07", "COMM-10")
@pytest.mark.parametrize(("ttl", "seconds"), [(5000, 5), (0, 86_400), (200_000_000, 86_400)])
async def test_a_held_message_that_runs_out_yields_one_time_out_to_its_sender(
    start_server: StartHub, ttl: int, seconds: int
) -> None:
    clock = FakeClock()
    hub = await token_hub(start_server, clock)
    sweep = hub.hub.server.communication.sweep
    held = await hand_in(hub, "ann", ttl=ttl, conversationID="c", deliveryPolicy="ACKNOWLEDGED")
    clock.advance(seconds - 1)
    sweep()
    assert [each["state"] for each in await hub.of_service().logged(id=held)] == ["held"]
    clock.advance(1.1)
    sweep()
    sweep()
    hub = hub.of_service()  # the token of the test has expired
    assert await hub.report(held) == ("TIMEOUT", HELD_TOO_LONG)
    (report,) = [each.message for each in await hub.got(2) if each.message.type == "CONTROL"]
    assert (report.sender, report.receiver, report.refers_to) == ("desk", "ann", held)
    assert report.conversation_id == "c"
    assert [each["state"] for each in await hub.logged(id=held)] == ["decided"]
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        _, token = await log_in(hub, "ann", "s3cret", 2)
        again = {"id": held, "ttl": ttl, "conversationID": "c", "deliveryPolicy": "ACKNOWLEDGED"}
        await hand_in(hub, "ann", **again, securityToken=token)  # it is over, whatever comes now
        last = await hand_in(hub, "ann", securityToken=token, content="last")
        await until(lambda: is_so(contents(hub) == ["last"]))
    assert len(await hub.reports(held)) == 1
    assert await hub.reports(last) == []

    async def nothing_is_open() -> bool:
        return not await hub.hub.server.store.read_busy_hubs()

    await until(nothing_is_open)


@pytest.mark.spec("COMM-10")
async def test_the_time_of_a_held_message_goes_on_while_the_hub_is_away(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await token_hub(start_server, clock)
    kept = await hand_in(hub, "ann", ttl=60_000, content="kept")
    gone = await hand_in(hub, "ann", ttl=5000, receiver="", content="to nobody")
    await hub.hub.close()
    clock.advance(10)
    hub = await token_hub(start_server, clock)
    await until(lambda: _swept(hub, gone))
    (report,) = [each["message"] for each in await hub.logged(type="CONTROL")]
    assert (report["subtype"], report["refersTo"]) == ("TIMEOUT", gone)
    assert (report["sender"], report["receiver"]) == ("component:Communication", "ann")
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        await log_in(hub, "ann", "s3cret", 1)
        await until(lambda: is_so(contents(hub) == ["kept"]))
    assert await hub.reports(kept) == []


async def _swept(hub: CommHub, message_id: str) -> bool:
    hub.hub.server.communication.sweep()
    return bool(await hub.reports(message_id))


@pytest.mark.spec("COMM-10", "COMM-02")
async def test_the_adapter_that_awaits_the_answer_to_a_held_message_goes_with_it(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await token_hub(start_server, clock)
    waits = {"kind": "test-pull", "settings": {"box": "answers"}, "intervalMs": 3_600_000}
    reply = await hub.service("PUT", f"{HUB}/adapters/answers", {**waits, "awaits": "q1"})
    assert reply.status == 201, reply.text
    await until(lambda: is_so(BOXES["answers"].pulls == 1))
    await hand_in(hub, "ann", id="q1", ttl=5000, headers={"await": "reply"})
    clock.advance(6)
    hub.hub.server.communication.sweep()
    assert await hub.report("q1") == ("TIMEOUT", HELD_TOO_LONG)
    assert BOXES["answers"].pulls == 2

    async def gone() -> bool:
        return (await hub.service("GET", f"{HUB}/adapters/answers")).status == 404

    await until(gone)


@pytest.mark.spec("COMM-07")
async def test_a_held_message_goes_on_when_it_comes_again_with_a_token_that_holds(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        _, token = await log_in(hub, "ann", "s3cret", 1)
        wrong = {"id": "m", "content": "mine", "securityToken": "made up"}
        await hand_in(hub, "ann", **wrong)
        assert [each["state"] for each in await hub.logged(id="m")] == ["held"]
        other = {**wrong, "securityToken": token, "content": "other"}
        body = {"type": "NOTE", "subtype": "TEXT", "sender": "ann", "receiver": "desk", **other}
        reply = await hub.service("POST", f"{COMM}/input/door", body)
        assert (reply.status, reply.code) == (409, "conflict"), reply.text
        for _ in range(2):
            await hand_in(hub, "ann", **{**wrong, "securityToken": token})
        last = await hand_in(hub, "ann", content="last", securityToken=token)
        await until(lambda: is_so(contents(hub)[-1:] == ["last"]))
    assert (contents(hub), bool(last)) == (["mine", "last"], True)


@pytest.mark.spec("COMM-07", "COMM-08")
async def test_a_held_question_for_message_info_is_answered_after_the_login(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        asked = {"type": "MESSAGEINFO", "subtype": "REQUEST", "content": '{"id":"x"}', "id": "q"}
        await hand_in(hub, "ann", **asked, receiver="component:MessageInfoService")
        assert await hub.logged(type="MESSAGEINFO", subtype="REPLY") == []
        await log_in(hub, "ann", "s3cret", 2)
        await until(lambda: is_so([each for each in hub.box.got if each.message.type == INFO]))
    (reply,) = [each.message for each in hub.box.got if each.message.type == INFO]
    assert (reply.subtype, reply.refers_to, reply.content) == ("REPLY", "q", '{"known":false}')


INFO = "MESSAGEINFO"


@pytest.mark.spec("COMM-07")
async def test_as_many_messages_are_held_as_may_be_also_when_they_come_at_once(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "MOST_HELD", 3)
    hub = await token_hub(start_hub)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(hand_in(hub, "ann", id=f"m{number % 8}", content=str(number % 8)))
    held = [each["message"]["id"] for each in await hub.logged(type="NOTE")]
    assert (len(held), len(set(held))) == (3, 3)


@pytest.mark.spec("COMM-07")
async def test_a_login_that_cannot_be_stored_leaves_held_messages_to_the_next_one(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await token_hub(start_hub)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        await hand_in(hub, "ann", content="held")
        (dispatcher,) = [each.dispatcher for each in hub.hub.server.communication._hubs.values()]
        with monkeypatch.context() as patched:

            async def full(*arguments: object, **more: object) -> int:
                raise StoreUnavailable("the disk is full")

            patched.setattr(dispatcher, "log_only", full)
            body = {"type": "AUTH", "subtype": "REQUEST", "sender": "ann", "content": "s3cret"}
            reply = await hub.service("POST", f"{COMM}/input/door", body)
            assert (reply.status, reply.code) == (503, "store_unavailable")
        assert contents(hub) == []
        await log_in(hub, "ann", "s3cret", 2)
        await until(lambda: is_so(contents(hub) == ["held"]))


async def set_tokens(hub: CommHub, tokens: str) -> None:
    settings = (await hub.service("GET", f"{HUB}/settings")).json
    settings["communication"]["tokens"] = tokens
    reply = await hub.service("PUT", f"{HUB}/settings", settings)
    assert reply.status == 200, reply.text


@pytest.mark.spec("COMM-07")
async def test_held_messages_go_out_in_order_when_the_hub_asks_for_tokens_no_more(
    start_hub: StartHub,
) -> None:
    hub = await token_hub(start_hub)
    for number, peer in enumerate(("ann", "bob", "ann")):
        await hand_in(hub, peer, content=str(number))
    asked = {"type": INFO, "subtype": "REQUEST", "content": '{"id":"x"}', "id": "q"}
    await hand_in(hub, "ann", **asked, receiver="component:MessageInfoService")
    await set_tokens(hub, "off")
    await until(lambda: is_so(contents(hub) == ["0", "1", "2"]))
    await until(lambda: is_so([each for each in hub.box.got if each.message.type == INFO]))

    async def nothing_is_open() -> bool:
        return not await hub.hub.server.store.read_busy_hubs()

    await until(nothing_is_open)


@pytest.mark.spec("COMM-07")
async def test_of_held_messages_one_with_a_wrong_token_waits_on_where_tokens_become_optional(
    start_server: StartHub,
) -> None:
    hub = await token_hub(start_server)
    wrong = await hand_in(hub, "ann", content="wrong", securityToken="made up")
    await hand_in(hub, "ann", content="none")
    await set_tokens(hub, "optional")
    await until(lambda: is_so(contents(hub) == ["none"]))
    assert [each["state"] for each in await hub.logged(id=wrong)] == ["held"]
    await hub.hub.close()
    hub = await token_hub(start_server, tokens="off")
    await until(lambda: is_so(contents(hub) == ["wrong"]))


@pytest.mark.spec("COMM-07", "COMM-11")
async def test_a_message_that_came_again_with_its_token_is_held_no_more_on_disk_either(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await token_hub(start_hub)
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        _, token = await log_in(hub, "ann", "s3cret", 1)
        held = {"id": "m", "content": "mine"}
        await hand_in(hub, "ann", **held)
        (dispatcher,) = [each.dispatcher for each in hub.hub.server.communication._hubs.values()]

        async def never(receivers: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(dispatcher.knowledge, "about", never)
        await hand_in(hub, "ann", **held, securityToken=token)
    assert [each["state"] for each in await hub.logged(id="m")] == ["open"]


@pytest.mark.spec("COMM-07")
async def test_messages_of_so_many_peers_are_held_as_may_be(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "MOST_PEERS", 2)
    hub = await token_hub(start_hub)
    for number, peer in enumerate(("ann", "bob", "eve", "ann", "eve")):
        await hand_in(hub, peer, content=str(number))
    held = [each["message"]["sender"] for each in await hub.logged(type="NOTE")]
    assert held == ["ann", "bob", "ann"]
    async with Office() as office:
        await office.serve(hub, "peerAuth")
        await log_in(hub, "ann", "s3cret", 2)
        await hand_in(hub, "eve", content="5")
    assert len(await hub.logged(type="NOTE", sender="eve")) == 1
