"""Push to browsers: through a push service, encrypted, to those whom a message concerns, once."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from harness.admin import admin_of, client_of, service_of
from harness.push_services import Browser, BrowserService, push_hub, web_push_testing
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.push.tokens import token_hash
from hubbub.domain.rules import HubConfiguration, Rules

pytestmark = pytest.mark.spec("PUSH-01")

HUB = "/v1/admin/hubs/acme"
TOKENS = "/v1/hubs/acme/push-tokens"
SHOWN = {"title": "Hello", "body": "World"}


async def register(hub: RunningHub, user: str, browser: Browser) -> dict[str, Any]:
    body = {"platform": "webpush", "token": browser.subscription}
    answer = await client_of(hub, user)("PUT", TOKENS, body)
    assert answer.status == 200, answer.json
    return dict(answer.json)


async def say(hub: RunningHub, channel: str, user: str = "bob", **options: Any) -> None:
    """A message marked `push`, acknowledged."""
    socket = await hub.socket(token=hub.token(user))
    extra: Any = {"push": True, "pushOptions": {**SHOWN, **options}}
    result = await socket.publish(channel, {"json": {"n": 1}}, **extra)
    assert result["success"], result


async def settled(hub: RunningHub) -> None:
    """Nothing waits to be pushed any more."""
    await hub.server.push.settle()


async def test_a_push_is_decrypted_and_its_signature_verified_by_web_push_testing(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(push_hub())
    ann = client_of(hub, "ann")
    key = (await ann("GET", "/v1/hubs/acme/push/key")).json
    async with aiohttp.ClientSession() as http, web_push_testing(http) as service:
        subscription = await service.subscribe(key["key"])
        given = {name: subscription[name] for name in ("endpoint", "keys")}
        assert (await ann("PUT", TOKENS, {"platform": "webpush", "token": given})).status == 200
        assert (await ann("PUT", "/v1/hubs/acme/push-subscriptions/news")).status == 200
        await say(hub, "news")
        await settled(hub)
        (said,) = await service.notifications(subscription)
        assert (said["title"], said["body"]) == ("Hello", "World")
        assert (said["hub"], said["channel"], said["event"]) == ("acme", "news", "e")
        assert said["msgID"]
        assert "payload" not in said

        await service.ask(f"/expire-subscription/{subscription['clientHash']}")
        await say(hub, "news")
        await settled(hub)
        assert (await ann("GET", TOKENS)).json == {"items": []}, "410: the token is dropped"


async def test_subscribers_and_followers_are_reached_once_each(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub())
    async with BrowserService() as service:
        browsers = {user: service.browser(f"/{user}") for user in ("ann", "eve", "kim", "zoe")}
        for user, browser in browsers.items():
            await register(hub, user, browser)
        for user in ("ann", "ann", "eve"):
            socket = await hub.socket(token=hub.token(user))
            await socket.subscribe("news")
        for user in ("eve", "kim"):
            path = "/v1/hubs/acme/push-subscriptions/news"
            assert (await client_of(hub, user)("PUT", path)).status == 200
        await say(hub, "news")
        await settled(hub)
        assert sorted(each.path for each in service.received) == ["/ann", "/eve", "/kim"]
        assert browsers["kim"].read(service.received[-1])["title"] == "Hello"

        service.received.clear()
        await say(hub, "news", onlyAbsent=True)
        await settled(hub)
        assert [each.path for each in service.received] == ["/kim"]

        service.received.clear()
        await say(hub, "news", user="kim", skipPublisher=True)
        await settled(hub)
        assert sorted(each.path for each in service.received) == ["/ann", "/eve"]

        service.received.clear()
        unfollow = await client_of(hub, "kim")("DELETE", "/v1/hubs/acme/push-subscriptions/news")
        assert unfollow.status == 204
        await say(hub, "news", onlyAbsent=True)
        await settled(hub)
        assert service.received == []


async def test_a_users_own_channel_reaches_that_users_devices(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub(user_channel=True, push_audience="absent"))
    async with BrowserService() as service:
        for user in ("ann", "eve"):
            await register(hub, user, service.browser(f"/{user}"))
        send = service_of(hub)
        path = "/v1/hubs/acme/channels/u:ann/messages?push=true"
        headers = {"Hubbub-Push-Options": '{"title":"For you"}'}

        async def push() -> None:
            service.received.clear()
            given = {"Authorization": f"Bearer {send.token}", **headers}
            async with hub.http.post(path, json={"a": 1}, headers=given) as answer:
                assert answer.status == 200
            await settled(hub)

        await push()
        assert [each.path for each in service.received] == ["/ann"]
        socket = await hub.socket(token=hub.token("ann"))  # follows its own channel
        await socket.find("Subscribe")
        await push()
        assert service.received == [], "pushAudience is absent, and she is not"


@pytest.mark.parametrize(
    ("channel", "extra"),
    [("quiet:x", {"push": True}), ("news", {"push": False}), ("notification:x", {"push": True})],
    ids=["the rule forbids it", "it is not marked", "notification channels"],
)
async def test_what_may_not_be_pushed_is_not(
    start_hub: StartHub, channel: str, extra: dict[str, Any]
) -> None:
    silent = Rules(public=True, client_publish=True, allow_anonymous=True)
    configuration = push_hub()
    rules = {**configuration.rules, "silent": silent}
    hub = await start_hub(
        HubConfiguration(
            "acme", configuration.settings, rules, {"quiet": "silent", "notification": "default"}
        )
    )
    async with BrowserService() as service:
        await register(hub, "ann", service.browser())
        socket = await hub.socket(token=hub.token("ann"))
        await socket.subscribe(channel)
        await socket.publish(channel, {"text": "hi"}, **extra)
        await settled(hub)
        assert service.received == []


async def test_services_push_to_users_and_try_out_their_devices(start_server: StartHub) -> None:
    hub = await start_server(push_hub())
    service_token = service_of(hub)
    async with BrowserService() as service:
        for user in ("ann", "eve"):
            await register(hub, user, service.browser(f"/{user}"))
        order = {"users": ["ann", "ann", "nobody"], "title": "Sale", "urgency": "high", "ttl": 60}
        answer = await service_token("POST", f"{HUB}/push", order)
        assert answer.status == 200
        await settled(hub)
        (request,) = service.received
        assert (request.path, request.headers["urgency"]) == ("/ann", "high")
        assert int(request.headers["ttl"]) in (59, 60)

        service.answers["/eve"] = 403
        test = await service_token("POST", f"{HUB}/push/test", {"user": "eve", "title": "Test"})
        (result,) = test.json["items"]
        assert (result["outcome"], result["status"]) == ("credentials", 403)
        status = (await service_token("GET", f"{HUB}/push")).json
        web = status["platforms"]["webpush"]
        assert web["outcomes"] == {"ok": 1, "credentials": 1}
        assert (web["lastError"]["status"], status["waiting"]) == (403, 0)
        assert (await client_of(hub)("POST", f"{HUB}/push", order)).status == 403
    metrics = await hub.metrics()
    assert 'hubbub_push_attempts_total{hub="acme",outcome="ok",platform="webpush"} 1.0' in metrics


async def test_a_new_key_leaves_subscriptions_made_with_the_old_one_alone(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(push_hub())
    admin = admin_of(hub)
    ann, path = client_of(hub, "ann"), "/v1/hubs/acme/push/key"
    old = (await ann("GET", path)).json
    async with BrowserService() as service:
        await register(hub, "ann", service.browser("/old"))
        new = (await admin("POST", f"{HUB}/push/keys")).json
        assert new["id"] != old["id"]
        assert (await ann("GET", path)).json == new
        await register(hub, "ann", service.browser("/new"))
        late = {"platform": "webpush", "token": service.browser("/late").subscription}
        assert (await ann("PUT", TOKENS, {**late, "vapidKey": old["id"]})).status == 200
        assert (await ann("PUT", TOKENS, {**late, "vapidKey": "unknown"})).status == 400
        for path_of in ("/old", "/late"):  # refreshed without a word of the key
            await register(hub, "ann", service.browser(path_of))
        await admin("POST", f"{HUB}/push", {"users": ["ann"], "title": "t"})
        await settled(hub)
        used = {each.path: each.headers["authorization"] for each in service.received}
        assert old["key"] in used["/old"]
        assert old["key"] in used["/late"]
        assert new["key"] in used["/new"]
        listed = (await admin("GET", f"{HUB}/push/credentials")).json["items"]
        assert {each["name"] for each in listed} == {old["id"], new["id"]}
        assert (await admin("DELETE", f"{HUB}/push/keys/{old['id']}")).status == 204
        service.received.clear()
        await admin("POST", f"{HUB}/push", {"users": ["ann"], "title": "t"})
        await settled(hub)
        assert [each.path for each in service.received] == ["/new"]


async def test_a_token_of_another_tenant_stays_there(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub(), HubConfiguration("other", push_hub().settings))
    async with BrowserService() as service:
        browser = service.browser()
        await register(hub, "ann", browser)
        other = client_of(hub, "ann", "other")
        body = {"platform": "webpush", "token": browser.subscription}
        assert (await other("PUT", "/v1/hubs/other/push-tokens", body)).status == 200
        assert (await other("GET", TOKENS)).status == 401
        await admin_of(hub)("POST", "/v1/admin/hubs/other/push", {"users": ["ann"], "title": "t"})
        await settled(hub)
        assert len(service.received) == 1
        own = (await client_of(hub)("GET", "/v1/hubs/acme/push/key")).json["key"]
        assert own not in service.received[0].headers["authorization"]
        await other(
            "DELETE",
            f"/v1/hubs/other/push-tokens/webpush/{token_hash('webpush', browser.endpoint)}",
        )
        assert len((await client_of(hub, "ann")("GET", TOKENS)).json["items"]) == 1


async def test_erasing_a_user_erases_devices_and_followings(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub())
    async with BrowserService() as service:
        await register(hub, "ann", service.browser())
    await client_of(hub, "ann")("PUT", "/v1/hubs/acme/push-subscriptions/news")
    erased = (await admin_of(hub)("DELETE", f"{HUB}/users/ann")).json
    assert (erased["pushTokens"], erased["pushSubscriptions"]) == (1, 1)
    assert (await client_of(hub, "ann")("GET", TOKENS)).json == {"items": []}
    listed = await client_of(hub, "ann")("GET", "/v1/hubs/acme/push-subscriptions")
    assert listed.json == {"items": []}


@pytest.mark.spec("SEC-03", "devices")
async def test_a_device_is_dropped_with_its_users_tokens_until_it_is_registered_again(
    start_hub: StartHub,
) -> None:
    """A phone that was stolen: whoever has it is told nothing more."""
    hub = await start_hub(push_hub(user_channel=True))
    async with BrowserService() as service:
        browsers = {user: service.browser(f"/{user}") for user in ("ann", "eve")}
        for user, browser in browsers.items():
            await register(hub, user, browser)
        send = service_of(hub)

        async def told() -> list[str]:
            service.received.clear()
            for user in browsers:
                path = f"/v1/hubs/acme/channels/u:{user}/messages?push=true"
                given = {"Authorization": f"Bearer {send.token}"}
                async with hub.http.post(path, json={"a": 1}, headers=given) as answer:
                    assert answer.status == 200
            await settled(hub)
            return sorted(each.path for each in service.received)

        assert await told() == ["/ann", "/eve"]
        revoked = await send("POST", f"{HUB}/revocations", {"kind": "user", "subject": "ann"})
        assert revoked.status < 300, revoked.json
        assert await told() == ["/eve"]
        assert (await send("GET", f"{HUB}/users/ann/push-tokens")).json == {"items": []}
        await register(hub, "ann", browsers["ann"])
        assert await told() == ["/ann", "/eve"]


async def test_who_may_follow(start_hub: StartHub) -> None:
    closed = Rules(push=True)
    hub = await start_hub(push_hub(closed))
    path = "/v1/hubs/acme/push-subscriptions"
    ann = client_of(hub, "ann")
    for channel, code in (("news", "not_permitted"), ("notification:x", "wrong_channel_kind")):
        assert (await ann("PUT", f"{path}/{channel}")).code == code
    ann.token = hub.token("ann", grants=(Grant("news", subscribe=True),))
    assert (await ann("PUT", f"{path}/news")).status == 200
    service = service_of(hub)
    assert (await service("PUT", f"{HUB}/users/eve/push-subscriptions/news")).status == 200
    listed = (await service("GET", f"{HUB}/users/eve/push-subscriptions")).json["items"]
    assert [each["channel"] for each in listed] == ["news"]
    nobody = client_of(hub)
    nobody.token = hub.token(None, level=Level.SERVICE)
    assert (await nobody("PUT", f"{path}/news")).status == 400


async def test_a_user_who_authenticates_with_less_follows_less(start_hub: StartHub) -> None:
    hub = await start_hub(push_hub(Rules(push=True)))
    path = "/v1/hubs/acme/push-subscriptions"
    ann = client_of(hub, "ann")
    both = (Grant("news", subscribe=True), Grant("sports", subscribe=True))
    ann.token = hub.token("ann", grants=both)
    for channel in ("news", "sports"):
        assert (await ann("PUT", f"{path}/{channel}")).status == 200
    await hub.socket(token=hub.token("ann", grants=both[:1]))

    async def left() -> list[str]:
        return [each["channel"] for each in (await ann("GET", path)).json["items"]]

    async with asyncio.timeout(10):
        while await left() != ["news"]:
            await asyncio.sleep(0.01)
