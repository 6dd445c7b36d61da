"""A hub is restored from a backup while the server runs, and other tenants do not notice."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import os
import signal
import sqlite3
import tarfile
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.admin import HUB, Caller, admin_of, service_of
from harness.callbacks import Callbacks
from harness.communication import BOXES, COMM, until
from harness.light import Light
from harness.restoring import RESTORES, ended, left_over, restore_hub, rows_of
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.topics import HttpTopic, texts
from hubbub.client import Gap, Message, connect
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import HubRestoring
from hubbub.domain.permissions import Level
from hubbub.server.backup import hub_archives
from hubbub.server.backup.archive import BackupError, read_manifest
from hubbub.server.backup.making import back_up
from hubbub.storage.sql.hub_tables import DERIVED, hub_tables
from hubbub.storage.sqlite.store import SqliteStore

pytestmark = pytest.mark.spec("OPS-04")

KEPT = msgspec.structs.replace(OPEN, store=True, retain=True)
PUBLIC = "/v1/hubs/acme"


async def two_hubs(start_server: StartHub, **more: Any) -> RunningHub:
    """`acme`, which is restored, and `other`, which goes on. Channels of both store."""
    BOXES.clear()
    hubs = [
        open_hub(name, KEPT, commands=True, callback_addresses="loopback", open_topics=True)
        for name in ("acme", "other")
    ]
    adapters = {"void": AdapterSettings("test-memory", {"box": "box"})}
    more.setdefault("session__messagesPerSecond", 0)
    return await start_server(msgspec.structs.replace(hubs[0], adapters=adapters), hubs[1], **more)


async def must(caller: Caller, method: str, path: str, body: Any = None) -> Any:
    reply = await caller(method, path, body)
    assert reply.status < 300, (method, path, reply.text)
    return reply.json


def database(hub: RunningHub) -> Path:
    return data(hub) / "hubbub.db"


def data(hub: RunningHub) -> Path:
    return Path(hub.server.settings.storage.path)


def backup_of(hub: RunningHub) -> Path:
    return back_up(data(hub), data(hub).parent / "backup.tar.gz", with_secrets=True)[0]


@asynccontextmanager
async def publishing(hub: RunningHub, name: str = "other") -> AsyncIterator[list[int]]:
    """A session of another tenant that publishes all the time, and must not be cut off."""
    socket = await hub.socket(name)
    acknowledged: list[int] = []
    done = asyncio.Event()

    async def publish() -> None:
        while not done.is_set():
            result = await socket.publish("log", {"json": len(acknowledged)}, store=True)
            assert result["success"], result
            acknowledged.append(int(result["channelSerial"]))

    task = asyncio.ensure_future(publish())
    try:
        yield acknowledged
    finally:
        done.set()
        await task
    assert acknowledged == list(range(1, len(acknowledged) + 1))


async def fill(hub: RunningHub, callback: str) -> None:
    """Something in every table that a restore replaces."""
    service, admin = service_of(hub), admin_of(hub)
    ann = Caller(hub, hub.token("ann"))
    await must(admin, "PUT", f"{HUB}/rules/special", {"store": True, "public": True})
    topic = HttpTopic(hub, "orders", hub.token("ann"))
    await topic.put("one", producer="p", sequence="1")
    await topic.subscribe("default", start="first")
    for n in range(2, 6):
        await topic.put(f"order {n}")
    assert texts(await topic.get(limit=2)) == ["one", "order 2"]
    await topic.ack(upTo="2")
    talk = {"Content-Type": "text/plain", "Hubbub-Conversation-ID": "case 1"}
    reply = await service("POST", f"{PUBLIC}/topics/talk/messages", data=b"hello", **talk)
    assert reply.status == 200, reply.text
    await must(ann, "POST", f"{PUBLIC}/channels/board/messages?retain=true", {"kept": 1})
    document = f"{PUBLIC}/channels/doc:plan/document"
    for letter in "ab":
        await must(ann, "PUT", document, {"items": [letter * 70_000]})
    await must(ann, "PUT", f"{document}?producer=p&sequence=1", {"items": [1, 2]})
    notes = f"{HUB}/channels/notification:u:ann/notifications"
    await must(service, "POST", notes, {"notifications": [{"payload": {"json": 1}, "event": "n"}]})
    hook = {"channel": "orders", "callback": callback, "secret": "s", "start": "first"}
    await must(service, "POST", f"{PUBLIC}/webhooks", hook)
    assert (await Light(hub, f"{PUBLIC}/hub").register("feed")).status < 300
    command = {"reqid": "1", "sender": "ann@acme", "entity": "hnode@acme"}
    record = {"chid": "owned", "owner": "ann@acme", "participants": ["ann@acme"], "active": True}
    for cmd, params in (("hCreateUpdateChannel", record), ("hSubscribe", {"chid": "owned"})):
        asked = {**command, "cmd": cmd, "params": params}
        assert (await must(ann, "POST", f"{PUBLIC}/commands", asked))["status"] == 0
    token = {"platform": "fcm", "token": "t" * 100}
    await must(service, "PUT", f"{HUB}/users/ann/push-tokens", token)
    await must(ann, "PUT", f"{PUBLIC}/push-subscriptions/news")
    await must(ann, "GET", f"{PUBLIC}/push/key")
    for peer in ("ann", "fail", "hang"):
        addresses = {"addresses": [{"adapter": "void", "parameters": [peer]}]}
        await must(service, "PUT", f"{HUB}/peers/{peer}", addresses)
    await must(service, "PUT", f"{HUB}/collectives/team", {"members": ["ann"]})
    for peer in ("fail", "hang"):
        sent = {"type": "ALARM", "subtype": "fire", "sender": "component:desk", "receiver": peer}
        await must(service, "POST", f"{COMM}/messages", sent)
    await until(lambda: failed_delivery(service))


async def failed_delivery(service: Caller) -> bool:
    found = await must(service, "GET", f"{HUB}/messages?type=CONTROL")
    return bool(found["items"])


async def change_everything(hub: RunningHub) -> None:
    """Of what `fill` made, nothing stays as it was."""
    service, admin = service_of(hub), admin_of(hub)
    ann = Caller(hub, hub.token("ann"))
    await must(admin, "PUT", f"{HUB}/rules/special", {"store": False})
    await must(admin, "PUT", f"{HUB}/rules/new", {})
    topic = HttpTopic(hub, "orders", hub.token("ann"))
    await topic.put("two", producer="p", sequence="2")
    await topic.ack(upTo="6")
    await HttpTopic(hub, "later", hub.token("ann")).put("new")
    await must(ann, "POST", f"{PUBLIC}/channels/board/messages?retain=true", {"kept": 2})
    await must(ann, "PUT", f"{PUBLIC}/channels/doc:plan/document", {"items": []})
    notes = f"{HUB}/channels/notification:u:ann/notifications"
    await must(service, "POST", f"{notes}/read", {"all": True})
    (hook,) = (await must(service, "GET", f"{HUB}/webhooks"))["items"]
    await must(service, "DELETE", f"{PUBLIC}/webhooks/{hook['id']}")
    command = {"reqid": "1", "sender": "ann@acme", "entity": "hnode@acme"}
    record = {"chid": "owned", "owner": "ann@acme", "participants": ["bob@acme"], "active": True}
    asked = {**command, "cmd": "hCreateUpdateChannel", "params": record}
    assert (await must(ann, "POST", f"{PUBLIC}/commands", asked))["status"] == 0
    await must(service, "DELETE", f"{HUB}/users/ann/push-tokens/fcm/{'t' * 100}")
    await must(service, "DELETE", f"{HUB}/peers/ann")


async def test_every_kind_of_state_comes_back(start_server: StartHub) -> None:
    hub = await two_hubs(start_server)
    async with Callbacks() as callbacks:
        await fill(hub, f"{callbacks.url}/in")
        await callbacks.got(5)
        await acknowledged_by_webhook(hub, 5)
        before = rows_of(database(hub), "acme")
        assert {name for name, rows in before.items() if not rows} == DERIVED
        archive = backup_of(hub)
        await change_everything(hub)
        changed = rows_of(database(hub), "acme")
        assert changed != before
        async with publishing(hub) as published:
            so_far = len(published)
            told = await restore_hub(hub, archive)
            assert told["state"] == "done", told
            assert len(published) > so_far
        after = rows_of(database(hub), "acme")
        for name in hub_tables():
            assert after[name] == before[name], name
        assert left_over(database(hub)) == []
        assert not (data(hub) / ".hub-restore").exists()
        await it_works_as_it_did(hub, callbacks)


async def acknowledged_by_webhook(hub: RunningHub, serial: int) -> None:
    async def done() -> bool:
        cursors = rows_of(database(hub), "acme")["cursors"]
        return any(row[2] == "webhook" and row[4] == serial for row in cursors)

    await until(done)


async def it_works_as_it_did(hub: RunningHub, callbacks: Callbacks) -> None:
    """From where the backup was made."""
    ann = Caller(hub, hub.token("ann"))
    topic = HttpTopic(hub, "orders", hub.token("ann"))
    again = await topic.put("one", producer="p", sequence="1")
    assert (again.json["duplicate"], again.json["channelSerial"]) == (True, "1")
    second = await topic.put("two", producer="p", sequence="2")
    assert (second.json["duplicate"], second.json["channelSerial"]) == (False, "6")
    assert texts(await topic.get(limit=10)) == ["order 3", "order 4", "order 5", "two"]
    await callbacks.until(lambda: callbacks.bodies[-1] == b"two")
    document = await must(ann, "GET", f"{PUBLIC}/channels/doc:plan/document")
    assert document == {"items": [1, 2]}
    threads = await must(ann, "GET", f"{PUBLIC}/channels/talk/threads")
    assert [each["conversationID"] for each in threads["threads"]] == ["case 1"]
    bob = Caller(hub, hub.token("bob"))
    refused = await bob("POST", f"{PUBLIC}/channels/owned/messages", {"n": 1})
    assert refused.code == "not_permitted", "bob took part only after the backup"
    await must(ann, "POST", f"{PUBLIC}/channels/owned/messages", {"n": 1})
    rules = await must(admin_of(hub), "GET", f"{HUB}/rules/special")
    assert rules["store"] is True
    peers = await must(service_of(hub), "GET", f"{HUB}/peers")
    assert {each["id"] for each in peers["items"]} == {"ann", "fail", "hang"}


async def test_sessions_are_told_to_reconnect_and_their_positions_are_void(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    socket = await hub.socket()
    for n in range(3):
        await socket.publish("log", {"json": n}, store=True)
    archive = backup_of(hub)
    (followed,) = (await socket.subscribe("log"))["channels"]
    await socket.publish("log", {"json": 3}, store=True)
    told = await restore_hub(hub, archive)
    assert (told["state"], told["sessions"]) == ("done", 1)
    code, reason = await socket.closed()
    assert (code, HubRestoring.reconnect) == (HubRestoring.close_code, True)
    assert "hub 'acme' is being restored" in reason
    again = await hub.socket()
    (fresh,) = (await again.subscribe("log", serial="4", epoch=followed["epoch"]))["channels"]
    assert fresh["recovered"] is False
    assert fresh["epoch"] != followed["epoch"]
    assert fresh["serial"] == "3"
    assert (await again.publish("log", {"json": 9}, store=True))["channelSerial"] == "4"


async def test_a_client_connects_again_by_itself_and_hears_of_the_gap(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    await post(hub, "log", "one")
    archive = backup_of(hub)
    async with (
        connect(f"ws://{hub.address}", hub="acme") as client,
        client.subscribe("log") as subscription,
    ):
        events = subscription.events()
        await post(hub, "log", "two")
        before = await anext(events)
        assert (await restore_hub(hub, archive))["state"] == "done"
        gap = await anext(events)
        await post(hub, "log", "three")
        after = await anext(events)
    assert isinstance(gap, Gap), gap
    assert isinstance(before, Message)
    assert isinstance(after, Message)
    assert (before.data, before.serial, after.data, after.serial) == ("two", 2, "three", 2)


async def test_tokens_that_were_revoked_since_the_backup_stay_revoked(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    admin = admin_of(hub)
    early, late = hub.token("early"), hub.token("late")
    for user, token in (("early", early), ("late", late)):
        assert (await Caller(hub, token)("GET", f"{PUBLIC}/subscriptions")).status == 200
        await must(admin, "POST", f"{HUB}/revocations", {"kind": "user", "subject": user})
        if user == "early":
            archive = backup_of(hub)
    assert (await restore_hub(hub, archive))["state"] == "done"
    for token in (early, late):
        refused = await Caller(hub, token)("GET", f"{PUBLIC}/subscriptions")
        assert refused.code == "invalid_token"
    fresh = Caller(hub, hub.token("early"))
    assert (await fresh("GET", f"{PUBLIC}/subscriptions")).status == 200


async def test_a_dry_run_says_what_would_be_replaced_and_changes_nothing(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    for n in range(3):
        await post(hub, "log", str(n))
    archive = backup_of(hub)
    await post(hub, "log", "3")
    await post(hub, "more", "x")
    before = rows_of(database(hub), "acme")
    socket = await hub.socket()
    told = await restore_hub(hub, archive, dryRun=True)
    assert (told["state"], told["rows"], told["sessions"]) == ("done", 0, 0)
    parts = {part["table"]: (part["archive"], part["now"]) for part in told["parts"]}
    assert parts["channels"] == (1, 2)
    assert parts["messages"] == (3, 5)
    assert told["withSecrets"] is True
    assert rows_of(database(hub), "acme") == before
    assert (await socket.publish("log", {"json": 1}, store=True))["channelSerial"] == "5"
    assert left_over(database(hub)) == []


async def test_a_hub_is_restored_under_another_name_beside_the_first(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    async with Callbacks() as callbacks:
        await fill(hub, f"{callbacks.url}/in")
        await callbacks.got(5)
        await acknowledged_by_webhook(hub, 5)
        archive = backup_of(hub)
        before = rows_of(database(hub), "acme")
        told = await restore_hub(hub, archive, "copy", source="acme")
        assert told["state"] == "done", told
        assert rows_of(database(hub), "acme") == before
        copied = rows_of(database(hub), "copy")
        left_out = {name for name, rows in before.items() if rows and not copied[name]}
        assert left_out == {
            *("webhooks", "push_tokens", "push_followings", "push_credentials", "comm_deliveries"),
        }
        assert len(copied["messages"]) == len(before["messages"])
        bob, ann = (Caller(hub, hub.token(user, "copy")) for user in ("bob", "ann"))
        owned = "/v1/hubs/copy/channels/owned/messages"
        assert (await bob("POST", owned, {"n": 1})).code == "not_permitted"
        await must(ann, "POST", owned, {"n": 1})
        socket = await hub.socket("copy")
        await socket.send("Subscribe", reqID=1, channels=[{"channel": "board"}])
        kept = await socket.find("Publish")
        assert kept["payload"] == {"json": {"kept": 1}}
        assert len(callbacks.messages) == 5, "nothing was sent a second time"


async def test_the_copy_of_a_hub_that_the_file_declares_outlives_the_next_start(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    await post(hub, "log", "kept")
    told = await restore_hub(hub, backup_of(hub), "copy", source="acme")
    assert told["state"] == "done", told
    await hub.server.directory.declare(list(hub.server.settings.hubs.values()))
    assert await texts_of(hub, "copy") == ["kept"]


async def test_a_hub_that_was_deleted_comes_back_and_one_that_never_was_is_made(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server, engine__allowDynamicHubs=False)
    await post(hub, "log", "one")
    archive = backup_of(hub)
    before = rows_of(database(hub), "acme")
    await must(admin_of(hub), "DELETE", HUB)
    assert (await restore_hub(hub, archive))["state"] == "done"
    assert rows_of(database(hub), "acme") == before
    assert await texts_of(hub, "acme") == ["one"]
    assert (await restore_hub(hub, archive, "new", source="acme"))["state"] == "done"
    assert await texts_of(hub, "new") == ["one"]


async def test_a_hub_that_is_used_all_the_time_is_restored_exactly(start_server: StartHub) -> None:
    """Whoever writes while the hub is replaced writes into the old one or the new one, or is
    refused; nothing of the old one gets into the new one."""
    hub = await two_hubs(start_server)
    ann = Caller(hub, hub.token("ann"))
    document = f"{PUBLIC}/channels/doc:plan/document"
    topic = HttpTopic(hub, "log", hub.token("ann"))
    await topic.subscribe(start="first")
    for n in range(20):
        await post(hub, "log", f"backup {n}")
    await must(ann, "PUT", document, {"from": "the backup"})
    await topic.get(limit=10)
    await topic.ack(upTo="10")
    archive = backup_of(hub)
    phase = "before"
    stored: dict[str, list[str]] = {"before": [], "during": [], "after": []}
    refusals: set[str] = set()

    async def publish(who: int) -> None:
        number = 0
        while len(stored["after"]) < 30:
            began, number = phase, number + 1
            text = f"{began} {who} {number}"
            put = await topic.put(text)
            if put.status == 200:
                stored[began if began == phase else "during"].append(text)
            else:
                refusals.add(put.json["error"]["code"])

    async def use() -> None:
        """Reads and changes of every other kind, which may be refused."""
        while len(stored["after"]) < 30:
            await topic.get("other", limit=5)
            await ann("PUT", document, {"from": phase})
            await ann("POST", f"{PUBLIC}/channels/board/messages?retain=true", {"n": phase})

    users = [asyncio.ensure_future(each) for each in (publish(1), publish(2), use())]
    await until(lambda: published_at_least(stored["before"], 50))
    phase = "during"
    told = await restore_hub(hub, archive)
    assert told["state"] == "done", told
    phase = "after"
    await asyncio.gather(*users)
    assert refusals <= {"hub_restoring", "conflict", "unavailable"}, refusals
    found: list[str] = []
    while page := await texts_after(hub, len(found)):
        found += page
    assert found[:20] == [f"backup {n}" for n in range(20)]
    assert not set(found) & set(stored["before"])
    assert set(stored["after"]) <= set(found)
    assert len(found) == len(set(found))
    got: list[str] = []
    while more := texts(await topic.get(limit=100)):
        got += more
        await topic.ack(upTo=str(10 + len(got)))
    assert got == found[10:], "the durable subscription goes on where the backup had it"
    assert left_over(database(hub)) == []


async def published_at_least(stored: list[str], count: int) -> bool:
    return len(stored) >= count


async def texts_after(hub: RunningHub, serial: int) -> list[str]:
    page = await must(
        service_of(hub), "GET", f"{PUBLIC}/channels/log/messages?after={serial}&limit=100"
    )
    serials = [int(each["channelSerial"]) for each in page["messages"]]
    assert serials == list(range(serial + 1, serial + len(serials) + 1))
    return [each["payload"]["text"] for each in page["messages"]]


async def test_the_audit_log_names_the_restore_and_outlives_it(start_server: StartHub) -> None:
    hub = await two_hubs(start_server)
    await must(admin_of(hub), "PUT", f"{HUB}/rules/a", {})
    archive = backup_of(hub)
    await must(admin_of(hub, "eve"), "PUT", f"{HUB}/rules/b", {})
    await restore_hub(hub, archive)
    entries = (await must(admin_of(hub), "GET", f"{HUB}/audit"))["items"]
    assert [(each["actor"], each["action"]) for each in entries] == [
        ("root", "hub.restore"),
        ("eve", "rules.put"),
        ("root", "rules.put"),
    ]
    about = entries[0]["after"]
    assert (about["archive"], about["source"]) == (str(archive), "acme")
    rules = await must(admin_of(hub), "GET", f"{HUB}/rules")
    assert "b" not in {each["name"] for each in rules["items"]}


async def test_restores_do_not_run_side_by_side(start_server: StartHub) -> None:
    hub = await two_hubs(start_server)
    await post(hub, "log", "one")
    wanted = {"hub": "acme", "archive": str(backup_of(hub))}
    admin = admin_of(hub)
    replies = [await admin("POST", RESTORES, wanted) for _ in range(2)]
    assert [reply.status for reply in replies] == [202, 409]
    assert "'acme' is being restored" in replies[1].message
    done = await ended(admin, replies[0].json["id"])
    assert done["state"] == "done"
    (listed,) = await must(admin, "GET", RESTORES)
    assert listed == done


async def test_others_publish_while_a_large_hub_is_loaded(start_server: StartHub) -> None:
    """The rows of the archive go into the store in slices, between the writes of others."""
    hub = await two_hubs(start_server)
    await store_many(hub)
    archive = backup_of(hub)
    async with publishing(hub) as published:
        admin = admin_of(hub)
        begun = await must(admin, "POST", RESTORES, {"hub": "acme", "archive": str(archive)})
        during: dict[str, int] = {}
        while (view := await must(admin, "GET", f"{RESTORES}/{begun['id']}"))["endedAt"] is None:
            during.setdefault(f"{view['state']} {view['rows']}", len(published))
            await asyncio.sleep(0)
        assert view["state"] == "done", view
        assert view["rows"] == view["totalRows"] > 6000
    loading = [count for state, count in during.items() if state.startswith("loading")]
    assert len(loading) > 3, "it was seen at work"
    assert loading[-1] > loading[0], "others were served meanwhile"


async def store_many(hub: RunningHub) -> None:
    """6,000 messages."""
    message = {"channel": "log", "payload": {"text": "x" * 500}, "extra": {"store": True}}
    for _ in range(60):
        await must(service_of(hub), "POST", f"{HUB}/messages", {"publishes": [message] * 100})


async def test_a_writer_that_is_killed_in_the_middle_costs_nothing(start_server: StartHub) -> None:
    """The process that writes to the database; the next one goes on with what was under way."""
    hub = await two_hubs(start_server)
    await store_many(hub)
    archive = backup_of(hub)
    before = rows_of(database(hub), "acme")
    await post(hub, "log", "later")
    admin = admin_of(hub)
    begun = await must(admin, "POST", RESTORES, {"hub": "acme", "archive": str(archive)})
    while not (await must(admin, "GET", f"{RESTORES}/{begun['id']}"))["rows"]:
        await asyncio.sleep(0)
    assert isinstance(hub.server.store, SqliteStore)
    os.kill(hub.server.store.worker_pids[0], signal.SIGKILL)
    done = await ended(admin, begun["id"])
    assert done["state"] == "done", done
    assert rows_of(database(hub), "acme") == before
    assert left_over(database(hub)) == []


# -- archives that are refused ------------------------------------------------------------------


def nothing(archive: Path) -> Path:
    return archive.with_name("missing.tar.gz")


def folder(archive: Path) -> Path:
    return archive.parent


def device(archive: Path) -> Path:
    return Path("/dev/zero")


def garbage(archive: Path) -> Path:
    archive.write_bytes(b"garbage" * 1000)
    return archive


def truncated(archive: Path) -> Path:
    archive.write_bytes(archive.read_bytes()[:-2000])
    return archive


def changed(archive: Path) -> Path:
    packed = bytearray(gzip.decompress(archive.read_bytes()))
    packed[len(packed) // 2] ^= 1
    archive.write_bytes(gzip.compress(bytes(packed)))
    return archive


def foreign(archive: Path) -> Path:
    """An archive of another program."""
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(__file__, "manifest.json")
    return archive


def newer(archive: Path) -> Path:
    return rewritten(archive, schema=10_000)


def of_another_format(archive: Path) -> Path:
    return rewritten(archive, format=99)


def rewritten(archive: Path, **changes: Any) -> Path:
    """With another manifest."""
    target = archive.with_name("rewritten.tar.gz")
    with tarfile.open(archive) as source, tarfile.open(target, "w:gz") as tar:
        for member in source:
            content = source.extractfile(member)
            assert content is not None
            data = content.read()
            if member.name == "manifest.json":
                data = json.dumps({**json.loads(data), **changes}).encode()
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return target


def without_end(archive: Path) -> Path:
    """Reading its channels never ends."""
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    return repacked(
        archive,
        "ALTER TABLE push_tokens RENAME TO others",
        f"CREATE VIEW push_tokens AS SELECT o.* FROM others AS o, ({endless})",
    )


def of_computed_columns(archive: Path) -> Path:
    """Reading its devices takes all memory."""
    computed = "token AS (hex(zeroblob(400000000)))"
    return repacked(
        archive,
        "DROP TABLE push_tokens",
        f"CREATE TABLE push_tokens (hub, platform, {computed}, user_id, acting)",
        "INSERT INTO push_tokens (hub) VALUES ('acme')",
    )


def with_a_costly_constraint(archive: Path) -> Path:
    """Checking it takes all memory."""
    return repacked(
        archive, "CREATE TABLE more (a CHECK (length(hex(zeroblob(a))) > 0))",
        "PRAGMA ignore_check_constraints = ON", "INSERT INTO more VALUES (400000000)",
    )  # fmt: skip


def with_a_costly_index(archive: Path) -> Path:
    return repacked(archive, "CREATE INDEX costly ON push_tokens (hex(zeroblob(40)))")


def of_virtual_tables(archive: Path) -> Path:
    return repacked(archive, "CREATE VIRTUAL TABLE words USING fts5(word)")


def with_a_large_header(archive: Path) -> Path:
    """Of a member: 64 MiB, which are 64 KiB in the archive."""
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("header")
        member.type, member.size = tarfile.XHDTYPE, 64 << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    return archive


BAD = [
    nothing, folder, device, garbage, truncated, changed, foreign, newer, of_another_format,
    without_end, of_computed_columns, with_a_costly_constraint, with_a_costly_index,
    of_virtual_tables, with_a_large_header,
]  # fmt: skip


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
async def test_an_archive_that_cannot_be_trusted_is_refused_before_anything_changes(
    start_server: StartHub, spoil: Callable[[Path], Path]
) -> None:
    hub = await two_hubs(start_server)
    await post(hub, "log", "x" * 20_000)
    archive = spoil(backup_of(hub))
    before = rows_of(database(hub), "acme")
    socket = await hub.socket()
    told = await restore_hub(hub, archive)
    assert (told["state"], told["error"]["code"]) == ("failed", "archive_refused"), told
    assert str(archive) in told["error"]["message"]
    assert rows_of(database(hub), "acme") == before
    assert (await socket.publish("log", {"json": 1}, store=True))["channelSerial"] == "2"
    assert not (data(hub) / ".hub-restore").exists()
    assert left_over(database(hub)) == []


def repacked(archive: Path, *statements: str) -> Path:
    """With another database, which its maker has changed."""
    stage = archive.parent / "repacked"
    stage.mkdir()
    with tarfile.open(archive) as source:
        source.extractall(stage, filter="data")
    with closing(sqlite3.connect(stage / "hubbub.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    manifest = json.loads((stage / "manifest.json").read_bytes())
    content = (stage / "hubbub.db").read_bytes()
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest["files"]["hubbub.db"] = entry
    (stage / "manifest.json").write_text(json.dumps(manifest))
    target = archive.with_name("repacked.tar.gz")
    with tarfile.open(target, "w:gz") as tar:
        for name in ("manifest.json", *manifest["files"]):
            tar.add(stage / name, name)
    return target


@pytest.mark.spec("OPS-03", "SEC-01")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE settings SET value = 'x' WHERE hub = 'acme' AND kind = 'rules'",
        "UPDATE settings SET value = CAST('[]' AS BLOB) WHERE hub = 'acme' AND kind = 'hub'",
        "UPDATE settings SET value = CAST('{' AS BLOB) WHERE hub = 'acme' AND kind = 'declared'",
        "UPDATE settings SET value = zeroblob(70000000) WHERE hub = 'acme' AND kind = 'rules'",
        "UPDATE settings SET value = CAST(replace(hex(zeroblob(50000)), '00', '[') AS BLOB)"
        " WHERE hub = 'acme' AND kind = 'rules'",
        "INSERT INTO channel_records VALUES ('acme', 'c', 'ann@acme', CAST('x' AS BLOB))",
        "UPDATE channels SET head = 'many' WHERE hub = 'acme'",
        "INSERT INTO revocations VALUES ('acme', 'user', 'ann', 'today', 9999999999999)",
        "UPDATE channels SET name = CAST(x'ff' AS TEXT) WHERE hub = 'acme'",
    ],
)
async def test_rows_that_no_node_could_read_are_refused_before_the_hub_is_replaced(
    start_server: StartHub, statement: str
) -> None:
    """The settings of all hubs are read together: one that cannot be read would end them all."""
    hub = await two_hubs(start_server)
    await post(hub, "log", "kept")
    archive = repacked(backup_of(hub), statement)
    before = rows_of(database(hub), "acme")
    told = await restore_hub(hub, archive)
    assert (told["state"], told["error"]["code"]) == ("failed", "archive_refused"), told
    assert rows_of(database(hub), "acme") == before
    assert left_over(database(hub)) == []
    await hub.server.reread()
    assert await texts_of(hub, "acme") == ["kept"]


@pytest.mark.spec("SEC-01")
async def test_an_archive_that_would_fill_the_disk_of_all_hubs_is_not_unpacked(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await two_hubs(start_server)
    archive = backup_of(hub)
    monkeypatch.setattr(hub_archives, "_ROOM_LEFT_BYTES", 1 << 60)
    told = await restore_hub(hub, archive)
    assert (told["state"], told["error"]["code"]) == ("failed", "archive_refused"), told
    assert "room" in told["error"]["message"]


async def test_a_header_is_not_read_into_memory_whatever_its_size(tmp_path: Path) -> None:
    archive = with_a_large_header(tmp_path / "large.tar.gz")
    tracemalloc.start()
    try:
        with pytest.raises(BackupError):
            read_manifest(archive)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


async def test_an_archive_without_the_hub_says_which_hubs_it_holds(start_server: StartHub) -> None:
    hub = await two_hubs(start_server)
    archive = backup_of(hub)
    told = await restore_hub(hub, archive, "third")
    assert told["error"]["code"] == "archive_refused"
    assert "no hub 'third'; it holds 'acme', 'other'" in told["error"]["message"]


async def test_only_an_administrator_of_all_hubs_may_restore(start_server: StartHub) -> None:
    hub = await two_hubs(start_server)
    wanted = {"hub": "acme", "archive": str(backup_of(hub))}
    for token in (
        hub.token("ann", level=Level.ADMIN),
        hub.token("ann", "*", Level.SERVICE),
        hub.token("ann", "*", Level.VIEWER),
    ):
        refused = await Caller(hub, token)("POST", RESTORES, wanted)
        assert refused.status in (401, 403), refused.text
    assert (await must(admin_of(hub), "GET", RESTORES)) == []
    bad = await admin_of(hub)("POST", RESTORES, {**wanted, "hub": "a#b"})
    assert bad.status == 400


# -- while the hub is away ------------------------------------------------------------------------


async def test_who_comes_while_the_hub_is_replaced_is_told_to_come_again(
    start_server: StartHub,
) -> None:
    hub = await two_hubs(start_server)
    suspending = hub.server.administration.restores
    await suspending.suspend("acme", "nobody's")
    answer = await Caller(hub, hub.token("ann"))("GET", f"{PUBLIC}/subscriptions")
    assert (answer.status, answer.code, answer.json["error"]["retry"]) == (
        503,
        "hub_restoring",
        True,
    )
    socket = await hub.raw_socket()
    assert (await socket.closed())[0] == 4503
    assert (await must(admin_of(hub), "GET", "/v1/admin/hubs/other"))["hub"] == "other"
    await hub.server.reread()
    assert (await admin_of(hub)("PUT", f"{HUB}/rules/a", {})).code == "hub_restoring"
    for switched in (False, True):
        await suspending.resume("acme", "of another restore", switched)
        assert (await admin_of(hub)("PUT", f"{HUB}/rules/a", {})).code == "hub_restoring"
    await suspending.resume("acme", "nobody's", False)
    await post(hub, "log", "again")
    assert await texts_of(hub, "acme") == ["again"]


async def post(hub: RunningHub, channel: str, text: str) -> None:
    reply = await service_of(hub)(
        "POST",
        f"{PUBLIC}/topics/{channel}/messages",
        data=text.encode(),
        Content_Type="text/plain",
    )
    assert reply.status == 200, reply.text


async def texts_of(hub: RunningHub, name: str, channel: str = "log") -> list[str]:
    caller = Caller(hub, hub.token("svc", name, Level.SERVICE))
    page = await must(caller, "GET", f"/v1/hubs/{name}/channels/{channel}/messages")
    return [each["payload"]["text"] for each in page["messages"]]
