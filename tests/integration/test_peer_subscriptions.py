"""Peers follow channels: messages reach them by their own adapters, in order and at least once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.admin import HUB, Caller, admin_of, client_of
from harness.communication import COMM, CommHub, comm_hub, memory, until
from harness.running_hub import StartHub
from harness.topics import STORED
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import Rules
from hubbub.engine.webhooks.service import Webhooks

NEWS = "club:news"
PRIVATE = Rules(store=True)


async def a_hub(start_hub: StartHub, **more: Any) -> CommHub:
    hub = await comm_hub(
        start_hub,
        rules={"club": STORED, "closed": PRIVATE},
        more=more,
        mail=memory(),
        chat=memory(),
        back=memory("test-push", "in"),
        channel=AdapterSettings("channel"),
    )
    await hub.peer("ann", ("mail", "ann@example.org"))
    return hub


@pytest.fixture
async def hub(start_hub: StartHub) -> CommHub:
    return await a_hub(start_hub)


@pytest.mark.spec("COMM-01", "COMM-05")
async def test_a_peer_gets_what_is_published_and_answers_refer_to_it(hub: CommHub) -> None:
    await hub.publish(NEWS, "before")
    await hub.follow("ann", NEWS)
    about = {"Hubbub_Conversation_Id": "build 7", "Hubbub_Subtype": "FAILED"}
    sent = await hub.publish(NEWS, "it is red", **about)
    (delivery,) = await hub.got(1)
    message = delivery.message
    assert (message.sender, message.receiver) == (f"component:{NEWS}", "ann")
    assert (message.content, message.type, message.subtype) == ("it is red", "note", "FAILED")
    assert (message.conversation_id, message.refers_to) == ("build 7", "")
    assert (delivery.peer, delivery.address.parameters) == ("ann", ("ann@example.org",))
    answer = {"type": "MAIL", "subtype": "REPLY", "sender": "ann", "content": "I am on it",
              "refersTo": message.id}  # fmt: skip
    reply = await hub.service("POST", f"{COMM}/input/back", answer)
    assert reply.status == 200, reply.text
    (logged,) = await hub.logged(sender="ann", type="MAIL")
    assert (logged["message"]["refersTo"], logged["message"]["content"]) == (sent, "I am on it")


@pytest.mark.spec("COMM-05", "COMM-06")
async def test_addresses_policies_and_privacy_decide_and_the_cursor_moves_at_the_verdict(
    hub: CommHub,
) -> None:
    privacy = [{"effect": "deny", "senders": ["component:club:spam"]}]
    await hub.peer("ann", ("mail", "fail"), ("chat", "b"), policy="AT_LEAST_ONE", privacy=privacy)
    await hub.follow("ann", NEWS)
    await hub.follow("ann", "club:spam")
    await hub.publish("club:spam", "buy")
    await hub.publish(NEWS, "hello")
    assert [each.message.content for each in await hub.got(1)] == ["hello"]

    async def decided() -> bool:
        found = await hub.followed("ann")
        return all(each["lag"] == 0 for each in found)

    await until(decided)
    news, spam = await hub.followed("ann")
    assert (news["channel"], news["delivered"], news["failed"]) == (NEWS, 1, 0)
    assert (spam["delivered"], spam["failed"]) == (0, 1)
    assert spam["lastError"] == "refused by a privacy policy"
    (copy,) = await hub.logged(sender="component:club:spam")
    assert (await hub.report(copy["message"]["id"]))[0] == "DELIVERYERROR"


@pytest.mark.spec("COMM-04")
async def test_routing_rules_do_not_apply_to_what_a_peer_follows(hub: CommHub) -> None:
    await hub.peer("bob", ("chat", "bob"))
    await hub.service("POST", f"{HUB}/routes", {"type": "note", "route": ["bob"]})
    await hub.follow("ann", NEWS)
    await hub.publish(NEWS, "one")
    await hub.publish(NEWS, "two")
    assert [each.peer for each in await hub.got(2)] == ["ann", "ann"]


@pytest.mark.spec("COMM-05", "ONCE-03")
async def test_a_restart_goes_on_behind_the_last_verdict_under_the_same_keys(
    start_server: StartHub,
) -> None:
    hub = await a_hub(start_server)
    await hub.peer("ann", ("mail", "hang"))
    await hub.follow("ann", NEWS)
    for number in range(3):
        await hub.publish(NEWS, str(number))
    await until(lambda: _some(hub.box.attempts))
    (tried,) = hub.box.attempts
    await hub.hub.close()
    again = await a_hub(start_server)
    await again.publish(NEWS, "3")
    again.box.gate.set()
    got = await again.got(4)
    assert [each.message.content for each in got] == ["0", "1", "2", "3"]
    assert (got[0].key, got[0].message.id) == (tried.key, tried.message.id)
    assert len({each.key for each in got}) == 4


async def _some(found: list[Any]) -> bool:
    return bool(found)


@pytest.mark.spec("COMM-01")
async def test_what_is_stored_can_be_had_and_a_repeated_order_keeps_its_place(
    hub: CommHub,
) -> None:
    await hub.publish(NEWS, "early")
    await hub.follow("ann", NEWS, "first")
    await hub.got(1)
    await hub.follow("ann", NEWS, "first")
    await hub.publish(NEWS, "late")
    assert [each.message.content for each in await hub.got(2)] == ["early", "late"]
    path = f"{HUB}/peers/ann/subscriptions/{NEWS}"
    assert (await hub.service("DELETE", path)).status == 204
    assert (await hub.service("DELETE", path)).status == 404
    assert await hub.followed("ann") == []
    assert (await hub.service("GET", f"{HUB}/webhooks")).json["items"] == []


@pytest.mark.spec("SEC-03", "COMM-01")
async def test_what_cannot_be_followed_is_refused_and_what_the_rules_close_is_granted(
    hub: CommHub,
) -> None:
    for channel, peer, status, says in (
        ("comm:log", "ann", 403, "comm:log"),
        ("doc:plan", "ann", 409, "doc:plan"),
        ("notification:x", "ann", 409, "notification:x"),
        ("plain", "ann", 404, "does not store"),
        (NEWS, "a:b", 400, "colon"),
    ):
        reply = await hub.service("PUT", f"{HUB}/peers/{peer}/subscriptions/{channel}")
        assert (reply.status, says in reply.message) == (status, True), reply.text
    await hub.follow("ann", NEWS)
    await hub.follow("ann", "closed:plans")
    await hub.publish("closed:plans", "one")
    await hub.got(1)
    kept = await hub.hub.server.store.read_webhooks("acme")
    grants = {each.channel: each.acting.identity.grants for each in kept if each.acting}
    assert grants == {NEWS: (), "closed:plans": (Grant("closed:plans", subscribe=True),)}


@pytest.mark.spec("COMM-01")
async def test_subscriptions_are_bounded_for_a_hub_and_for_a_peer(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubbub.engine.communication.subscriptions.MOST_OF_PEER", 2)
    hub = await a_hub(start_hub, quotas={"peerSubscriptions": 3})
    for peer, channel, status in (
        ("ann", "club:1", 200),
        ("ann", "club:2", 200),
        ("ann", "club:3", 429),
        ("ann", "club:1", 200),
        ("bob", "club:1", 200),
        ("eve", "club:1", 429),
    ):
        reply = await hub.service("PUT", f"{HUB}/peers/{peer}/subscriptions/{channel}")
        assert (reply.status, reply.code) == (status, None if status == 200 else "quota_exceeded")


@pytest.mark.spec("COMM-04", "COMM-03")
async def test_a_channel_that_a_peer_follows_and_is_reached_by_does_not_go_round(
    hub: CommHub,
) -> None:
    await hub.peer("ann", ("channel", "club:a"))
    await hub.peer("bob", ("channel", NEWS), ("mail", "bob"))
    await hub.follow("ann", NEWS)
    await hub.follow("bob", "club:a")
    await hub.publish(NEWS, "round")
    (delivery,) = await hub.got(1)
    assert (delivery.peer, delivery.message.content) == ("bob", "round")

    async def at_rest() -> bool:
        found = [*await hub.followed("ann"), *await hub.followed("bob")]
        return [each["lag"] for each in found] == [0, 0] and found[0]["failed"] == 1

    await until(at_rest)
    (ann,) = await hub.followed("ann")
    assert (ann["delivered"], "before" in ann["lastError"]) == (1, True)


OWN = "/v1/hubs/acme/peer-subscriptions"


@pytest.mark.spec("COMM-01", "SEC-03")
async def test_a_user_follows_by_their_own_token_what_they_may_subscribe_to_and_for_nobody_else(
    hub: CommHub,
) -> None:
    ann = client_of(hub.hub)
    for path, status, code, says in (
        (f"{OWN}/closed:plans", 403, "not_permitted", "closed:plans"),
        (f"{OWN}/comm:log", 403, "not_permitted", "comm:log"),
        (f"{OWN}/doc:plan", 409, "wrong_channel_kind", "doc:plan"),
        (f"{OWN}/u:bob", 403, "not_permitted", "u:bob"),
        (f"{OWN}/plain", 403, "not_permitted", "plain"),
        (f"{HUB}/peers/bob/subscriptions/{NEWS}", 403, "not_permitted", "service"),
    ):
        reply = await ann("PUT", path)
        assert (reply.status, reply.code, says in reply.message) == (status, code, True), reply.text
    nameless = Caller(hub.hub, hub.hub.token(None, level=Level.SERVICE))
    for method, path in (("PUT", f"{OWN}/{NEWS}"), ("GET", OWN), ("DELETE", f"{OWN}/{NEWS}")):
        reply = await nameless(method, path)
        assert (reply.status, "names no user" in reply.message) == (400, True), reply.text
    assert (await Caller(hub.hub, None)("PUT", f"{OWN}/{NEWS}")).status == 401
    await hub.publish(NEWS, "early")
    made = await ann("PUT", f"{OWN}/{NEWS}?start=first")
    assert (made.status, made.json["channel"]) == (200, NEWS), made.text
    (delivery,) = await hub.got(1)
    assert (delivery.peer, delivery.message.content) == ("ann", "early")
    assert [each["channel"] for each in (await ann("GET", OWN)).json["items"]] == [NEWS]
    assert [each["channel"] for each in await hub.followed("ann")] == [NEWS]
    bob = client_of(hub.hub, "bob")
    assert (await bob("GET", OWN)).json["items"] == []
    assert (await bob("DELETE", f"{OWN}/{NEWS}")).status == 404
    assert (await ann("DELETE", f"{OWN}/{NEWS}")).status == 204
    assert await hub.followed("ann") == []


@pytest.mark.spec("COMM-01", "SEC-03")
@pytest.mark.parametrize("how", ["revoked", "rules"])
async def test_what_a_user_follows_ends_with_the_users_access(hub: CommHub, how: str) -> None:
    grant = Grant("closed:*", subscribe=True)
    ann = Caller(hub.hub, hub.hub.token("ann", grants=(grant,)))
    channel = "closed:plans" if how == "revoked" else NEWS
    assert (await ann("PUT", f"{OWN}/{channel}")).status == 200
    await hub.publish(channel, "one")
    await hub.got(1)
    root = admin_of(hub.hub)
    if how == "revoked":
        reply = await root("POST", f"{HUB}/revocations", {"kind": "user", "subject": "ann"})
    else:
        reply = await root("PUT", f"{HUB}/rules/club", {"store": True, "public": False})
    assert reply.status < 300, reply.text

    async def over() -> bool:
        return await hub.followed("ann") == []

    await until(over)
    await hub.publish(channel, "two")
    assert [each.message.content for each in hub.box.got] == ["one"]


@pytest.mark.spec("PIPE-05", "SEC-03")
async def test_subscriptions_go_with_the_peer_and_with_the_user(hub: CommHub) -> None:
    await hub.peer("bob", ("mail", "bob"))
    for peer in ("ann", "bob"):
        await hub.follow(peer, NEWS)
    assert (await hub.service("DELETE", f"{HUB}/peers/bob")).status == 204
    assert await hub.followed("bob") == []
    erased = (await admin_of(hub.hub)("DELETE", f"{HUB}/users/ann")).json
    counts = {name: count for name, count in erased.items() if count}
    assert counts == {"peerSubscriptions": 1, "peers": 1}
    assert await hub.followed("ann") == []
    assert (await hub.service("GET", f"{HUB}/peers/ann")).status == 404
    store = hub.hub.server.store
    assert await store.read_webhooks("acme") == []
    assert await store.read_cursors("acme") == []


@pytest.mark.spec("SEC-03")
async def test_a_deletion_of_a_peer_that_failed_half_way_is_completed_by_the_next(
    hub: CommHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hub.follow("ann", NEWS)
    webhooks = hub.hub.server.node.feature(Webhooks)
    with monkeypatch.context() as patched:

        async def away(*given: object) -> None:
            raise StoreUnavailable("away")

        patched.setattr(webhooks, "end", away)
        reply = await hub.service("DELETE", f"{HUB}/peers/ann")
        assert (reply.status, reply.code) == (503, "store_unavailable")
    assert (await hub.service("DELETE", f"{HUB}/peers/ann")).status == 204
    assert await hub.hub.server.store.read_webhooks("acme") == []
    assert (await hub.service("DELETE", f"{HUB}/peers/ann")).status == 404
