"""Push services that fail: nothing of a channel waits for them, and what can be saved is."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from harness.admin import admin_of, client_of
from harness.push_services import BrowserService, push_hub
from harness.receivers import Received, Reply, whole_answer
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.journal import JournalEvent
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.tokens import PushToken
from hubbub.domain.rules import Quotas
from hubbub.engine.push import driver as driving

pytestmark = pytest.mark.spec("PUSH-01")

HUB = "/v1/admin/hubs/acme"
TOKENS = "/v1/hubs/acme/push-tokens"
FOLLOW = "/v1/hubs/acme/push-subscriptions/news"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "retry_delay", lambda attempt, random, longest_seconds: 0.01)


async def register(hub: RunningHub, service: BrowserService, *users: str) -> None:
    for user in users:
        body = {"platform": "webpush", "token": service.browser(f"/{user}").subscription}
        client = client_of(hub, user)
        assert (await client("PUT", TOKENS, body)).status == 200
        assert (await client("PUT", FOLLOW)).status == 200


async def publish(hub: RunningHub, **options: Any) -> None:
    """Marked `push`; returns when it is acknowledged."""
    socket = await hub.socket(token=hub.token("zoe"))
    extra: Any = {"push": True, "store": True, "pushOptions": {"title": "t", **options}}
    result = await socket.publish("news", {"text": "hi"}, **extra)
    assert result["success"], result


async def idle(hub: RunningHub) -> None:
    """Nothing waits, not for a retry either."""
    async with asyncio.timeout(20):
        while hub.server.push.queues:
            await asyncio.sleep(0.005)


def outcomes(hub: RunningHub) -> dict[str, int]:
    counted = hub.server.push.counters["acme"].outcomes
    return {outcome: count for (_, outcome), count in counted.items()}


async def test_a_service_that_hangs_holds_up_neither_the_channel_nor_other_services(
    start_server: StartHub,
) -> None:
    hub = await start_server(push_hub(), push__timeout=0.3)
    async with BrowserService() as hanging, BrowserService() as well:
        await register(hub, hanging, "ann", "eve")
        await register(hub, well, "kim")
        hanging.hanging = {"/ann", "/eve"}
        reader = await hub.socket()
        await reader.subscribe("news")
        for _ in range(3):
            await publish(hub)
            await reader.find("Publish")
        await well.got(3)
        await idle(hub)
        assert outcomes(hub)["ok"] == 3
        assert outcomes(hub)["dropped"] == 6, "each was given up after its tries"


async def test_what_fails_for_a_while_is_tried_again(start_server: StartHub) -> None:
    hub = await start_server(push_hub())
    async with BrowserService() as service:
        await register(hub, service, "ann")
        answers: list[Reply] = [503, whole_answer(429, retry_after="0"), b"garbage\r\n\r\n", 201]

        def respond(_: Received) -> Reply:
            return answers.pop(0)

        service.respond = respond
        await publish(hub)
        await idle(hub)
        assert answers == []
        assert outcomes(hub) == {"retry": 3, "ok": 1}


@pytest.mark.spec("SEC-03", "pushes that wait")
async def test_a_push_that_waits_is_not_sent_to_who_lost_access_meanwhile(
    start_server: StartHub,
) -> None:
    hub = await start_server(push_hub(), push__tries=100)
    async with BrowserService() as service:
        await register(hub, service, "ann", "eve")
        later = whole_answer(503, retry_after="1")  # no attempt is under way meanwhile
        service.answers = {"/ann": later, "/eve": later}
        await publish(hub)
        await service.got(2)
        assert (await client_of(hub, "eve")("DELETE", FOLLOW)).status == 204
        revoked = {"kind": "user", "subject": "ann"}
        assert (await admin_of(hub)("POST", f"{HUB}/revocations", revoked)).status < 300
        service.received.clear()
        service.answers = {}
        await idle(hub)
        assert service.received == []
        counted = outcomes(hub)
        assert ("ok" in counted, counted["dropped"]) == (False, 2)
        assert hub.server.push.counters["acme"].errors["webpush"].reason == "no_access"


@pytest.mark.spec("PIPE-05", "pushes that wait")
async def test_a_push_that_waits_is_not_sent_when_its_publisher_or_its_receiver_was_erased(
    start_server: StartHub,
) -> None:
    hub = await start_server(push_hub(), push__tries=100)
    admin = admin_of(hub)
    async with BrowserService() as service:
        await register(hub, service, "ann", "eve")
        later = whole_answer(503, retry_after="1")  # no attempt is under way meanwhile
        service.answers = {"/ann": later, "/eve": later}
        await publish(hub)
        assert (
            await admin("POST", f"{HUB}/push", {"users": ["ann", "eve"], "title": "t"})
        ).status < 300
        await service.got(4)
        assert (await admin("DELETE", f"{HUB}/users/zoe")).json["left"] == 0
        assert (await admin("DELETE", f"{HUB}/users/ann")).json["left"] == 0
        service.received.clear()
        service.answers = {}
        await idle(hub)
        assert [each.path for each in service.received] == ["/eve"], "what a service pushed to Eve"
        assert outcomes(hub)["dropped"] == 3


@pytest.mark.spec("PIPE-05", "pushes that wait")
async def test_the_journal_does_not_name_an_erased_user_again_when_a_push_that_waits_is_dropped(
    start_server: StartHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await start_server(push_hub(), push__tries=100, journal__enabled=True)
    async with BrowserService() as service:
        await register(hub, service, "ann")
        service.answers["/ann"] = whole_answer(503, retry_after="1")
        await publish(hub)
        await service.got(1)
        assert (await admin_of(hub)("DELETE", f"{HUB}/users/ann")).json["left"] == 0
        recorded: list[JournalEvent] = []
        monkeypatch.setattr(hub.server.journal, "record", recorded.append)
        hub.server.push.hub_changed("acme")  # who may read is asked again
        await idle(hub)
        assert outcomes(hub)["dropped"] == 1
        assert [each.kind for each in recorded if each.user == "ann"] == []


async def test_five_tries_are_enough_and_none_is_made_after_the_time_to_live(
    start_server: StartHub,
) -> None:
    hub = await start_server(push_hub())
    async with BrowserService() as service:
        await register(hub, service, "ann")
        service.answers["/ann"] = 500
        await publish(hub)
        await idle(hub)
        assert (len(service.received), outcomes(hub)["dropped"]) == (5, 1)
        service.received.clear()
        hub.server.push.counters.clear()
        await publish(hub, ttl=0)
        await idle(hub)
        assert outcomes(hub)["dropped"] == 1
        assert len(service.received) <= 1


async def test_an_endpoint_that_turns_out_to_be_private_gets_nothing(
    start_server: StartHub,
) -> None:
    """The name is looked up again for each connection: it may lead elsewhere by then."""
    hub = await start_server(push_hub(callback_addresses="public"))
    async with BrowserService() as service:
        browser = service.browser()
        body = {"platform": "webpush", "token": browser.subscription}
        assert (await client_of(hub)("PUT", TOKENS, body)).status == 400
        key = await hub.server.push_credentials.vapid_key("acme")
        public = browser.private.public_key().public_numbers()
        point = b"\x04" + public.x.to_bytes(32, "big") + public.y.to_bytes(32, "big")
        sneaked = PushToken(
            "acme", "ann", "webpush", browser.endpoint, point, browser.auth,
            vapid_key=key.id, registered_at=2**50,
        )  # fmt: skip
        await hub.server.store.save_push_token(sneaked)
        hub.server.push.push("acme", ["ann"], PushOptions(title="t"))
        await idle(hub)
        assert (service.received, outcomes(hub)) == ([], {"refused": 1})


async def test_what_the_service_calls_too_large_or_wrong_is_dropped(start_server: StartHub) -> None:
    hub = await start_server(push_hub())
    async with BrowserService() as service:
        await register(hub, service, "ann", "eve")
        service.answers = {"/ann": 413, "/eve": 302}
        await publish(hub)
        await idle(hub)
        assert outcomes(hub) == {"refused": 2}
        assert len((await client_of(hub, "ann")("GET", TOKENS)).json["items"]) == 1


async def test_a_token_gets_thirty_pushes_a_minute(start_server: StartHub) -> None:
    hub = await start_server(push_hub())
    async with BrowserService() as service:
        await register(hub, service, "ann")
        for _ in range(35):
            hub.server.push.push("acme", ["ann"], PushOptions(title="t"))
        await idle(hub)
        assert outcomes(hub) == {"ok": 30, "dropped": 5}


async def test_a_full_queue_drops_and_counts(start_server: StartHub) -> None:
    hub = await start_server(push_hub(), push__queue=5, push__perTokenPerMinute=0)
    async with BrowserService() as service:
        await register(hub, service, "ann")
        for _ in range(50):
            hub.server.push.push("acme", ["ann"], PushOptions(title="t"))
        await idle(hub)
        assert hub.server.push.counters["acme"].overflowed == 45
        assert outcomes(hub) == {"ok": 5}
        assert "hubbub_push_overflows_total" in await hub.metrics()


async def test_an_audience_may_be_larger_than_the_queue(start_server: StartHub) -> None:
    hub = await start_server(push_hub(), push__queue=4, push__perTokenPerMinute=0)
    async with BrowserService() as service:
        await register(hub, service, *(f"u{number}" for number in range(30)))
        await publish(hub)
        await idle(hub)
        assert (outcomes(hub), len(service.received)) == ({"ok": 30}, 30)


async def test_the_quota_of_a_hub_paces_its_pushes(start_server: StartHub) -> None:
    hub = await start_server(push_hub(quotas=Quotas(pushes_per_second=20)))
    async with BrowserService() as service:
        await register(hub, service, "ann")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(30):
            hub.server.push.push("acme", ["ann"], PushOptions(title="t"))
        await idle(hub)
        assert outcomes(hub) == {"ok": 30}
        assert loop.time() - began > 0.4


async def test_a_service_that_is_away_is_left_alone_for_a_while(start_server: StartHub) -> None:
    hub = await start_server(push_hub(), push__perTokenPerMinute=0)
    async with BrowserService() as service:
        await register(hub, service, "ann")
        service.answers["/ann"] = 503
        for _ in range(40):
            hub.server.push.push("acme", ["ann"], PushOptions(title="t"))
        await idle(hub)
        assert outcomes(hub)["dropped"] == 40
        assert len(service.received) < 150, "200 tries, of which the breaker spared many"


async def test_tokens_that_were_not_refreshed_are_passed_over(start_server: StartHub) -> None:
    hub = await start_server(push_hub())
    async with BrowserService() as service:
        await register(hub, service, "ann")
        (token,) = await hub.server.store.read_push_tokens("acme", ["ann"])
        old = msgspec.structs.replace(token, registered_at=1)
        await hub.server.store.save_push_token(old)
        await publish(hub)
        await idle(hub)
        assert service.received == []
        await register(hub, service, "ann")
        await publish(hub)
        await idle(hub)
        assert len(service.received) == 1


async def test_options_that_are_none_are_refused_by_name(hub: RunningHub) -> None:
    socket = await hub.socket()
    extra: Any = {"push": True, "pushOptions": {"titel": "t"}}
    result = await socket.publish("news", {"text": "hi"}, **extra)
    assert (result["success"], result["error"]["code"]) == (False, "invalid_attribute")
    assert "titel" in result["error"]["message"]
    answer = await admin_of(hub)("POST", f"{HUB}/push", {"users": ["ann"], "ttl": -1})
    assert answer.status == 400
