"""Hubs that nobody declared: made by use or by a service, from a template of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats import connect

from harness.clock import FakeClock
from harness.nats import nats_server
from harness.running_hub import RunningHub, StartHub, open_hub
from hubbub.domain.permissions import Level
from hubbub.server.nats_server import USER
from hubbub.server.settings import SettingsError, load

pytestmark = pytest.mark.spec("LIVE-23")

OPEN_RULES = {"public": True, "clientPublish": True, "allowAnonymous": True}
TEMPLATE: dict[str, Any] = {
    "settings": {"allowAnonymous": True, "defaultRules": "open", "quotas": {"sessions": 2}},
    "rules": {"open": OPEN_RULES, "seen": {**OPEN_RULES, "presence": True}},
    "namespaces": {"room": "seen"},
}
CLOSED = {"rules": {"open": OPEN_RULES}}


def service(hub: RunningHub) -> dict[str, str]:
    """The headers of a service of all hubs."""
    token = hub.token("onboarding", "*", Level.SERVICE)
    return {"Authorization": f"Bearer {token}"}


async def created(hub: RunningHub, name: str, **settings: Any) -> tuple[int, dict[str, Any]]:
    body = {"hub": name, **({"settings": settings} if settings else {})}
    async with hub.http.post("/v1/admin/hubs", json=body, headers=service(hub)) as answer:
        return answer.status, await answer.json()


async def put(hub: RunningHub, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    async with hub.http.put(f"/v1/admin/hubs/{path}", json=body, headers=service(hub)) as answer:
        return answer.status, await answer.json()


async def test_a_hub_comes_into_being_by_use_with_the_rules_of_the_template(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(engine__allowDynamicHubs=True, dynamicHubs=TEMPLATE)
    socket = await hub.socket(hub="caf%C3%A9%201")
    assert (await socket.subscribe("news"))["subscribedChannels"] == ["news"]
    assert (await socket.publish("news", {"json": 1}))["success"]
    await socket.subscribe("room:tea")
    assert await socket.find("Presence"), "the namespace has its rules"
    await hub.socket(hub="caf%C3%A9%201")
    third = await hub.raw_socket("caf%C3%A9%201")
    assert (await third.find("Disconnect"))["code"] == "quota_exceeded"


async def test_a_changed_setting_keeps_the_rest_of_the_template(start_hub: StartHub) -> None:
    hub = await start_hub(engine__allowDynamicHubs=True, dynamicHubs=TEMPLATE)
    changed = {**TEMPLATE["settings"], "userChannel": True}
    status, answer = await put(hub, "cafe/settings", changed)
    assert status == 200, answer
    found = hub.server.directory.get("cafe")
    assert (sorted(found.rules), found.settings.user_channel) == (["open", "seen"], True)
    assert hub.server.directory.is_stored("cafe")


async def test_without_a_provider_the_one_on_nats_is_asked_by_the_encoded_name_of_the_hub(
    start_server: StartHub, tmp_path: Path
) -> None:
    async with nats_server(tmp_path) as nats:
        hub = await start_server(
            engine__allowDynamicHubs=True,
            dynamicHubs=CLOSED,
            broker__host=nats.url,
            broker__user=USER,
            broker__password=nats.password,
        )
        asked: list[str] = []
        provider = await connect(nats.url, user=USER, password=nats.password)

        async def answer(request: Any) -> None:
            asked.append(request.subject)
            await request.respond(b'{"success": true, "userID": "ann"}')

        await provider.subscribe("hubbub.auth.>", cb=answer)
        await provider.flush()
        try:
            socket = await hub.socket(hub="tea.house%20%3E")
            await socket.send("Auth", reqID=1, credentials={"text": "secret"})
            authenticated = await socket.find("Auth")
            assert authenticated["userID"] == "ann", authenticated
            assert asked == ["hubbub.auth.tea%2Ehouse%20%3E"]
        finally:
            await provider.close()


async def test_a_template_names_the_hub_in_the_url_of_its_provider(start_hub: StartHub) -> None:
    template = {
        **CLOSED,
        "settings": {"authProvider": "own"},
        "authProviders": {"own": {"url": "https://auth.example.com/{hub}/login"}},
    }
    hub = await start_hub(engine__allowDynamicHubs=True, dynamicHubs=template)
    provider = hub.server.directory.get("a/../b").auth_provider()
    assert provider is not None
    assert provider.url == "https://auth.example.com/a%2F..%2Fb/login"


async def test_a_service_of_all_hubs_creates_and_configures_hubs(start_hub: StartHub) -> None:
    """Also where strangers cannot."""
    hub = await start_hub(dynamicHubs=TEMPLATE)
    status, made = await created(hub, "cafe")
    assert status == 201, made
    assert made["settings"]["quotas"]["sessions"] == 2
    status, _ = await put(hub, "cafe/rules/quiet", {"public": True, "allowAnonymous": True})
    assert status == 201
    status, _ = await put(hub, "cafe/namespaces/hush", {"rules": "quiet"})
    assert status == 201
    socket = await hub.socket(hub="cafe")
    assert (await socket.subscribe("hush:1"))["subscribedChannels"] == ["hush:1"]
    status, again = await created(hub, "cafe")
    assert (status, again["error"]["code"]) == (409, "conflict")
    assert "exists already" in again["error"]["message"]


async def test_a_service_that_creates_a_hub_stays_within_the_template(start_hub: StartHub) -> None:
    hub = await start_hub(dynamicHubs=TEMPLATE)
    for settings in ({"quotas": {"sessions": 1000}}, {"callbackAddresses": "private"}):
        status, refused = await created(hub, "cafe", **settings)
        assert (status, refused["error"]["code"]) == (403, "not_permitted"), settings
    status, refused = await created(hub, "cafe", defaultRules="nothing")
    assert (status, refused["error"]["code"]) == (409, "conflict")
    assert "cafe" not in hub.server.directory
    status, made = await created(hub, "cafe", userChannel=True)
    assert status == 201
    assert (made["settings"]["userChannel"], made["settings"]["quotas"]["sessions"]) == (True, 2)


async def test_a_service_of_all_hubs_is_no_operator(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), dynamicHubs=TEMPLATE)
    headers = service(hub)
    for method, path in (
        ("DELETE", "/v1/admin/hubs/acme"),
        ("GET", "/v1/admin/hubs"),
        ("GET", "/v1/admin/configuration"),
        ("GET", "/metrics"),
    ):
        async with hub.http.request(method, path, headers=headers) as answer:
            assert answer.status == 403, path
            assert (await answer.json())["error"]["code"] == "not_permitted"
    status, _ = await put(hub, "acme/settings", {"quotas": {"sessions": 9}})
    assert status == 403


async def test_a_service_of_one_hub_creates_none(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub("acme"), dynamicHubs=TEMPLATE)
    headers = {"Authorization": f"Bearer {hub.token('s', 'acme', Level.SERVICE)}"}
    async with hub.http.post("/v1/admin/hubs", json={"hub": "x"}, headers=headers) as answer:
        assert answer.status == 401
    assert "x" not in hub.server.directory


@pytest.mark.spec("SEC-01")
async def test_hubs_in_which_nobody_has_authenticated_are_bounded(start_hub: StartHub) -> None:
    clock = FakeClock()
    hub = await start_hub(
        clock=clock,
        engine__allowDynamicHubs=True,
        engine__maxUnprovenHubs=20,
        dynamicHubs={**TEMPLATE, "settings": {"allowAnonymous": True}},
    )
    first, _ = await hub.socket(hub="one"), await hub.socket(hub="two")
    refused = await hub.raw_socket("three")
    error = await refused.find("Disconnect")
    assert error["code"] == "overloaded"
    assert "three" in error["reason"]
    assert "engine.maxUnprovenHubs" in error["reason"]
    async with hub.http.get("/v1/hubs/four/channels/news/messages") as answer:
        assert answer.status == 503
    await hub.socket()  # a declared hub is as ever
    await first.send("Auth", reqID=1, token=hub.token("ann", "one"))
    assert (await first.find("Auth"))["userID"] == "ann"
    clock.advance(2)
    await hub.socket(hub="three")
    assert len(hub.server.node.unproven) == 2, "one has a user, and no longer counts"
    assert "one" in hub.server.node.hubs


@pytest.mark.spec("SEC-01")
async def test_unused_hubs_of_strangers_give_way_to_others(start_hub: StartHub) -> None:
    clock = FakeClock()
    hub = await start_hub(
        clock=clock, engine__allowDynamicHubs=True, engine__maxUnprovenHubs=20, dynamicHubs=TEMPLATE
    )
    for number in range(30):
        clock.advance(2)
        async with hub.http.get(f"/v1/hubs/h{number}/channels/news/messages") as answer:
            assert answer.status == 200
        assert len(hub.server.node.unproven) <= 2
        assert len(hub.server.node.hubs) <= 3


@pytest.mark.spec("OPS-01")
@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"rule": {}}, "dynamicHubs.rule"),
        ({"settings": {"defaultRules": "none"}}, "dynamicHubs.settings.defaultRules"),
        ({"authProviders": {"a": {"url": "nats:hubbub.auth.acme"}}}, "dynamicHubs.authProviders.a"),
        ({"authProviders": {"a": {"url": "https://{hub}.example"}}}, "dynamicHubs.authProviders.a"),
        ([], "dynamicHubs"),
    ],
)
def test_mistakes_in_the_template_are_named(template: Any, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {"HUBBUB_DYNAMIC_HUBS": msgspec.json.encode(template).decode()})
    assert told in str(caught.value)
