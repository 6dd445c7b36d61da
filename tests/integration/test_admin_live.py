"""Messages, sessions, figures, push tokens and the audit log over the admin API."""

from __future__ import annotations

import pytest

from harness.admin import HUB, admin_of, client_of, service_of
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.domain.rules import Rules

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
    assert one.json == odd[0]
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
async def test_topology_and_counters_tell_what_goes_on(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
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
