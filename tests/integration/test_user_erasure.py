"""Erasing a user takes the user off channels with an owner, and ends subscriptions."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.admin import Caller, admin_of
from harness.commands import Stage
from harness.receivers import Received, Receiver, whole_answer
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import STORED, until
from hubbub.domain.permissions import Level
from hubbub.server.data_folder import DATABASE

OK, NOT_AUTHORIZED = 0, 5
ANN = "/v1/admin/hubs/demo/users/ann"
BASE = "/v1/hubs/acme"
COMMANDS = f"{BASE}/commands"
NAMING = {
    "audit", "channel_records", "comm_members", "comm_messages", "comm_peers", "cursors",
    "document_changes", "messages", "notification_channels", "notifications", "producers",
    "push_followings", "push_tokens", "retained", "user_subscriptions", "webhooks",
}  # fmt: skip
"""The tables that name a user who does everything of `ACTS`."""
READ = (
    f"{BASE}/channels/orders/messages", f"{BASE}/channels/status/messages",
    f"{BASE}/channels/orders/presence", f"{BASE}/channels/orders/threads",
    f"{BASE}/channels/doc:plan/document/changes", f"{BASE}/channels/notification:all/notifications",
    "/v1/admin/hubs/acme/channels", "/v1/admin/hubs/acme/messages?limit=500",
    "/v1/admin/hubs/acme/collectives/team", "/v1/admin/hubs/acme/peers",
)  # fmt: skip


async def erased(stage: Stage) -> dict[str, int]:
    answer = await admin_of(stage.hub)("DELETE", ANN)
    assert answer.status == 200, answer.text
    counts: dict[str, int] = answer.json
    return {name: count for name, count in counts.items() if count}


@pytest.fixture
async def stage(start_server: StartHub) -> Any:
    """Ann owns #news and takes part in it, as in #club, which Bob owns."""
    stage = await Stage.open(start_server)
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


@pytest.mark.spec("PIPE-05", "LIVE-12")
async def test_unstored_messages_of_an_erased_user_are_neither_retained_nor_in_live_history(
    start_hub: StartHub,
) -> None:
    """Open channels have them in memory; of closed ones, the retained message is on disk."""
    live = msgspec.structs.replace(OPEN, retain=True)
    hub = await start_hub(open_hub(rules=live))
    ann, bob = (Caller(hub, hub.token(user)) for user in ("ann", "bob"))
    for channel in ("open", "closed"):
        url = f"/v1/hubs/acme/channels/{channel}/messages"
        assert (await bob("POST", url, "hello")).status == 200
        assert (await ann("POST", f"{url}?retain=true", "my address")).status == 200
    channels = hub.server.owner.channels
    channels.close_idle(-1.0)
    assert not channels.open
    listener = await hub.socket(token=hub.token("bob"))
    await listener.subscribe("open")
    url = "/v1/hubs/acme/channels/open/messages"
    await ann("POST", f"{url}?retain=true", "my number")
    answer = (await admin_of(hub)("DELETE", "/v1/admin/hubs/acme/users/ann")).json
    assert (answer["retained"], answer["messages"], answer["left"]) == (2, 0, 0)
    history = (await bob("GET", url)).json["messages"]
    assert [(each.get("publisher"), each["payload"]) for each in history] == [
        (None, {"json": None})
    ]
    for channel in ("open", "closed"):
        late = await hub.socket(token=hub.token("bob"))
        await late.subscribe(channel)
        await late.send("Ping")
        assert await late.expect("Pong") is not None, "no retained message came before"
    again = (await admin_of(hub)("DELETE", "/v1/admin/hubs/acme/users/ann")).json
    assert set(again.values()) == {0}


@pytest.mark.spec("PIPE-05", "SEC-02")
async def test_the_store_names_an_erased_user_nowhere(start_hub: StartHub) -> None:
    """Every table is read, whatever the user did: no column holds the user's id afterwards,
    except in the list of revoked tokens and in the log of what administrators did."""
    rules = msgspec.structs.replace(STORED, retain=True, presence=True)
    hub = await start_hub(open_hub(rules=rules, callback_addresses="loopback"))
    user = "zoe.7f3a91"
    zoe, admin = Caller(hub, hub.token(user)), admin_of(hub)
    service = Caller(hub, hub.token(level=Level.SERVICE))
    base = "/v1/hubs/acme"

    async def did(caller: Caller, method: str, path: str, body: object = None) -> None:
        answer = await caller(method, path, body)
        assert answer.status < 300, (path, answer.text)

    await did(zoe, "POST", f"{base}/channels/orders/messages?store=true&retain=true", "mine")
    await did(zoe, "POST", f"{base}/channels/status/messages?retain=true", "here")
    await did(zoe, "POST", f"{base}/topics/orders/messages?producer=p1&sequence=1", "a put")
    await did(zoe, "PUT", f"{base}/topics/orders/subscriptions/mine", {})
    webhook = {"channel": "orders", "callback": "http://127.0.0.1:9/zoe"}
    await did(zoe, "POST", f"{base}/webhooks", webhook)
    note = {"event": "noted", "payload": {"json": 1}, "author": user}
    for channel in (f"notification:u:{user}", "notification:all"):
        path = f"/v1/admin/hubs/acme/channels/{channel}/notifications"
        await did(service, "POST", path, {"notifications": [note]})
    await did(zoe, "PUT", f"{base}/channels/doc:plan/document?producer=p&sequence=1", {"a": 1})
    await did(zoe, "PUT", f"{base}/channels/doc:plan/document", {"a": 2})
    peer = {"addresses": [{"adapter": "email", "parameters": ["zoe@example.org"]}]}
    await did(service, "PUT", f"/v1/admin/hubs/acme/peers/{user}", peer)
    letter = {"type": "CHAT", "subtype": "x", "sender": "component:desk", "content": "hello"}
    await did(service, "POST", f"{base}/comm/messages", {**letter, "receiver": user})
    assert len(named_in(hub, user)) >= 8, "the search finds names"
    answer = (await admin("DELETE", f"/v1/admin/hubs/acme/users/{user}?revoke=true")).json
    assert answer["left"] == 0, answer
    assert named_in(hub, user) == {"audit", "revocations"}


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
"""The rows of a virtual table are in tables of its own."""


def named_in(hub: RunningHub, name: str) -> set[str]:
    """The tables of the store in which the name stands, in any column."""
    path = Path(hub.server.settings.storage.path) / DATABASE
    found = set()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        tables = database.execute(_TABLES).fetchall()
        for (table,) in tables:
            for row in database.execute(f"SELECT * FROM {table}"):
                if name in repr(row):
                    found.add(table)
    return found


Act = Callable[["Traces"], Awaitable[None]]


class Traces:
    """What a user does, and what is done about the user, in a hub with every feature."""

    def __init__(self, hub: RunningHub, user: str) -> None:
        self.hub = hub
        self.user = user
        self.own = Caller(hub, hub.token(user))
        self.bob = Caller(hub, hub.token("bob"))
        self.service = Caller(hub, hub.token(level=Level.SERVICE))
        self._ids = count(1)

    async def did(self, caller: Caller, method: str, path: str, body: object = None) -> None:
        answer = await caller(method, path, body)
        assert answer.status < 300, (path, answer.text)
        if path == COMMANDS:
            assert answer.json["status"] == 0, answer.text

    async def stored(self) -> None:
        await self.did(self.own, "POST", f"{BASE}/channels/orders/messages?store=true", "mine")

    async def retained(self) -> None:
        for where in ("status", "status?store=true"):
            channel, _, store = where.partition("?")
            path = f"{BASE}/channels/{channel}/messages?retain=true&{store}"
            await self.did(self.own, "POST", path, "here")

    async def conversation(self) -> None:
        item = {"channel": "orders", "conversationID": "c1", "payload": {"json": 1}, "store": True}
        await self.did(self.own, "POST", f"{BASE}/messages", {"publishes": [item]})

    async def put(self) -> None:
        path = f"{BASE}/topics/orders/messages?producer=p{next(self._ids)}&sequence=1"
        await self.did(self.own, "POST", path, "a put")

    async def durable(self) -> None:
        await self.did(self.own, "PUT", f"{BASE}/topics/orders/subscriptions/mine", {})
        await self.did(self.own, "POST", f"{BASE}/topics/orders/subscriptions/mine/get", None)

    async def webhook(self) -> None:
        wanted = {"channel": "orders", "callback": f"http://127.0.0.1:9/{next(self._ids)}"}
        await self.did(self.own, "POST", f"{BASE}/webhooks", wanted)

    async def notification(self) -> None:
        note = {"event": "noted", "payload": {"json": 1}, "author": self.user}
        for channel in (f"notification:u:{self.user}", "notification:all"):
            path = f"/v1/admin/hubs/acme/channels/{channel}/notifications"
            await self.did(self.service, "POST", path, {"notifications": [note]})

    async def document(self) -> None:
        number = next(self._ids)
        path = f"{BASE}/channels/doc:plan/document"
        await self.did(self.own, "PUT", f"{path}?producer=p{number}&sequence=1", {"a": number})
        await self.did(self.own, "PUT", path, {"a": -number})

    async def peer(self) -> None:
        peer = {"addresses": [{"adapter": "email", "parameters": ["zoe@example.org"]}]}
        await self.did(self.service, "PUT", f"/v1/admin/hubs/acme/peers/{self.user}", peer)
        letter = {"type": "CHAT", "subtype": "x", "sender": "component:desk", "content": "hello"}
        there = {**letter, "receiver": self.user}
        await self.did(self.service, "POST", f"{BASE}/comm/messages", there)
        back = {**letter, "sender": self.user, "receiver": "bob"}
        await self.did(self.service, "POST", f"{BASE}/comm/messages", back)

    async def collective(self) -> None:
        team = {"members": [self.user, "bob"]}
        await self.did(self.service, "PUT", "/v1/admin/hubs/acme/collectives/team", team)

    async def devices(self) -> None:
        await self.did(
            self.own, "PUT", f"{BASE}/push-tokens", {"platform": "fcm", "token": "device"}
        )
        await self.did(self.own, "PUT", f"{BASE}/push-subscriptions/orders", None)

    async def _command(self, caller: Caller, who: str, cmd: str, **params: object) -> None:
        asked = {"reqid": "r", "sender": f"{who}@acme", "entity": "hnode@acme", "cmd": cmd}
        await self.did(caller, "POST", COMMANDS, {**asked, "params": params})

    async def own_channel(self) -> None:
        record = {"chid": f"of{next(self._ids)}", "active": True}
        people = {"owner": f"{self.user}@acme", "participants": [f"{self.user}@acme"]}
        await self._command(self.own, self.user, "hCreateUpdateChannel", **record, **people)
        message = {"chid": record["chid"], "publisher": f"{self.user}@acme", "payload": 1}
        await self._command(self.own, self.user, "hPublish", **message, transient=False)

    async def others_channel(self) -> None:
        people = {"owner": "bob@acme", "participants": ["bob@acme", f"{self.user}@acme"]}
        record = {"chid": "club", "active": True, **people}
        await self._command(self.bob, "bob", "hCreateUpdateChannel", **record)
        await self._command(self.own, self.user, "hSubscribe", chid="club")

    async def session(self) -> None:
        socket = await self.hub.socket(token=self.own.token)
        await socket.subscribe("orders", "crowd")
        await socket.publish("orders", {"json": "live"})


ACTS: tuple[Act, ...] = (
    Traces.stored, Traces.retained, Traces.conversation, Traces.put, Traces.durable,
    Traces.webhook, Traces.notification, Traces.document, Traces.peer, Traces.collective,
    Traces.devices, Traces.own_channel, Traces.others_channel, Traces.session,
)  # fmt: skip


@pytest.mark.spec("PIPE-05", "SEC-02")
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_a_user_did_in_whatever_order_nothing_names_the_user_afterwards(
    start_hub: StartHub, seed: int
) -> None:
    """The first seed does everything, so that each table which can name a user does."""
    chance = random.Random(seed)
    acts = [*ACTS] if seed == 0 else chance.choices(ACTS, k=12)
    chance.shuffle(acts)
    rules = msgspec.structs.replace(
        STORED, retain=True, presence=True, live_history=True, push=True
    )
    hub = await start_hub(open_hub(rules=rules, callback_addresses="loopback", commands=True))
    user = "zoe.7f3a91"
    traces = Traces(hub, user)
    for act in acts:
        await act(traces)
    named = named_in(hub, user)
    if seed == 0:
        assert named == NAMING
    answer = (await admin_of(hub)("DELETE", f"/v1/admin/hubs/acme/users/{user}?revoke=true")).json
    assert answer["left"] == 0, answer
    # Snapshots of sessions that ended are deleted a few times a second.
    await until(lambda: named_in(hub, user) == {"audit", "revocations"})
    for path in READ:
        text = (await traces.service("GET", path)).text
        assert user not in text, (path, text)
