"""Webhooks and their topics in the admin API: seen, removed, and noted in the audit log."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from harness.admin import HUB, admin_of, service_of
from harness.callbacks import Callbacks, eventually
from harness.light import Light
from harness.receivers import Received
from harness.running_hub import RunningHub, StartHub
from harness.topics import topic_hub

pytestmark = pytest.mark.spec("WEB-04", "ADMIN-01")

SECRET, KEY = "s3cret-of-ann", "AAECAwQFBgcICQoLDA0ODw"


async def start(start_hub: StartHub, **keys: object) -> RunningHub:
    return await start_hub(topic_hub(open_topics=True, callback_addresses="loopback"), **keys)


def light_of(hub: RunningHub) -> Light:
    return Light(hub, "/v1/hubs/acme/hub")


def busy(request: Received) -> int:
    return 503


async def status_of(hub: RunningHub, webhook: str) -> Any:
    return (await service_of(hub)("GET", f"{HUB}/webhooks/{webhook}")).json["status"]


async def make(hub: RunningHub, channel: str, number: int = 0, **more: Any) -> Any:
    order = {"channel": channel, "callback": f"http://127.0.0.1:9/{number}", **more}
    reply = await service_of(hub)("POST", "/v1/hubs/acme/webhooks", order)
    assert reply.status == 201, reply.text
    return reply.json


async def test_the_webhooks_of_a_hub_are_listed_in_pages(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    made = [await make(hub, channel, n) for channel in ("a", "b") for n in range(3)]
    admin = admin_of(hub)

    everything = await admin.all(f"{HUB}/webhooks", 2)
    assert [each["id"] for each in everything] == sorted(each["id"] for each in made)
    assert {each["status"] for each in everything} == {None}
    of_b = await admin.all(f"{HUB}/webhooks?channel=b&status=true", 2)
    assert [each["channel"] for each in of_b] == ["b"] * 3
    assert [each["status"]["lag"] for each in of_b] == [0, 0, 0]


async def test_a_webhook_is_shown_with_how_it_is_doing(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    made = await make(hub, "orders", secret=SECRET, key=KEY)

    shown = (await service_of(hub)("GET", f"{HUB}/webhooks/{made['id']}")).json
    status = shown["status"]
    assert {**shown, "status": None} == made
    assert (status["lag"], status["attempts"], status["deadLetters"]) == (0, 0, 0)
    assert (status["breaker"], status["lastError"], status["nextTryAt"]) == ("closed", None, None)


async def test_secrets_and_keys_are_in_no_answer(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    made = await make(hub, "orders", secret=SECRET, key=KEY)
    registered = await light_of(hub).ask("PUT", "register?key=true", "news")
    topic_key = registered.headers["Hubbub-Topic-Key"]
    admin = admin_of(hub)
    paths = ("webhooks", "webhooks?status=true", f"webhooks/{made['id']}", "web-topics")
    texts = [(await admin("GET", f"{HUB}/{path}")).text for path in paths]
    await admin("DELETE", f"{HUB}/webhooks/{made['id']}")
    await admin("DELETE", f"{HUB}/web-topics/news")
    texts.append((await admin("GET", "/v1/admin/audit")).text)

    for text in texts:
        assert not [word for word in (SECRET, KEY, topic_key) if word in text]


async def test_a_webhook_is_removed_for_good(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    made = await make(hub, "orders")
    admin, path = admin_of(hub), f"{HUB}/webhooks/{made['id']}"

    assert (await admin("DELETE", path)).status == 204
    for method in ("GET", "DELETE"):
        reply = await admin(method, path)
        assert (reply.status, reply.code) == (404, "not_found")
    entry = (await admin("GET", "/v1/admin/audit")).json["items"][0]
    assert (entry["action"], entry["name"]) == ("webhook.delete", made["id"])
    assert entry["before"] == {
        "kind": "plain", "channel": "orders", "callback": "http://127.0.0.1:9/0",
    }  # fmt: skip


async def test_what_is_wrong_with_a_receiver_is_seen(start_hub: StartHub) -> None:
    hub = await start(start_hub, webhooks__firstRetry=3600)
    async with Callbacks(busy) as receiver:
        made = await make(hub, "orders", callback=receiver.at())
        await light_of(hub).register("orders")
        for _ in range(3):
            await light_of(hub).publish("orders")

        async def tried() -> bool:
            return bool((await status_of(hub, made["id"]))["nextTryAt"])

        await eventually(tried)
        status = await status_of(hub, made["id"])
    assert (status["lag"], status["attempts"], status["failures"]) == (3, 1, 1)
    assert (status["lastStatus"], status["lastError"]) == (503, "the receiver answered 503")
    assert (status["delivered"], status["lastDeliveredAt"]) == (0, None)


async def test_dead_letters_are_replayed(start_hub: StartHub) -> None:
    hub = await start(start_hub, webhooks__retries=0, webhooks__breakerFailures=1000)
    admin = admin_of(hub)
    async with Callbacks(busy) as receiver:
        made = await make(hub, "orders", callback=receiver.at())
        path = f"{HUB}/webhooks/{made['id']}"
        await light_of(hub).register("orders")
        bodies = [b"1", b"2", b"3"]
        for body in bodies:
            await light_of(hub).publish("orders", body)

        async def given_up() -> bool:
            return bool((await status_of(hub, made["id"]))["deadLetters"] == 3)

        await eventually(given_up)
        again = await admin("POST", f"{path}/replay")
        assert again.json == {"delivered": 0, "failed": 3, "more": False, "after": 0}
        receiver.respond = lambda request: 200
        arrived = len(receiver.received)
        again = await admin("POST", f"{path}/replay")
        assert again.json == {"delivered": 3, "failed": 0, "more": False, "after": 0}
        assert [request.body for request in receiver.received[arrived:]] == bodies
        again = await admin("POST", f"{path}/replay")
        assert again.json == {"delivered": 0, "failed": 0, "more": False, "after": 0}
    entry = (await admin("GET", "/v1/admin/audit?limit=2")).json["items"][1]
    assert (entry["action"], entry["name"]) == ("webhook.replay", made["id"])
    assert entry["after"]["callback"] == receiver.at()
    reply = await admin("POST", f"{HUB}/webhooks/unknown/replay")
    assert (reply.status, reply.code) == (404, "not_found")


@pytest.mark.spec("WEB-03", "UI-01")
async def test_single_dead_letters_are_read_replayed_and_discarded(start_hub: StartHub) -> None:
    hub = await start(start_hub, webhooks__retries=0, webhooks__breakerFailures=1000)
    admin = admin_of(hub)
    async with Callbacks(busy) as receiver:
        made = await make(hub, "orders", callback=receiver.at())
        path = f"{HUB}/webhooks/{made['id']}"
        letters = f"{path}/dead-letters"
        assert (await admin("GET", letters)).json == {"items": [], "next": None}
        await light_of(hub).register("orders")
        for body in (b"1", b"2", b"3"):
            await light_of(hub).publish("orders", body)

        async def given_up() -> bool:
            return bool((await status_of(hub, made["id"]))["deadLetters"] == 3)

        await eventually(given_up)
        first = await admin("GET", f"{letters}?limit=2")
        assert [each["serial"] for each in first.json["items"]] == ["1", "2"]
        assert "payload" not in first.text.replace('"payload":null', "").replace(
            '"payloadBase64":null', ""
        )
        rest = await admin("GET", f"{letters}?cursor={first.json['next']}")
        assert [each["originalSerial"] for each in rest.json["items"]] == ["3"]
        one = (await admin("GET", f"{letters}/2")).json
        assert b64decode(one["payloadBase64"] or "") == b"2" or one["payload"] == "2"
        receiver.respond = lambda request: 200
        arrived = len(receiver.received)
        again = await admin("POST", f"{letters}/2/replay")
        assert (again.json["delivered"], again.json["failed"]) == (1, 0)
        assert [request.body for request in receiver.received[arrived:]] == [b"2"]
        assert (await admin("DELETE", f"{letters}/3")).status == 204
        left = await admin("GET", letters)
        assert [each["serial"] for each in left.json["items"]] == ["1"]
        for gone in ("2", "3", "9", "x", "-1"):
            assert (await admin("GET", f"{letters}/{gone}")).code == "not_found"
        everything = await admin("POST", f"{path}/replay")
        assert everything.json["delivered"] == 1
    actions = [each["action"] for each in (await admin("GET", f"{HUB}/audit")).json["items"]]
    assert actions[:4] == ["webhook.replay", "webhook.discard", "webhook.replay", "message.read"]


@pytest.mark.spec("WEB-03", "UI-01")
async def test_a_paused_webhook_gets_nothing_and_goes_on_where_it_was(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    service = service_of(hub)
    async with Callbacks() as receiver:
        made = await make(hub, "orders", callback=receiver.at())
        path = f"{HUB}/webhooks/{made['id']}"
        await light_of(hub).register("orders")
        await light_of(hub).publish("orders", b"1")

        async def arrived(count: int) -> bool:
            return len(receiver.received) >= count

        await eventually(lambda: arrived(1))
        assert (await service("POST", f"{path}/pause")).json["state"] == "paused"
        assert (await service("POST", f"{path}/pause")).json["state"] == "paused"
        for body in (b"2", b"3"):
            await light_of(hub).publish("orders", body)

        async def lags() -> bool:  # the first one is acknowledged after it arrived
            shown = (await service("GET", path)).json
            return (shown["state"], shown["status"]["lag"]) == ("paused", 2)

        await eventually(lags)
        assert len(receiver.received) == 1
        assert (await service("POST", f"{path}/resume")).json["state"] == "active"
        await eventually(lambda: arrived(3))
        assert [request.body for request in receiver.received] == [b"1", b"2", b"3"]
    assert (await service("POST", f"{HUB}/webhooks/unknown/pause")).code == "not_found"


async def test_registered_topics_are_listed(start_hub: StartHub) -> None:
    hub = await start(start_hub)
    for topic in ("c", "a/b", "d"):
        await light_of(hub).register(topic)
    await light_of(hub).ask("PUT", "register?key=true", "e")

    found = await service_of(hub).all(f"{HUB}/web-topics", 2)
    assert [(each["channel"], each["withKey"]) for each in found] == [
        ("a/b", False), ("c", False), ("d", False), ("e", True),
    ]  # fmt: skip


async def test_a_removed_topic_takes_its_light_subscriptions_along(start_hub: StartHub) -> None:
    """What others subscribed to the channel stays; and the name is free at once."""
    hub = await start(start_hub)
    light, admin = light_of(hub), admin_of(hub)
    await light.register("a/b")
    await light.publish("a/b")
    await light.subscribe(9, "a/b")
    plain = await make(hub, "a/b")

    assert (await admin("DELETE", f"{HUB}/web-topics/a%2Fb")).status == 204
    assert [each["id"] for each in await admin.all(f"{HUB}/webhooks", 10)] == [plain["id"]]
    assert (await light.publish("a/b")).error == (404, "topic_not_found")
    entry = (await admin("GET", "/v1/admin/audit")).json["items"][0]
    assert (entry["action"], entry["name"], entry["before"]["ended"]) == (
        "web_topic.delete", "a/b", 1,
    )  # fmt: skip
    again = await admin("DELETE", f"{HUB}/web-topics/a%2Fb")
    assert (again.status, again.code) == (404, "not_found")
    assert (await light.register("a/b")).status == 201
