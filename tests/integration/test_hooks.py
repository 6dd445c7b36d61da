"""Hooks: an endpoint of the tenant is asked before a client subscribes or publishes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from aiohttp import web

from harness.admin import Caller
from harness.running_hub import OPEN, RunningHub, StartHub, open_hub
from harness.service import ServiceServer, running_service, saying
from hubbub.client import HookFailed, NotPermitted, connect
from hubbub.domain.permissions import Level
from hubbub.domain.rules import RpcRoute
from hubbub.engine.services import consent

pytestmark = pytest.mark.spec("LIVE-21")

HOOKED = msgspec.structs.replace(
    OPEN, subscribe_hook="may", publish_hook="may", presence=True, store=True
)
ALLOW = saying(200, b'{"allow": true}')


@pytest.fixture
async def service() -> AsyncIterator[ServiceServer]:
    async with running_service() as running:
        running.answer = ALLOW
        yield running


@pytest.fixture
async def hub(start_hub: StartHub, service: ServiceServer) -> RunningHub:
    routes = {"hooks": RpcRoute("may", service.url, {"X-Key": "k"}, 2)}
    settings = open_hub(
        namespaces={"safe": HOOKED, "notification": HOOKED}, callback_addresses="loopback"
    )
    return await start_hub(msgspec.structs.replace(settings, rpc_routes=routes))


def asked(service: ServiceServer) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in service.calls]


async def test_a_hook_learns_who_wants_what_and_its_word_holds(
    hub: RunningHub, service: ServiceServer
) -> None:
    socket = await hub.socket(token=hub.token("ann"))
    assert (await socket.subscribe("safe:1", "open:1"))["subscribedChannels"] == [
        "safe:1",
        "open:1",
    ]
    assert (await socket.publish("safe:1", {"json": {"n": 1}}, "greeting"))["success"]
    first, second = asked(service)
    session = first.pop("sessionID")
    assert first == {"action": "subscribe", "hub": "acme", "channel": "safe:1", "userID": "ann"}
    assert second == {
        "action": "publish", "hub": "acme", "channel": "safe:1", "userID": "ann",
        "sessionID": session, "event": "greeting", "contentType": "application/json", "bytes": 8,
        "payload": {"n": 1},
    }  # fmt: skip
    assert service.calls[0][0]["X-Key"] == "k"
    service.answer = saying(200, b'{"allow": false, "reason": "it is late"}')
    (failure,) = (await socket.subscribe("safe:2"))["failures"]
    assert failure["error"]["code"] == "not_permitted"
    assert failure["error"]["message"].endswith(": it is late")
    refused = await socket.publish("safe:1", {"json": 2})
    assert refused["error"]["code"] == "not_permitted"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (saying(403, b"no"), "not_permitted"),
        (saying(500), "hook_failed"),
        (saying(200, b"yes"), "hook_failed"),
        (saying(200, b'{"allow": "yes"}'), "hook_failed"),
        (saying(200, b'{"allow": true, "more": ' + b"[" * 5000), "hook_failed"),
        (None, "hook_failed"),
    ],
    ids=["403", "500", "no JSON", "another type", "deep", "no answer"],
)
async def test_without_a_clear_yes_nobody_gets_in(
    hub: RunningHub, service: ServiceServer, answer: Any, code: str
) -> None:
    service.answer = answer or service.hang
    socket = await hub.socket(token=hub.token("ann"))
    (failure,) = (await socket.subscribe("safe:1"))["failures"]
    assert failure["error"]["code"] == code
    assert (await socket.publish("safe:1", {"json": 1}))["error"]["code"] == code


async def test_every_door_asks_and_services_need_not(
    hub: RunningHub, service: ServiceServer
) -> None:
    service.answer = saying(200, b'{"allow": false}')
    caller = Caller(hub, hub.token("ann"))
    path = "/v1/hubs/acme/channels/safe:1"
    for method, where, body in (
        ("GET", f"{path}/messages", None),
        ("POST", f"{path}/messages", {"n": 1}),
        ("GET", f"{path}/presence", None),
        ("GET", f"{path}/threads", None),
        ("GET", "/v1/hubs/acme/channels/notification:1/notifications", None),
        ("GET", "/v1/hubs/acme/channels/doc:1/document", None),
        ("PUT", "/v1/hubs/acme/topics/safe:1/subscriptions/mine", {}),
        ("POST", "/v1/hubs/acme/topics/safe:1/messages", {"n": 1}),
        ("POST", "/v1/hubs/acme/webhooks",
         {"channel": "safe:1", "callback": "http://127.0.0.1:9/"}),
    ):  # fmt: skip
        before = len(service.calls)
        reply = await caller(method, where, body)
        if "doc:" not in where:  # its rules have no hook
            assert (reply.status, reply.code) == (403, "not_permitted"), (where, reply.text)
            assert len(service.calls) == before + 1
    query = {"channel": "safe:1"}
    async with hub.http.get("/v1/hubs/acme/events", params=query) as stream:
        assert b"not_permitted" in await stream.content.read()
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        with pytest.raises(NotPermitted):
            await client.topics.put("safe:1", 1)
        with pytest.raises(NotPermitted):
            await client.publish("safe:1", 1)
    before = len(service.calls)
    trusted = Caller(hub, hub.token("shop", level=Level.SERVICE))
    assert (await trusted("POST", f"{path}/messages", {"n": 1})).status == 200
    assert len(service.calls) == before


async def test_who_makes_a_topic_by_use_does_not_pass_its_hook(
    start_hub: StartHub, service: ServiceServer
) -> None:
    routes = {"hooks": RpcRoute("may", service.url, timeout_seconds=2)}
    made = open_hub(topic_rules="topics", callback_addresses="loopback")
    rules = {**made.rules, "topics": HOOKED}
    hub = await start_hub(msgspec.structs.replace(made, rules=rules, rpc_routes=routes))
    service.answer = saying(200, b'{"allow": false}')
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        with pytest.raises(NotPermitted):
            await client.topics.put("new", 1)
    caller = Caller(hub, hub.token("ann"))
    hook = {"channel": "hooked", "callback": "http://127.0.0.1:9/"}
    for method, path, body in (
        ("POST", "/v1/hubs/acme/topics/newer/messages", 1),
        ("PUT", "/v1/hubs/acme/topics/newest/subscriptions/mine", {}),
        ("POST", "/v1/hubs/acme/webhooks", hook),
    ):
        reply = await caller(method, path, body)
        assert (reply.status, reply.code) == (403, "not_permitted"), (path, reply.text)
    assert len(service.calls) == 4


async def test_no_pattern_leads_past_a_hook(hub: RunningHub, service: ServiceServer) -> None:
    watcher = await hub.socket(token=hub.token("ann"))
    await watcher.subscribe("s*")
    trusted = Caller(hub, hub.token("shop", level=Level.SERVICE))
    for channel in ("safe:1", "sold"):
        assert (
            await trusted("POST", f"/v1/hubs/acme/channels/{channel}/messages", 1)
        ).status == 200
    assert (await watcher.find("Publish"))["channel"] == "sold"
    assert not service.calls


async def test_a_decision_is_remembered_as_long_as_the_answer_says(
    hub: RunningHub, service: ServiceServer
) -> None:
    service.answer = saying(200, b'{"allow": true, "cacheSeconds": 60}')
    ann = await hub.socket(token=hub.token("ann"))
    for number in range(20):
        assert (await ann.publish("safe:1", {"json": number}))["success"]
    assert len(service.calls) == 1
    bob = await hub.socket(token=hub.token("bob"))
    await bob.publish("safe:1", {"json": 1})
    await ann.publish("safe:2", {"json": 1})
    assert len(service.calls) == 3


async def test_a_decision_from_before_a_change_of_settings_is_not_remembered(
    hub: RunningHub, service: ServiceServer
) -> None:
    asked_once, changed = asyncio.Event(), asyncio.Event()

    async def late(_: web.Request) -> web.StreamResponse:
        asked_once.set()
        await changed.wait()
        return web.json_response({"allow": True, "cacheSeconds": 60})

    service.answer = late
    ann = await hub.socket(token=hub.token("ann"))
    publishing = asyncio.ensure_future(ann.publish("safe:1", {"json": 1}))
    await asked_once.wait()
    service.answer = saying(200, b'{"allow": false}')
    trusted = Caller(hub, hub.token("shop", level=Level.SERVICE))
    assert (await trusted("PUT", "/v1/admin/hubs/acme/rules/loud", {"public": True})).status == 201
    changed.set()
    assert (await publishing)["success"]
    assert (await ann.publish("safe:1", {"json": 2}))["error"]["code"] == "not_permitted"


async def test_callers_over_http_without_a_name_share_no_decision(
    hub: RunningHub, service: ServiceServer
) -> None:
    async def polite(request: web.Request) -> web.StreamResponse:
        allow = (await request.json()).get("payload") != "rude"
        return web.json_response({"allow": allow, "cacheSeconds": 60})

    service.answer = polite
    path = "/v1/hubs/acme/channels/safe:1/messages"
    for said, status in (("polite", 200), ("rude", 403), ("polite", 200)):
        async with hub.http.post(path, json=said) as answer:
            assert answer.status == status, said


async def test_messages_keep_their_order_however_hooks_answer(
    hub: RunningHub, service: ServiceServer
) -> None:
    async def slow_first(request: web.Request) -> web.StreamResponse:
        number = (await request.json())["payload"]
        if number % 5 == 0:
            await asyncio.sleep(0.05)
        return web.json_response({"allow": number % 7 != 0})

    service.answer = slow_first
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        publishing = [client.publish("safe:1", number, store=True) for number in range(50)]
        results = await asyncio.gather(*publishing, return_exceptions=True)
    refused = {n: type(each) for n, each in enumerate(results) if isinstance(each, Exception)}
    assert refused == dict.fromkeys(range(0, 50, 7), NotPermitted)
    trusted = Caller(hub, hub.token("shop", level=Level.SERVICE))
    page = (await trusted("GET", "/v1/hubs/acme/channels/safe:1/messages?limit=100")).json
    stored = [each["payload"]["json"] for each in page["messages"]]
    assert stored == [number for number in range(50) if number % 7]


async def test_what_waits_for_a_hook_is_bounded(
    hub: RunningHub, service: ServiceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consent, "MAX_WAITING", 3)
    service.answer = service.hang
    async with connect(f"ws://{hub.address}", hub="acme") as client:
        publishing = [client.publish("safe:1", number) for number in range(10)]
        results = await asyncio.gather(*publishing, return_exceptions=True)
    codes = [getattr(each, "code", "ok") for each in results]
    assert codes.count("overloaded") == 7
    assert sum(isinstance(each, HookFailed) for each in results) == 3
