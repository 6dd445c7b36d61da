"""Erasing a user takes the user off channels with an owner, and ends subscriptions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from harness.admin import Caller, admin_of
from harness.commands import Stage
from harness.receivers import Received, Receiver, whole_answer
from harness.running_hub import StartHub, open_hub
from harness.topics import STORED
from hubbub.domain.permissions import Level

OK, NOT_AUTHORIZED = 0, 5
ANN = "/v1/admin/hubs/demo/users/ann"


async def erased(stage: Stage) -> dict[str, int]:
    answer = await admin_of(stage.hub)("DELETE", ANN)
    assert answer.status == 200, answer.text
    counts: dict[str, int] = answer.json
    return {name: count for name, count in counts.items() if count}


@pytest.fixture
async def stage(start_hub: StartHub) -> Any:
    """Ann owns #news and takes part in it, as in #club, which Bob owns."""
    stage = await Stage.open(start_hub)
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    assert await ann.create("news", "ann", "bob") == (OK, None)
    assert await bob.create("club", "ann", "bob", active=False) == (OK, None)
    assert await ann.create("alone") == (OK, None)
    yield stage
    await stage.close()


@pytest.mark.spec("CMD-02")
async def test_an_erased_user_neither_takes_part_nor_owns_channels(stage: Stage) -> None:
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    assert await erased(stage) == {"participations": 2, "ownedChannels": 2}
    status, channels = await stage.user("root", Level.ADMIN).ask("hGetChannels")
    assert (status, "ann" in json.dumps(channels)) == (OK, False)
    assert {each["chid"]: (each["owner"], each["active"]) for each in channels} == {
        "#alone@demo": ("hnode@demo", True),
        "#club@demo": ("bob@demo", False),
        "#news@demo": ("hnode@demo", True),
    }
    assert (await ann.publish("news", 1))[0] == NOT_AUTHORIZED
    assert (await bob.publish("news", 1))[0] == OK, "the others go on"
    assert await erased(stage) == {}, "nothing is left"


@pytest.mark.spec("CMD-03")
async def test_subscriptions_of_an_erased_user_end_in_all_sessions(stage: Stage) -> None:
    ann, elsewhere, bob = (stage.user(name) for name in ("ann", "ann", "bob"))
    await elsewhere.connected()
    for user in (ann, bob):
        assert await user.ask("hSubscribe", {"chid": "news"}) == (OK, None)
    feed = stage.hub.server.node.hub("demo").feeds["news"]
    assert feed.subscribers == 3
    assert (await erased(stage))["subscriptions"] == 1
    assert feed.subscribers == 1
    assert await ann.ask("hGetSubscriptions") == (OK, [])
    assert await stage.hub.server.store.read_subscribed_users("demo", "news") == ["bob"]


@pytest.mark.spec("CMD-02")
async def test_a_service_gives_a_channel_that_lost_its_owner_to_a_user(stage: Stage) -> None:
    ann, bob = stage.user("ann", door="http"), stage.user("bob", door="http")
    service = stage.user("shop", Level.SERVICE, door="http")
    record = {"chid": "news", "owner": "bob@demo", "participants": ["bob@demo"], "active": True}

    async def give() -> int:
        status, _ = await service.ask("hCreateUpdateChannel", record, requester="bob@demo")
        return status

    assert await give() == NOT_AUTHORIZED, "Ann owns it"
    await erased(stage)
    for user in (ann, bob):
        assert (await user.create("news", "ann", "bob"))[0] == NOT_AUTHORIZED, "nobody takes it"
    assert await give() == OK
    assert (await bob.create("news", "bob"))[0] == OK
    assert await give() == OK, "for its owner, as before"
    assert (await service.create("news", "bob"))[0] == NOT_AUTHORIZED


@pytest.mark.spec("PIPE-05", "SEC-03")
async def test_durable_subscriptions_webhooks_and_sessions_of_a_user_go_with_a_proof(
    start_hub: StartHub,
) -> None:
    rules = msgspec.structs.replace(STORED, presence=True)
    hub = await start_hub(open_hub(rules=rules, callback_addresses="loopback"))
    path = "/v1/admin/hubs/acme/users/ann"
    for user in ("ann", "bob"):
        caller = Caller(hub, hub.token(user))
        made = await caller("PUT", "/v1/hubs/acme/topics/orders/subscriptions/mine", {})
        assert made.status in (200, 201), made.text
        callback = {"channel": "orders", "callback": f"http://127.0.0.1:9/{user}"}
        assert (await caller("POST", "/v1/hubs/acme/webhooks", callback)).status == 201
    token = hub.token("ann")
    socket = await hub.socket(token=token)
    await socket.subscribe("orders")
    present = "/v1/hubs/acme/channels/orders/presence"
    bob = Caller(hub, hub.token("bob"))
    assert [each["userID"] for each in (await bob("GET", present)).json["presence"]] == ["ann"]
    answer = (await admin_of(hub)("DELETE", f"{path}?revoke=true")).json
    counts = {name: count for name, count in answer.items() if count}
    assert counts == {"durableSubscriptions": 1, "webhooks": 1, "sessions": 1}
    assert (await socket.closed())[0] == 4411
    assert (await bob("GET", present)).json["presence"] == []
    assert (await Caller(hub, token)("GET", present)).status == 401
    store = hub.server.store
    assert {each.owner for each in await store.read_webhooks("acme")} == {"u:bob"}
    assert [each.name for each in await store.read_cursors("acme", owner="u:bob")] == ["mine"]
    again = (await admin_of(hub)("DELETE", path)).json
    assert set(again.values()) == {0}


@pytest.mark.spec("PIPE-05", "WEB-04")
async def test_webhooks_that_wait_are_not_sent_what_was_erased(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED, callback_addresses="loopback"))
    refusing = True

    def respond(request: Received) -> bytes:
        return whole_answer(503 if refusing and b"number" in request.body else 200)

    bob, ann = (Caller(hub, hub.token(user)) for user in ("bob", "ann"))
    async with Receiver(respond) as receiver:
        webhook = {"channel": "orders", "callback": receiver.url}
        assert (await bob("POST", "/v1/hubs/acme/webhooks", webhook)).status == 201
        for text in ("my number", "my address"):
            await ann("POST", "/v1/hubs/acme/channels/orders/messages?store=true", text)
        await receiver.until(lambda: receiver.bodies)
        answer = await admin_of(hub)("DELETE", "/v1/admin/hubs/acme/users/ann")
        assert answer.json["messages"] == 2
        refusing = False
        await bob("POST", "/v1/hubs/acme/channels/orders/messages?store=true", "hello")
        await receiver.until(lambda: b"hello" in receiver.bodies[-1])
        taken = [json.loads(body) for body in receiver.bodies if b"my number" not in body]
        assert taken == [None, None, "hello"]


@pytest.mark.spec("PIPE-05", "SEC-03")
async def test_stored_messages_of_an_erased_user_keep_their_serials_and_nothing_else(
    start_hub: StartHub,
) -> None:
    kept = msgspec.structs.replace(STORED, live_history=True, retain=True)
    hub = await start_hub(open_hub(rules=kept))
    url = "/v1/hubs/acme/channels/orders/messages"
    durable = "/v1/hubs/acme/topics/orders/subscriptions/mine"
    assert (await Caller(hub, hub.token("bob"))("PUT", durable, {})).status == 200
    for user, text in (("ann", "my address"), ("bob", "hello"), ("ann", "my number")):
        body = {
            "event": "said",
            "payload": {"json": {"text": text}},
            "extra": {"store": True, "retain": True},
        }
        sent = await Caller(hub, hub.token(user))("POST", "/v1/hubs/acme/messages", {
            "publishes": [
                {"channel": "orders", **body, "headers": {"of": user}, "conversationID": user}
            ],
        })  # fmt: skip
        assert sent.status == 200, sent.text
    before = await hub.server.store.stored_bytes("acme")
    answer = (await admin_of(hub)("DELETE", "/v1/admin/hubs/acme/users/ann")).json
    assert (answer["messages"], answer["left"]) == (2, 0)

    async def read() -> tuple[list[Any], str]:
        found = await Caller(hub, hub.token("bob"))("GET", url)
        said = [(each.get("publisher"), each["payload"]) for each in found.json["messages"]]
        return said, found.text

    nothing, hello = (None, {"json": None}), ("bob", {"json": {"text": "hello"}})
    found, text = await read()
    assert found == [nothing, hello, nothing], text
    due = await Caller(hub, hub.token("bob"))("POST", f"{durable}/get?limit=10")
    assert [each["payload"] for each in due.json["messages"]] == [each for _, each in found], (
        due.text
    )
    threads = await Caller(hub, hub.token("bob"))("GET", "/v1/hubs/acme/channels/orders/threads")
    assert [each["conversationID"] for each in threads.json["threads"]] == ["bob"]
    channel = hub.server.owner.channels.use("acme", "orders")
    assert channel.retained is None
    assert await hub.server.store.read_retained("acme", "orders", 0) is None
    page = await hub.server.store.read_after("acme", "orders", 0, 10)
    assert [each.publisher for each in page.messages] == [None, "bob", None]
    assert (page.messages[0].attributes, page.messages[2].attributes) == (None, None)
    assert "my " not in repr(page.messages)
    assert await hub.server.store.stored_bytes("acme") < before
