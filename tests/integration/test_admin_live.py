"""Messages, sessions, figures, push tokens and the audit log over the admin API."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from harness.admin import HUB, Caller, admin_of, client_of, service_of
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.domain.rules import Rules
from hubbub.engine.administration import channel_list

PRESENT = Rules(
    public=True, client_publish=True, allow_anonymous=True, presence=True, occupancy=True
)


@pytest.mark.spec("ADMIN-01")
async def test_a_batch_is_published_with_a_result_for_each(hub: RunningHub) -> None:
    socket = await hub.socket()
    await socket.subscribe("news")
    batch = {
        "publishes": [
            {"channel": "news", "event": "a", "payload": {"json": {"n": 1}}},
            {"channel": "no*pe", "payload": {"json": 1}},
            {"channel": "news", "payload": {"json": 1, "text": "both"}},
            {"channel": "news", "event": "b", "payload": {"text": "last"}},
            {"channel": 7},
        ]
    }
    reply = await service_of(hub)("POST", f"{HUB}/messages", batch)
    assert reply.status == 200
    results = reply.json["published"]
    assert [result["success"] for result in results] == [True, False, False, True, False]
    assert [r["channelSerial"] for r in results if r["success"]] == ["1", "2"]
    codes = [r["error"]["code"] for r in results if not r["success"]]
    assert codes == ["invalid_name", "invalid_payload", "malformed"]
    first, second = await socket.expect("Publish"), await socket.expect("Publish")
    assert (first["msgID"], second["msgID"]) == (results[0]["msgID"], results[3]["msgID"])
    assert first["publisher"] == "backend"
    assert (await service_of(hub)("POST", f"{HUB}/messages", {"publishes": []})).status == 400


@pytest.mark.spec("ADMIN-01")
async def test_services_and_administrators_publish_where_clients_may_not(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(open_hub(rules=Rules()))
    batch = {"publishes": [{"channel": "news", "payload": {"json": 1}}]}
    for caller in (service_of(hub), admin_of(hub)):
        reply = await caller("POST", f"{HUB}/messages", batch)
        assert reply.json["published"][0]["success"]
    single = await admin_of(hub)("POST", "/v1/hubs/acme/channels/news/messages", {"a": 1})
    assert single.status == 200
    refused = await client_of(hub)("POST", "/v1/hubs/acme/channels/news/messages", {"a": 1})
    assert refused.code == "not_permitted"


@pytest.mark.spec("ADMIN-01")
async def test_presence_shows_who_is_there(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=PRESENT))
    socket = await hub.socket(token=hub.token("ann", mood="fine"))
    await socket.subscribe("room")
    reply = await admin_of(hub)("GET", f"{HUB}/channels/room/presence")
    (member,) = reply.json["presence"]
    assert (member["userID"], member["extra"]) == ("ann", {"mood": "fine"})
    assert (await admin_of(hub)("GET", f"{HUB}/channels/empty/presence")).json["presence"] == []


@pytest.mark.spec("ADMIN-01")
async def test_lists_are_searched_ordered_and_counted(hub: RunningHub) -> None:
    service = service_of(hub)
    for number, user in enumerate(("ann", "bob", "joanna")):
        socket = await hub.socket(token=hub.token(user))
        await socket.subscribe("lobby", f"room:{number}")
    note = {"metadata": {"note": "x" * 600}}
    assert (await service("PUT", f"{HUB}/channels/room:9/metadata", note)).status in (200, 201)
    reply = await service("GET", f"{HUB}/channels?sort=-sessions&limit=2")
    assert [row["channel"] for row in reply.json["items"]] == ["lobby", "room:2"]
    assert reply.json["total"] == 5
    busiest = await service.all(f"{HUB}/channels?sort=-sessions", 1)
    assert [row["sessions"] for row in busiest] == [3, 1, 1, 1, 0]
    assert busiest[-1]["channel"] == "room:9"
    assert (busiest[-1]["metadata"], busiest[-1]["metadataLeftOut"]) == ({}, True)
    rooms = await service("GET", f"{HUB}/channels?q=oom&live=true")
    assert (len(rooms.json["items"]), rooms.json["total"]) == (3, 3)
    assert len(await service.all(f"{HUB}/channels", 1)) == 5
    found = await service("GET", f"{HUB}/sessions?q=ann")
    assert {row["userID"] for row in found.json["items"]} == {"ann", "joanna"}
    assert found.json["total"] == 2
    newest = await service.all(f"{HUB}/sessions?sort=-opened", 2)
    assert [row["userID"] for row in newest] == ["joanna", "bob", "ann"]
    assert newest[0]["transport"] == "websocket"
    assert newest[0]["address"] == "127.0.0.1"
    assert newest[0]["channelCount"] == 2
    hubs = await admin_of(hub)("GET", "/v1/admin/hubs?sort=-sessions&q=acm")
    assert [(row["hub"], row["sessions"]) for row in hubs.json["items"]] == [("acme", 3)]
    assert (await service("GET", f"{HUB}/channels?sort=size")).code == "bad_request"
    odd = await service("GET", f"{HUB}/sessions?sort=-opened&cursor=x")
    assert odd.json["items"] == []


@pytest.mark.spec("ADMIN-01")
async def test_rows_of_sessions_stay_small_and_pages_short(hub: RunningHub) -> None:
    socket = await hub.socket(token=hub.token("ann"))
    await socket.subscribe(*(f"{'long' * 20}:{number}" for number in range(40)))
    reply = await service_of(hub)("GET", f"{HUB}/sessions?limit=1000")
    (row,) = reply.json["items"]
    assert row["channelCount"] == 40
    assert 0 < len(row["channels"]) < 10
    assert len(reply.text) < 1200
    whole = await service_of(hub)("GET", f"{HUB}/sessions/{row['sessionID']}")
    assert len(whole.json["channels"]) == 40
    live = await service_of(hub)("GET", f"{HUB}/channels?limit=1000&live=true")
    assert live.json["total"] == 40


@pytest.mark.spec("ADMIN-01")
async def test_sessions_are_listed_by_user_and_channel_in_pages(hub: RunningHub) -> None:
    service = service_of(hub)
    for number in range(5):
        user = "ann" if number < 3 else "bob"
        socket = await hub.socket(token=hub.token(user))
        await socket.subscribe("odd" if number % 2 else "even")
    everyone = await service.all(f"{HUB}/sessions", 2)
    assert len({entry["sessionID"] for entry in everyone}) == 5
    assert len(await service.all(f"{HUB}/sessions?user=ann", 2)) == 3
    odd = await service.all(f"{HUB}/sessions?channel=odd", 1)
    assert sorted(entry["userID"] for entry in odd) == ["ann", "bob"]
    assert odd[0]["channels"] == ["odd"]
    assert odd[0]["level"] == "client"
    assert await service.all(f"{HUB}/sessions?user=ann&channel=nothing", 5) == []
    one = await service("GET", f"{HUB}/sessions/{odd[0]['sessionID']}")
    assert one.json | {"quietMs": 0} == odd[0] | {"quietMs": 0}
    assert (await service("GET", f"{HUB}/sessions/unknown")).status == 404


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_a_session_is_ended_for_good_and_no_other(hub: RunningHub) -> None:
    service = service_of(hub)
    ann, bob = await hub.socket(token=hub.token("ann")), await hub.socket(token=hub.token("bob"))
    key = (await ann.find("SessionRestore"))["restoreKey"]
    (entry,) = (await service("GET", f"{HUB}/sessions?user=ann")).json["items"]
    path = f"{HUB}/sessions/{entry['sessionID']}"
    assert (await service("DELETE", path)).status == 204
    code, reason = await ann.closed()
    assert code == 4403
    assert "administrator" in reason
    assert (await service("DELETE", path)).status == 404
    back = await hub.socket()
    await back.send("SessionRestore", restoreKey=key, reqID=1)
    assert (await back.find("Error"))["error"]["code"] == "restore_failed"
    assert (await bob.publish("news", {"text": "here"}))["success"]


@pytest.mark.spec("ADMIN-01", "ADMIN-05")
async def test_topology_and_counters_tell_what_goes_on(start_server: StartHub) -> None:
    hub = await start_server(open_hub(), open_hub("other"))
    admin = admin_of(hub)
    for channels in (("a",), ("a", "b")):
        socket = await hub.socket()
        await socket.subscribe(*channels)
    await hub.socket("other")
    await socket.publish("a", {"text": "hello"})
    (node,) = (await admin("GET", "/v1/admin/topology")).json["nodes"]
    assert node["sessions"] == 3
    loads = {load["hub"]: load for load in node["hubs"]}
    assert loads["acme"]["channels"] == [
        {"channel": "a", "sessions": 2},
        {"channel": "b", "sessions": 1},
    ]
    assert (loads["acme"]["subscriptions"], loads["other"]["sessions"]) == (3, 1)
    one = (await admin("GET", "/v1/admin/topology?hub=acme&channels=1")).json["nodes"][0]["hubs"]
    assert [(load["hub"], len(load["channels"]), load["channelCount"]) for load in one] == [
        ("acme", 1, 2)
    ]
    counters = (await service_of(hub)("GET", f"{HUB}/counters")).json
    assert (counters["messagesIn"], counters["messagesOut"]) == (1, 2)
    assert (counters["sessions"], counters["subscriptions"]) == (2, 3)
    everything = (await admin("GET", "/v1/admin/counters")).json
    assert everything["total"]["sessions"] == 3
    assert everything["hubs"]["acme"] == counters


@pytest.mark.spec("ADMIN-01")
async def test_users_register_their_own_push_tokens(hub: RunningHub) -> None:
    path = "/v1/hubs/acme/push-tokens"
    ann, bob = client_of(hub, "ann"), client_of(hub, "bob")
    body = {"platform": "fcm", "token": "device:1/a"}
    for _ in range(2):
        assert (await ann("PUT", path, body)).status == 200
    (listed,) = (await ann("GET", path)).json["items"]
    assert listed | body == listed
    assert (await bob("GET", path)).json == {"items": []}
    assert (await bob("DELETE", f"{path}/fcm/device:1%2Fa")).status == 404
    assert (await bob("PUT", path, body)).status == 200
    assert (await ann("GET", path)).json == {"items": []}
    assert (await bob("DELETE", f"{path}/fcm/device:1%2Fa")).status == 204
    nobody = client_of(hub)
    nobody.token = hub.token(None, level=Level.SERVICE)
    assert (await nobody("GET", path)).status == 400


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_services_handle_the_push_tokens_of_their_users(hub: RunningHub) -> None:
    service = service_of(hub)
    path = f"{HUB}/users/ann/push-tokens"
    for number in range(50):
        body = {"platform": "apns", "token": f"{number:064x}"}
        assert (await service("PUT", path, body)).status == 200
    full = await service("PUT", path, {"platform": "apns", "token": "f" * 64})
    assert (full.status, full.code) == (429, "quota_exceeded")
    assert len((await client_of(hub)("GET", "/v1/hubs/acme/push-tokens")).json["items"]) == 50
    assert (await service("DELETE", f"{path}/apns/{0:064x}")).status == 204
    for wrong in ({"platform": "A!", "token": "t"}, {"platform": "fcm", "token": ""}):
        assert (await service("PUT", path, wrong)).status == 400


@pytest.mark.spec("ADMIN-01")
async def test_the_audit_log_tells_who_changed_what(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    admin, service = admin_of(hub, "olga"), service_of(hub)
    await admin("PUT", "/v1/admin/hubs/other/rules/r", {"store": True})
    await service("PUT", f"{HUB}/rules/r", {"store": True})
    await service("PUT", f"{HUB}/rules/r", {"store": True})
    await service("PUT", f"{HUB}/rules/r", {"retain": True})
    await service("DELETE", f"{HUB}/rules/r")
    assert (await service("PUT", f"{HUB}/rules/r", {"nonsense": 1})).status == 400
    own = await service.all(f"{HUB}/audit", 2)
    assert [(e["action"], e["before"], e["after"]) for e in own] == [
        ("rules.delete", {"retain": True}, None),
        ("rules.put", {"store": True}, {"retain": True}),
        ("rules.put", None, {"store": True}),
    ]
    assert {(e["actor"], e["level"], e["hub"], e["name"]) for e in own} == {
        ("backend", "service", "acme", "r")
    }
    assert [e["id"] for e in own] == sorted((e["id"] for e in own), reverse=True)
    everything = await admin.all("/v1/admin/audit", 3)
    assert len(everything) == 4
    assert [e["hub"] for e in await admin.all("/v1/admin/audit?actor=olga", 9)] == ["other"]
    deletions = await admin.all("/v1/admin/audit?action=rules.delete", 9)
    assert len(deletions) == 1


@pytest.mark.spec("ADMIN-01", "OPS-03")
async def test_every_kind_of_change_leaves_a_trace(hub: RunningHub) -> None:
    admin = admin_of(hub)
    socket = await hub.socket(token=hub.token("ann"))
    (session,) = (await admin("GET", f"{HUB}/sessions")).json["items"]
    await admin("DELETE", f"{HUB}/sessions/{session['sessionID']}")
    await socket.closed()
    await admin("POST", f"{HUB}/tokens", {"userID": "ann"})
    await admin("POST", f"{HUB}/revocations", {"kind": "user", "subject": "ann"})
    await admin("PUT", f"{HUB}/users/ann/push-tokens", {"platform": "fcm", "token": "t"})
    await admin("DELETE", f"{HUB}/users/ann/push-tokens/fcm/t")
    await admin("DELETE", HUB)
    actions = [entry["action"] for entry in await admin.all("/v1/admin/audit", 100)]
    assert actions == [
        "hub.delete",
        "push_token.delete",
        "push_token.put",
        "revocation.add",
        "token.issue",
        "session.disconnect",
    ]


@pytest.mark.spec("ADMIN-01")
async def test_live_channels_can_be_listed_alone(hub: RunningHub) -> None:
    service = service_of(hub)
    socket = await hub.socket()
    await socket.subscribe("b", "c")
    await service("PUT", f"{HUB}/channels/a/metadata", {"metadata": {"x": 1}})
    await service("PUT", f"{HUB}/channels/b/metadata", {"metadata": {"x": 2}})
    every = (await service("GET", f"{HUB}/channels")).json["items"]
    assert [(e["channel"], e["sessions"], e["version"]) for e in every] == [
        ("a", 0, 1),
        ("b", 1, 1),
        ("c", 1, 0),
    ]
    live = (await service("GET", f"{HUB}/channels?live=true")).json["items"]
    assert [entry["channel"] for entry in live] == ["b", "c"]


STORED = Rules(public=True, client_publish=True, allow_anonymous=True, store=True)


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_channels_that_hold_messages_are_listed_without_sessions(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=STORED))
    service = service_of(hub)
    published = [("log:a", "one"), ("log:a", "three"), ("log:c", "x"), ("room:b", "yy")]
    for channel, text in published:
        item = {"channel": channel, "payload": {"text": text}, "extra": {"store": True}}
        assert (await service("POST", f"{HUB}/messages", {"publishes": [item]})).status == 200
    socket = await hub.socket()
    await socket.subscribe("log:c", "log:d")
    await service("PUT", f"{HUB}/channels/log:b/metadata", {"metadata": {"x": 1}})
    for limit in (1, 2, 100):
        rows = await service.all(f"{HUB}/channels", limit)
        assert [(e["channel"], e["sessions"], e["stored"], e["storedBytes"]) for e in rows] == [
            ("log:a", 0, 2, 8),
            ("log:b", 0, 0, 0),
            ("log:c", 1, 1, 1),
            ("log:d", 1, 0, 0),
            ("room:b", 0, 1, 2),
        ]
        assert [type(row["storedAt"]) for row in rows] == [int, type(None), int, type(None), int]
        busiest = await service.all(f"{HUB}/channels?sort=-sessions", limit)
        assert [row["channel"] for row in busiest] == ["log:d", "log:c", "room:b", "log:b", "log:a"]
        logs = await service.all(f"{HUB}/channels?prefix=log:", limit)
        assert [row["channel"] for row in logs] == ["log:a", "log:b", "log:c", "log:d"]
        logs = await service.all(f"{HUB}/channels?prefix=log:&sort=-sessions", limit)
        assert [row["channel"] for row in logs] == ["log:d", "log:c", "log:b", "log:a"]
        assert [row["channel"] for row in await service.all(f"{HUB}/channels?q=b", limit)] == [
            "log:b",
            "room:b",
        ]
    (exact,) = (await service("GET", f"{HUB}/channels?prefix=room:b")).json["items"]
    assert (exact["channel"], exact["stored"]) == ("room:b", 1)
    live = (await service("GET", f"{HUB}/channels?live=true")).json["items"]
    assert [(e["channel"], e["stored"]) for e in live] == [("log:c", 1), ("log:d", 0)]
    for odd in ("a%00b", "%F3%A0%80%81", "5 x"):
        for sort in ("name", "-sessions"):
            found = await service("GET", f"{HUB}/channels?cursor={odd}&sort={sort}&prefix={odd}")
            assert found.status == 200


@pytest.mark.spec("ADMIN-01")
async def test_a_search_of_stored_channels_goes_on_page_by_page(
    start_hub: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_list, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(channel_list, "_MOST_READS", 2)
    hub = await start_hub(open_hub(rules=STORED))
    service = service_of(hub)
    extra = {"store": True}
    for number in range(9):
        item = {"channel": f"log:{number}", "payload": {"text": "x"}, "extra": extra}
        await service("POST", f"{HUB}/messages", {"publishes": [item]})
    await service("PUT", f"{HUB}/channels/log:80/metadata", {"metadata": {"x": 1}})
    first = await service("GET", f"{HUB}/channels?q=8")
    assert (first.json["items"], first.json["next"]) == ([], "log:3")
    for sort, expected in (("name", ["log:8", "log:80"]), ("-sessions", ["log:80", "log:8"])):
        found = await service.all(f"{HUB}/channels?q=8&sort={sort}", 5)
        assert [row["channel"] for row in found] == expected


@pytest.mark.spec("ADMIN-03")
async def test_viewers_see_no_channels_of_documents(start_hub: StartHub) -> None:
    """Nor do the cursors of pages name one."""
    hub = await start_hub(open_hub(rules=STORED))
    socket = await hub.socket()
    await socket.subscribe("doc:live", "doc:other", "news", "alerts")
    caller = Caller(hub, hub.token("vera", level=Level.VIEWER))
    service = Caller(hub, hub.token(level=Level.SERVICE))
    for sort in ("name", "-sessions"):
        path, named = f"{HUB}/channels?sort={sort}", ""
        everything = [row["channel"] for row in await service.all(path, 1)]
        assert set(everything) == {"alerts", "doc:live", "doc:other", "news"}
        seen, cursor = [], ""
        while cursor is not None:
            query = f"&limit=1&cursor={quote(cursor)}" if cursor else "&limit=1"
            answer = await caller("GET", f"{path}{query}")
            named += answer.text
            seen += [row["channel"] for row in answer.json["items"]]
            cursor = answer.json["next"]
        assert seen == [each for each in everything if not each.startswith("doc:")]
        assert "live" not in named
        assert "other" not in named


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_a_channel_tells_its_rules_whence_and_what_is_stored(start_hub: StartHub) -> None:
    stored = Rules(public=True, client_publish=True, allow_anonymous=True, store=True, retain=True)
    hub = await start_hub(open_hub(rules=stored))
    service = service_of(hub)
    socket = await hub.socket()
    await socket.subscribe("log:a")
    await socket.publish("log:a", {"json": {"n": 1}}, store=True)
    await socket.publish("log:a", {"text": "hello"}, store=True, retain=True)
    seen = await service("GET", f"{HUB}/channels/log:a")
    assert (seen.json["source"], seen.json["sessions"]) == ("hub", 1)
    assert (seen.json["stored"], seen.json["head"]) == (2, "2")
    assert seen.json["storedBytes"] >= 12
    assert seen.json["rules"]["store"] is True
    assert "payload" not in seen.json["retained"]
    whole = await service("GET", f"{HUB}/channels/log:a?payload=true")
    assert whole.json["retained"]["payload"] == "hello"
    viewer = Caller(hub, hub.token("vera", level=Level.VIEWER))
    assert (await viewer("GET", f"{HUB}/channels/log:a")).status == 200
    assert (await viewer("GET", f"{HUB}/channels/log:a?payload=true")).code == "not_permitted"
    await service("PUT", f"{HUB}/rules/quiet", {"public": True})
    await service("PUT", f"{HUB}/namespaces/log", {"rules": "quiet"})
    assert (await service("GET", f"{HUB}/channels/log:a")).json["source"] == "namespace"
    await service("PUT", f"{HUB}/channels/log:a/settings", {"rules": "quiet"})
    own = await service("GET", f"{HUB}/channels/log:a")
    assert (own.json["source"], own.json["rulesName"]) == ("channel", "quiet")
    nothing = await service("GET", f"{HUB}/channels/never:used")
    assert (nothing.json["stored"], nothing.json["retained"]) == (0, None)
    audit = await service("GET", f"{HUB}/audit?action=message.read")
    assert [entry["name"] for entry in audit.json["items"]] == ["log:a"]


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_topology_names_sessions_and_a_hub_sees_only_itself(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    socket = await hub.socket()
    await socket.subscribe("news")
    await hub.socket("other")
    whole = await admin_of(hub)("GET", "/v1/admin/topology?sessions=5")
    (node,) = whole.json["nodes"]
    assert node["memoryBytes"] >= 0
    assert node["links"] == []
    acme = next(each for each in node["hubs"] if each["hub"] == "acme")
    assert len(acme["channels"][0]["sessionIDs"]) == 1
    own = await service_of(hub)("GET", f"{HUB}/topology")
    (node,) = own.json["nodes"]
    assert [each["hub"] for each in node["hubs"]] == ["acme"]
    assert (node["sessions"], node["memoryBytes"], node["channels"]) == (1, 0, 0)


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_the_audit_log_is_read_by_time_and_the_configuration_without_secrets(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(admin__metricsToken="m" * 40)
    admin = admin_of(hub)
    await admin("PUT", f"{HUB}/rules/a", {"public": True})
    (entry,) = (await admin("GET", "/v1/admin/audit")).json["items"]
    at = entry["at"] / 1000
    before = datetime.fromtimestamp(at - 1, UTC).isoformat().replace("+00:00", "Z")
    after = datetime.fromtimestamp(at + 1, UTC).isoformat().replace("+00:00", "Z")
    found = await admin("GET", f"/v1/admin/audit?since={before}&until={after}")
    assert found.json["items"] == [entry]
    for query in (f"since={after}", f"until={before}"):
        assert (await admin("GET", f"/v1/admin/audit?{query}")).json["items"] == []
    shown = await admin("GET", "/v1/admin/configuration")
    settings = {each["key"]: each for each in shown.json["settings"]}
    assert settings["admin.metricsToken"] == {
        "key": "admin.metricsToken",
        "value": "hidden",
        "set": True,
    }
    assert "m" * 40 not in shown.text


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_rules_are_tried_before_they_are_stored(hub: RunningHub) -> None:
    service = service_of(hub)
    public = {"public": True, "allowAnonymous": True, "clientPublish": True}
    await service("PUT", f"{HUB}/rules/rooms", public)
    await service("PUT", f"{HUB}/namespaces/room", {"rules": "rooms"})
    for token in (None, hub.token("ann")):
        socket = await hub.socket(token=token)
        await socket.subscribe("room:1", "room:2", "elsewhere")
    path = f"{HUB}/rules/rooms/dry-run"
    same = await service("POST", path, public)
    assert same.json == {
        "channels": 2, "subscriptions": 4, "checked": 4, "losing": 0,
        "examples": ["room:1", "room:2"],
    }  # fmt: skip
    named = await service("POST", path, {"public": True})
    assert (named.json["checked"], named.json["losing"]) == (4, 2)
    closed = await service("POST", path, {})
    assert closed.json["losing"] == 4
    stored = await service("GET", f"{HUB}/rules/rooms")
    assert stored.json["public"] is True
    assert (await service("POST", f"{HUB}/rules/other/dry-run", {})).json["channels"] == 0
    assert (await service("POST", path, {"pubic": True})).code == "bad_request"


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_journal_and_pipeline_say_how_they_are_doing(hub: RunningHub) -> None:
    state = await admin_of(hub)("GET", "/v1/admin/data")
    assert state.status == 200
    assert state.json["computedAt"] is None
    assert state.json["journal"] is None or state.json["journal"]["lost"] == 0


@pytest.mark.spec("ADMIN-01", "UI-01")
async def test_a_trace_hears_a_channel_for_a_moment_and_is_noted(hub: RunningHub) -> None:
    service, client = service_of(hub), await hub.socket(token=hub.token("ann"))
    await client.subscribe("news")
    (open_session,) = (await service("GET", f"{HUB}/sessions")).json["items"]
    sessions = hub.server.node.hub("acme").sessions
    for order in ({"channel": "news"}, {"session": open_session["sessionID"]}):
        asking = asyncio.create_task(
            service("POST", f"{HUB}/traces", {**order, "seconds": 20, "limit": 2})
        )
        feed = hub.server.node.hub("acme").feeds["news"]
        async with asyncio.timeout(10):
            while feed.subscribers < 2:
                await asyncio.sleep(0.01)
        for number in range(3):
            await client.publish("news", {"json": {"n": number}})
        seen = (await asking).json
        assert (seen["channels"], seen["complete"]) == (["news"], False)
        assert [each["payload"] for each in seen["events"]] == ['{"n": 0}', '{"n": 1}']
        assert {each["publisher"] for each in seen["events"]} == {"ann"}
        assert len(sessions) == 1
    short = await service("POST", f"{HUB}/traces", {"channel": "quiet", "seconds": 0.1})
    assert short.json == {"channels": ["quiet"], "events": [], "complete": True}
    for body in ({}, {"channel": "a", "session": "b"}, {"channel": "a", "seconds": 900}):
        assert (await service("POST", f"{HUB}/traces", body)).code == "bad_request"
    assert (await service("POST", f"{HUB}/traces", {"session": "s1"})).code == "not_found"
    viewer = Caller(hub, hub.token("vera", level=Level.VIEWER))
    assert (await viewer("POST", f"{HUB}/traces", {"channel": "news"})).code == "not_permitted"
    audit = await service("GET", f"{HUB}/audit?action=trace.start")
    assert len(audit.json["items"]) == 3


@pytest.mark.spec("ADMIN-01", "SEC-01")
async def test_the_traces_of_one_hub_leave_room_for_another(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    order = {"channel": "news", "seconds": 20, "limit": 1}
    asking = [asyncio.create_task(service_of(hub)("POST", f"{HUB}/traces", order)) for _ in "x" * 9]
    refused, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    while len(refused) < 5:
        refused, _ = await asyncio.wait(asking, timeout=0.05)
    assert {each.result().code for each in refused} == {"overloaded"}
    other = Caller(hub, hub.token("svc", hub="other", level=Level.SERVICE))
    short = await other("POST", "/v1/admin/hubs/other/traces", {"channel": "a", "seconds": 0.1})
    assert short.status == 200
    feed = hub.server.node.hub("acme").feeds["news"]
    assert feed.subscribers == 4
    for _ in range(2):
        await service_of(hub)("POST", "/v1/hubs/acme/channels/news/messages", {})
    await asyncio.wait(asking)
