"""Notifications: created by services, read and marked by all who share a channel."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.admin import HUB, Caller, admin_of, client_of, service_of
from harness.clock import FakeClock
from harness.running_hub import RunningHub, Socket, StartHub, open_hub
from harness.topics import Codec, TopicSocket
from hubbub.domain import notices, requests
from hubbub.domain.permissions import Grant
from hubbub.domain.rules import Quotas, Rules
from hubbub.protocols.json.codec import JSON_V1
from hubbub.protocols.protobuf.codec import PROTOBUF_V1

pytestmark = pytest.mark.spec("NOTE-01")

CHANNEL = "notification:orders"
ADMIN = f"{HUB}/channels/{CHANNEL}/notifications"
PUBLIC = f"/v1/hubs/acme/channels/{CHANNEL}/notifications"
both = pytest.mark.parametrize(
    "codec", [JSON_V1, PROTOBUF_V1], ids=lambda codec: str(codec.subprotocol)
)


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"event": "order", "payload": {"json": {"n": number}}, **more}


async def create(hub: RunningHub, *items: dict[str, Any], path: str = ADMIN) -> list[Any]:
    reply = await service_of(hub)("POST", path, {"notifications": list(items)})
    assert reply.status == 200, reply.text
    results: list[Any] = reply.json["created"]
    return results


async def follow(hub: RunningHub, token: str | None = None) -> Socket:
    socket = await hub.socket(token=token)
    assert (await socket.subscribe(CHANNEL))["subscribedChannels"] == [CHANNEL]
    return socket


async def numbers(hub: RunningHub, query: str = "") -> list[int]:
    reply = await client_of(hub)("GET", f"{PUBLIC}{query}")
    assert reply.status == 200, reply.text
    return [each["payload"]["json"]["n"] for each in reply.json["notifications"]]


async def test_a_notification_reaches_all_subscribers_with_the_number_of_unread_ones(
    hub: RunningHub,
) -> None:
    sockets = [await follow(hub) for _ in range(2)]
    for socket in sockets:
        info = await socket.expect("NotificationInfo")
        assert (info["unread"], info["total"], info["newest"]) == (0, 0, 0)
    (made,) = await create(hub, order(1, author="shop"))
    for socket in sockets:
        new = await socket.expect("NotificationNew")
        assert (new["channel"], new["revision"]) == (CHANNEL, 1)
        assert new["notification"] == {
            "id": made["id"],
            "ts": made["ts"],
            "event": "order",
            "payload": {"json": {"n": 1}},
            "author": "shop",
            "read": False,
        }
        info = await socket.expect("NotificationInfo")
        assert (info["revision"], info["unread"], info["newest"]) == (1, 1, made["ts"])


async def test_a_list_is_announced_one_by_one_and_counted_once(hub: RunningHub) -> None:
    socket = await follow(hub)
    await socket.expect("NotificationInfo")
    results = await create(hub, *map(order, range(3)))
    assert len({each["id"] for each in results}) == 3
    revisions = [(await socket.expect("NotificationNew"))["revision"] for _ in range(3)]
    assert revisions == [1, 2, 3]
    assert (await socket.expect("NotificationInfo"))["unread"] == 3


async def test_who_reads_one_reads_it_for_all(hub: RunningHub) -> None:
    """Two sessions of a user, and another user: the badge falls in all of them."""
    ann = [await follow(hub, hub.token("ann")) for _ in range(2)]
    bob = await follow(hub, hub.token("bob"))
    first, second = await create(hub, order(1), order(2))
    marking = await hub.socket(token=hub.token("ann"))
    await marking.send("MarkNotificationAsRead", reqID=9, channel=CHANNEL, ids=[first["id"]])
    for socket in (*ann, bob):
        read = await socket.find("NotificationRead")
        assert (read["ids"], read["readBy"], read["revision"]) == ([first["id"]], "ann", 3)
        assert read["readAt"] > 0
        assert (await socket.expect("NotificationInfo"))["unread"] == 1
    answer = await marking.find("MarkNotificationAsRead")
    assert answer == {"reqID": 9, "success": True, "marked": 1, "unread": 1}
    reply = await client_of(hub, "bob")("GET", f"{PUBLIC}?unread=true")
    assert [each["id"] for each in reply.json["notifications"]] == [second["id"]]
    assert (reply.json["unread"], reply.json["more"]) == (1, False)


async def test_marking_again_says_nothing_and_unknown_ids_are_listed(hub: RunningHub) -> None:
    socket = await follow(hub, hub.token("ann"))
    (made,) = await create(hub, order(1))
    ids = [made["id"], "nobody"]
    answers = []
    for number in (1, 2):
        await socket.send("MarkNotificationAsRead", reqID=number, channel=CHANNEL, ids=ids)
        answers.append(await socket.find("MarkNotificationAsRead"))
    assert [each["marked"] for each in answers] == [1, 0]
    assert all(each["unknown"] == ["nobody"] for each in answers)
    await socket.send("NotificationInfo", reqID=5, channel=CHANNEL)
    info = await socket.expect("NotificationInfo")  # no event came of the second mark
    assert (info["reqID"], info["unread"], info["revision"]) == (5, 0, 2)


async def test_a_mark_without_a_request_id_is_not_answered(hub: RunningHub) -> None:
    socket = await follow(hub, hub.token("ann"))
    await create(hub, order(1))
    await socket.send("MarkNotificationAsRead", channel=CHANNEL, all=True)
    await socket.send("MarkNotificationAsRead", channel="news", all=True)
    await socket.send("Ping", reqID=1)
    await socket.find("NotificationRead")
    await socket.expect("NotificationInfo")
    await socket.expect("Pong")


async def test_an_arrival_that_was_not_seen_stays_unread(hub: RunningHub) -> None:
    """What clients are to do: mark up to the newest one that they showed."""
    socket = await follow(hub, hub.token("ann"))
    _, seen = await create(hub, order(1), order(2))
    await create(hub, order(3))
    await socket.send("MarkNotificationAsRead", channel=CHANNEL, upTo=seen["ts"])
    read = await socket.find("NotificationRead")
    assert (read["upTo"], "ids" in read) == (seen["ts"], False)
    assert (await socket.expect("NotificationInfo"))["unread"] == 1
    assert await numbers(hub, "?unread=true") == [3]


@both
async def test_both_encodings_page_mark_and_ask(hub: RunningHub, codec: Codec) -> None:
    await create(hub, *(order(n) for n in range(1, 6)))
    async with await TopicSocket.open(hub, codec, token=hub.token("ann")) as socket:
        page = await socket.ask(requests.NotificationQuery, CHANNEL, limit=2)
        assert isinstance(page, notices.NotificationPage)
        assert [json.loads(each.payload)["n"] for each in page.notifications] == [5, 4]
        assert (page.more, page.state.unread, page.state.total) == (True, 5, 5)
        oldest = page.notifications[-1].timestamp
        page = await socket.ask(requests.NotificationQuery, CHANNEL, before=oldest)
        assert [json.loads(each.payload)["n"] for each in page.notifications] == [3, 2, 1]
        assert not page.more
        one = page.notifications[0]
        marked = await socket.ask(requests.MarkNotifications, CHANNEL, (one.id, "x"))
        assert isinstance(marked, notices.NotificationsMarked)
        assert (marked.marked, marked.unread, marked.unknown) == (1, 4, ("x",))
        page = await socket.ask(requests.NotificationQuery, CHANNEL, after=0, unread=True)
        assert [json.loads(each.payload)["n"] for each in page.notifications] == [1, 2, 4, 5]
        info = await socket.ask(requests.NotificationStateQuery, CHANNEL)
        assert isinstance(info, notices.NotificationInfo)
        assert info.state.unread == 4
        refused = await socket.ask(requests.MarkNotifications, "news", all=True)
        assert refused.error.code == "wrong_channel_kind"


async def test_http_reads_pages_and_marks(hub: RunningHub) -> None:
    await create(hub, *(order(n) for n in range(1, 6)))
    ann = client_of(hub)
    assert await numbers(hub, "?limit=2") == [5, 4]
    reply = await ann("GET", f"{PUBLIC}?after=0&limit=3")
    assert [each["payload"]["json"]["n"] for each in reply.json["notifications"]] == [1, 2, 3]
    assert (reply.json["more"], reply.json["unread"]) == (True, 5)
    third = reply.json["notifications"][-1]
    marked = await ann("POST", f"{PUBLIC}/read", {"upTo": third["ts"]})
    assert marked.json == {"marked": 3, "unread": 2, "unknown": []}
    (read,) = (await ann("GET", f"{PUBLIC}?before={third['ts'] + 1}&limit=1")).json["notifications"]
    assert (read["read"], read["readBy"]) == (True, "ann")
    assert (await ann("POST", f"{PUBLIC}/read", {"all": True})).json["marked"] == 2


async def test_doubled_ids_are_created_once(hub: RunningHub) -> None:
    socket = await follow(hub)
    same, other = order(1, id="o-1"), order(2, id="o-1")
    results = await create(hub, same, same, other)
    assert [each["success"] for each in results] == [True, True, False]
    assert [each.get("duplicate") for each in results] == [False, True, None]
    assert results[2]["error"]["code"] == "conflict"
    assert results[0]["ts"] == results[1]["ts"]
    again = await asyncio.gather(*(create(hub, same) for _ in range(10)))
    assert all(results[0]["duplicate"] for results in again)
    assert (await socket.find("NotificationNew"))["notification"]["id"] == "o-1"
    assert (await socket.expect("NotificationInfo"))["total"] == 1
    assert await numbers(hub) == [1]


async def test_creations_side_by_side_with_one_id_make_one(hub: RunningHub) -> None:
    socket = await follow(hub)
    made = await asyncio.gather(*(create(hub, order(1, id="only")) for _ in range(20)))
    assert sum(not results[0]["duplicate"] for results in made) == 1
    await socket.find("NotificationNew")
    assert (await socket.expect("NotificationInfo"))["revision"] == 1


async def test_marks_that_race_with_arrivals_leave_numbers_and_events_in_order(
    hub: RunningHub,
) -> None:
    """Every subscriber sees revisions without a gap, and counts what the store has."""
    socket = await follow(hub)
    await socket.find("NotificationInfo")
    ann = client_of(hub)
    work: list[Any] = []
    for n in range(40):
        work.append(create(hub, order(n), order(n)))
        work.append(ann("POST", f"{PUBLIC}/read", {"all": True}))
    await asyncio.gather(*work)
    await ann("POST", f"{PUBLIC}/read", {"all": True})
    reply = await ann("GET", f"{PUBLIC}?unread=true")
    assert (reply.json["unread"], reply.json["notifications"]) == (0, [])
    revision, unread = 0, -1
    while revision < reply.json["revision"] or unread:
        said = await socket.next()
        if said["event"] == "NotificationInfo":
            unread = said["payload"]["unread"]
        else:
            revision += 1
        assert said["payload"]["revision"] == revision
    assert reply.json["total"] == 80


async def test_clients_create_nothing_and_publish_nothing(hub: RunningHub) -> None:
    body = {"notifications": [order(1)]}
    assert (await client_of(hub)("POST", ADMIN, body)).code == "not_permitted"
    for caller in (client_of(hub), service_of(hub)):
        path = f"/v1/hubs/acme/channels/{CHANNEL}/messages"
        assert (await caller("POST", path, {"n": 1})).code == "wrong_channel_kind"
    socket = await hub.socket(token=hub.token("ann"))
    assert (await socket.publish(CHANNEL, {"json": 1}))["error"]["code"] == "wrong_channel_kind"
    await socket.send("NotificationNew", channel=CHANNEL)
    assert (await socket.find("Error"))["error"]["code"] == "unknown_event"


async def test_only_who_may_subscribe_reads_and_marks(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules()))
    await create(hub, order(1))
    grants = (Grant("notification:*", subscribe=True),)
    may = Caller(hub, hub.token("ann", grants=grants))
    may_not = Caller(hub, hub.token("bob", grants=(Grant("notification:*", publish=True),)))
    assert (await may("GET", PUBLIC)).status == 200
    assert (await may("POST", f"{PUBLIC}/read", {"all": True})).json["marked"] == 1
    assert (await may_not("GET", PUBLIC)).code == "not_permitted"
    assert (await may_not("POST", f"{PUBLIC}/read", {"all": True})).code == "not_permitted"
    assert (await Caller(hub, None)("GET", PUBLIC)).status in (401, 403)
    socket = await hub.socket(token=may_not.token)
    await socket.send("MarkNotificationAsRead", reqID=1, channel=CHANNEL, all=True)
    answer = await socket.find("MarkNotificationAsRead")
    assert (answer["success"], answer["error"]["code"]) == (False, "not_permitted")
    await socket.send("NotificationInfo", reqID=2, channel=CHANNEL)
    assert (await socket.find("Error"))["error"]["code"] == "not_permitted"
    await socket.send("NotificationList", reqID=3, channel=CHANNEL)
    assert (await socket.find("Error"))["error"]["code"] == "not_permitted"


async def test_another_tenant_sees_nothing(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), open_hub("other"))
    await create(hub, order(1))
    there = client_of(hub, name="other")
    path = PUBLIC.replace("/acme/", "/other/")
    assert (await there("GET", path)).json["notifications"] == []
    assert (await there("GET", PUBLIC)).status == 401
    assert (await service_of(hub, "other")("POST", ADMIN, {"notifications": []})).status == 401


async def test_access_that_ends_ends_the_notifications_too(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub())
    socket = await follow(hub, hub.token("ann"))
    await socket.find("NotificationInfo")
    await admin_of(hub)("PUT", f"{HUB}/rules/default", {"public": False})
    lost = await socket.find("Unsubscribe")
    assert [each["channel"] for each in lost["failures"]] == [CHANNEL]
    await create(hub, order(1))
    await socket.send("Ping", reqID=1)
    await socket.expect("Pong")


async def test_a_users_own_channel_belongs_to_that_user_alone(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(user_channel=True), open_hub("without"))
    own = "/v1/hubs/acme/channels/notification:u:ann/notifications"
    made = await create(hub, order(1), path=f"{HUB}/channels/notification:u:ann/notifications")
    assert made[0]["success"]
    ann = client_of(hub, "ann")
    assert len((await ann("GET", own)).json["notifications"]) == 1
    assert (await ann("POST", f"{own}/read", {"all": True})).json["marked"] == 1
    everything = (Grant("#", subscribe=True), Grant("notification:u:ann", subscribe=True))
    for other in (
        client_of(hub, "bob"),
        client_of(hub, "ann.dead"),
        Caller(hub, hub.token("bob", grants=everything)),
        Caller(hub, None),
    ):
        assert (await other("GET", own)).code == "not_permitted"
    assert (await ann("GET", own.replace("u:ann", "u:ann.dead"))).code == "not_permitted"
    assert (await service_of(hub)("GET", own)).status == 200
    socket = await hub.socket(token=hub.token("bob", grants=everything))
    refused = await socket.subscribe("notification:u:ann")
    while not refused["failures"]:
        refused = await socket.find("Subscribe")
    assert refused["failures"][0]["error"]["code"] == "not_permitted"
    elsewhere = client_of(hub, "bob", "without")
    path = own.replace("acme", "without")
    assert (await elsewhere("GET", path)).status == 200  # a name like any other there


async def test_the_oldest_go_and_subscribers_are_told(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), channel__maxNotifications=3)
    socket = await follow(hub)
    await create(hub, *(order(n) for n in range(1, 6)))
    while (info := await socket.find("NotificationInfo"))["revision"] < 5:
        pass
    assert (info["unread"], info["total"]) == (3, 3)
    assert await numbers(hub) == [5, 4, 3]


async def test_what_has_expired_is_not_shown_and_not_counted(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(), clock=clock, channel__notificationRetention=100)
    socket = await follow(hub)
    soon = int((clock.now() + 10) * 1000)
    await create(hub, order(1, expiresAt=soon), order(2))
    clock.advance(11)
    assert await numbers(hub) == [2]
    while (info := await socket.find("NotificationInfo"))["revision"] < 3:
        pass
    assert (info["unread"], info["total"]) == (1, 1)
    late = await service_of(hub)("POST", ADMIN, {"notifications": [order(3, expiresAt=soon)]})
    assert late.json["created"][0]["error"]["code"] == "bad_request"
    clock.advance(100)
    await hub.server.owner.expire()
    assert (await socket.find("NotificationInfo"))["total"] == 0


async def test_channels_that_nobody_has_open_are_held_to_their_times(
    start_server: StartHub,
) -> None:
    clock = FakeClock()
    hub = await start_server(open_hub(), clock=clock)
    await create(hub, order(1, expiresAt=int((clock.now() + 5) * 1000)), order(2))
    clock.advance(3600)
    hub.server.owner.channels.close_idle(1.0)
    assert hub.server.owner.channels.count("acme") == 0
    await hub.server.owner.expire()
    found = await hub.server.store.read_notification_state("acme", CHANNEL)
    assert found is not None
    assert (found.state.total, found.state.unread) == (1, 1)


async def test_services_delete_and_mark_as_unread(hub: RunningHub) -> None:
    socket = await follow(hub)
    service = service_of(hub)
    first, second = await create(hub, order(1), order(2))
    await service("POST", f"{ADMIN}/read", {"all": True})
    back = await service("POST", f"{ADMIN}/unread", {"ids": [first["id"], "x"]})
    assert back.json == {"marked": 1, "unread": 1, "unknown": ["x"]}
    while (info := await socket.find("NotificationInfo"))["revision"] < 4:
        pass
    assert info["unread"] == 1
    gone = await service("POST", f"{ADMIN}/delete", {"ids": [second["id"]]})
    assert gone.json == {"marked": 1, "unread": 1, "unknown": []}
    info = await socket.expect("NotificationInfo")
    assert (info["revision"], info["total"]) == (5, 1)
    shown = (await service("GET", f"{ADMIN}?limit=10")).json
    assert [each["id"] for each in shown["notifications"]] == [first["id"]]
    entries = (await admin_of(hub)("GET", f"{HUB}/audit")).json["items"]
    assert "notifications.delete" in [each["action"] for each in entries]


async def test_they_survive_a_restart_in_the_same_epoch(start_server: StartHub) -> None:
    hub = await start_server(open_hub())
    (made,) = await create(hub, order(1))
    before = (await client_of(hub)("GET", PUBLIC)).json
    await hub.close()
    again = await start_server(open_hub())
    after = (await client_of(again)("GET", PUBLIC)).json
    assert after == before
    assert after["notifications"][0]["id"] == made["id"]
    (duplicate,) = await create(again, order(1, id=made["id"], author="backend"))
    assert duplicate["duplicate"]


async def test_a_session_that_comes_back_is_told_the_numbers_again(start_server: StartHub) -> None:
    hub = await start_server(open_hub(session_restore=True))
    socket = await hub.socket(token=hub.token("ann"))
    key = (await socket.find("SessionRestore"))["restoreKey"]
    await socket.subscribe(CHANNEL)
    await socket.find("NotificationInfo")
    await socket.connection.close()
    await create(hub, order(1))
    other = await hub.socket()
    positions = [{"channel": CHANNEL, "serial": "0"}]
    await other.send("SessionRestore", reqID=1, restoreKey=key, positions=positions)
    await other.find("SessionRestored")
    assert (await other.find("NotificationInfo"))["unread"] == 1


async def test_server_sent_events_tell_of_them_too(hub: RunningHub) -> None:
    async with hub.http.get(
        f"/v1/hubs/acme/events?channel={CHANNEL}", headers={"Accept": "text/event-stream"}
    ) as stream:
        seen: list[str] = []
        made = False
        async with asyncio.timeout(10):
            async for line in stream.content:
                if line.startswith(b"event: "):
                    seen.append(line[7:].strip().decode())
                if "NotificationInfo" in seen and not made:
                    made = True
                    await create(hub, order(1))
                if seen[-2:] == ["NotificationNew", "NotificationInfo"]:
                    break
    assert "NotificationNew" in seen


async def test_quotas_hold_for_notifications(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme", quotas=Quotas(stored_bytes=1200)))
    small = await create(hub, order(1))
    assert small[0]["success"]
    (large,) = await create(hub, {"payload": {"text": "x" * 1200}})
    assert large["error"]["code"] == "quota_exceeded"
    await service_of(hub)("POST", f"{ADMIN}/delete", {"all": True})
    (fits,) = await create(hub, {"payload": {"text": "x" * 90}})
    assert fits["success"]


async def test_a_quota_of_messages_counts_them(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(quotas=Quotas(messages_per_second=5)))
    results = await create(hub, *map(order, range(20)))
    codes = {each["error"]["code"] for each in results if not each["success"]}
    assert codes == {"quota_exceeded"}


async def test_bad_input_is_refused_by_name(hub: RunningHub) -> None:
    service = service_of(hub)
    for body, code in (
        ({"notifications": []}, "bad_request"),
        ({"notifications": [order(1)] * 1001}, "too_large"),
        ({"notification": [order(1)]}, "malformed"),
        ([], "malformed"),
    ):
        assert (await service("POST", ADMIN, body)).code == code, body
    for item, code in (
        (order(1, id=""), "invalid_name"),
        (order(1, id="x" * 65), "invalid_name"),
        (order(1, id="a\nb"), "invalid_name"),
        (order(1, expiresAt=5), "bad_request"),
        (order(1, author="\x00"), "invalid_name"),
        ({"event": "e"}, "malformed"),
        ({"payload": {"json": 1, "text": "both"}}, "invalid_payload"),
        ({"payload": {"text": "x" * (256 * 1024 + 1)}}, "too_large"),
        ({"payload": {"json": 1}, "event": "e" * 256}, "invalid_name"),
    ):
        (result,) = await create(hub, item)
        assert result["error"]["code"] == code, (item, result)
    good, bad = await create(hub, order(1), order(1, id=""))
    assert (good["success"], bad["success"]) == (True, False)
    ann = client_of(hub)
    for query in ("?after=1&before=2", "?limit=1001", "?after=x", "?unread=perhaps", "?limt=1"):
        assert (await ann("GET", f"{PUBLIC}{query}")).status == 400, query
    selections: tuple[Any, ...] = (
        {},
        {"ids": []},
        {"ids": ["a"], "all": True},
        {"upTo": "x"},
        {"uTo": 1},
    )
    for which in selections:
        assert (await ann("POST", f"{PUBLIC}/read", which)).status == 400, which
    assert (await ann("POST", f"{PUBLIC}/read", {"ids": ["x"] * 1001})).status == 413
    assert (await ann("GET", PUBLIC.replace("notification:", ""))).code == "wrong_channel_kind"
    assert (await ann("PUT", PUBLIC)).status == 405
    assert (await ann("GET", f"{PUBLIC}/read")).status == 405
    socket = await hub.socket(token=hub.token("ann"))
    for payload in ({"all": True, "upTo": 1}, {}, {"ids": ["x"] * 1001}):
        await socket.send("MarkNotificationAsRead", reqID=4, channel=CHANNEL, **payload)
        assert (await socket.find("Error"))["reqID"] == 4


async def test_a_user_is_erased_from_notifications(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(user_channel=True))
    own = f"{HUB}/channels/notification:u:ann/notifications"
    await create(hub, order(1), order(2), path=own)
    await create(hub, order(3, author="ann"))
    await client_of(hub, "ann")("POST", f"{PUBLIC}/read", {"all": True})
    token = {"platform": "fcm", "token": "t"}
    assert (await client_of(hub)("PUT", "/v1/hubs/acme/push-tokens", token)).status == 200
    assert (await service_of(hub)("DELETE", f"{HUB}/users/ann")).code == "not_permitted"
    erased = await admin_of(hub)("DELETE", f"{HUB}/users/ann")
    assert erased.json == {
        "notifications": 2,
        "named": 2,
        "pushTokens": 1,
        "pushSubscriptions": 0,
        "subscriptions": 0,
        "participations": 0,
        "ownedChannels": 0,
        "durableSubscriptions": 0,
        "webhooks": 0,
        "peerSubscriptions": 0,
        "peers": 0,
        "messages": 0,
        "sessions": 0,
        "retained": 0,
        "documentChanges": 0,
        "producers": 0,
        "left": 0,
    }
    (left,) = (await service_of(hub)("GET", ADMIN)).json["notifications"]
    assert (left["read"], "author" in left, "readBy" in left) == (True, False, False)
    gone = (await service_of(hub)("GET", own)).json
    assert (gone["notifications"], gone["revision"]) == ([], 0)
    again = await admin_of(hub)("DELETE", f"{HUB}/users/ann")
    assert set(again.json.values()) == {0}
    entries = (await admin_of(hub)("GET", f"{HUB}/audit")).json["items"]
    assert '"ann"' not in json.dumps([e for e in entries if e["action"] == "user.erase"])


@pytest.mark.spec("ADMIN-05")
async def test_metrics_count_what_was_created(hub: RunningHub) -> None:
    await create(hub, order(1, id="a"), order(1, id="a"), order(2, id="a"))
    metrics = await admin_of(hub)("GET", "/metrics")
    assert 'hubbub_notifications_created_total{hub="acme"} 1' in metrics.text
