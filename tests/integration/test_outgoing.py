"""What hubs send out: where to, with whose secrets, and that one hub's requests never hold up
another's."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.admin import Caller
from harness.auth_provider import AuthProviderServer, auth_provider
from harness.auth_provider import saying as verdict
from harness.receivers import Received, Receiver, Reply, whole_answer
from harness.running_hub import RunningHub, StartHub, open_hub
from harness.service import ServiceServer, running_service
from harness.webhooks import STORED
from hubbub.domain.permissions import Identity, Level
from hubbub.domain.rules import AuthProvider, HubConfiguration, RpcRoute, TrustedIssuer

ANSWER_SECONDS = 20.0
TEST_KEY = Ed25519PrivateKey.generate()
PRIVATE = ("http://127.0.0.1:1/", "http://10.1.2.3/", "http://169.254.169.254/", "http://[::1]/")


@pytest.fixture
async def service() -> AsyncIterator[ServiceServer]:
    async with running_service() as running:
        yield running


@pytest.fixture
async def provider() -> AsyncIterator[AuthProviderServer]:
    async with auth_provider() as running:
        yield running


def service_of(hub: RunningHub, name: str = "acme") -> Caller:
    return Caller(hub, hub.token("tenant", hub=name, level=Level.SERVICE))


def operator_of(hub: RunningHub) -> Caller:
    return Caller(hub, hub.token("root", hub="*", level=Level.ADMIN))


async def call(hub: RunningHub, method: str, name: str = "acme") -> tuple[int, Any]:
    token = hub.server.tokens.issue(name, Identity(user_id="ann", rpcs=("*",)), 600)
    headers = {"Authorization": f"Bearer {token}"}
    url = f"/v1/hubs/{name}/rpc/{method}"
    async with hub.http.post(url, data=b"x", headers=headers) as answer:
        return answer.status, await answer.json(content_type=None) if answer.status != 200 else None


def code(answer: Any) -> str:
    return str(answer.json["error"]["code"])


# -- where to -------------------------------------------------------------------------------------


@pytest.mark.spec("SEC-04")
@pytest.mark.parametrize("setting", [{"callbackAddresses": "private"}, {"natsSubjects": ["blue"]}])
async def test_only_an_operator_decides_what_a_hub_reaches(
    start_hub: StartHub, setting: dict[str, Any]
) -> None:
    hub = await start_hub(open_hub())
    path = "/v1/admin/hubs/acme/settings"
    refused = await service_of(hub)("PUT", path, setting)
    assert (refused.status, code(refused)) == (403, "not_permitted")
    of_one_hub = Caller(hub, hub.token("boss", level=Level.ADMIN))
    assert (await of_one_hub("PUT", path, setting)).status == 403
    assert (await operator_of(hub)("PUT", path, setting)).status == 200
    kept = {**setting, "allowAnonymous": True}
    assert (await service_of(hub)("PUT", path, kept)).status == 200


@pytest.mark.spec("SEC-04")
@pytest.mark.parametrize("url", PRIVATE)
async def test_a_service_token_cannot_have_the_hub_ask_at_private_addresses(
    start_hub: StartHub, url: str
) -> None:
    hub = await start_hub(open_hub())
    tenant = service_of(hub)
    issuer = {"issuer": "i", "audience": "a", "jwksUrl": url.replace("http:", "https:")}
    for path, body in (
        ("rpc-routes/r", {"method": "a.*", "url": url}),
        ("auth-providers/p", {"url": url}),
        ("settings", {"trustedIssuers": [issuer]}),
    ):
        refused = await tenant("PUT", f"/v1/admin/hubs/acme/{path}", body)
        assert (refused.status, code(refused)) == (403, "not_permitted"), path
    for path, body in (
        ("rpc-routes/r", {"method": "a.*", "url": url, "addresses": "private"}),
        ("auth-providers/p", {"url": url, "addresses": "private"}),
        ("settings", {"trustedIssuers": [{**issuer, "addresses": "private"}]}),
    ):
        assert (await tenant("PUT", f"/v1/admin/hubs/acme/{path}", body)).status == 403, path


@pytest.mark.spec("SEC-04")
async def test_an_operator_can_allow_a_private_address_for_one_route(
    start_hub: StartHub, service: ServiceServer
) -> None:
    hub = await start_hub(open_hub())
    path = "/v1/admin/hubs/acme/rpc-routes/r"
    route = {"method": "a.*", "url": service.url, "addresses": "loopback"}
    assert (await operator_of(hub)("PUT", path, route)).status == 201
    assert (await call(hub, "a.b"))[0] == 200
    tenant = service_of(hub)
    assert (await tenant("PUT", path, {**route, "timeoutSeconds": 3})).status == 200
    elsewhere = {**route, "url": service.url.replace("/calls", "/other")}
    assert (await tenant("PUT", path, elsewhere)).status == 403
    metadata = {**route, "url": "http://169.254.169.254/", "addresses": "private"}
    assert (await operator_of(hub)("PUT", path, metadata)).status == 403


@pytest.mark.spec("SEC-04")
async def test_addresses_are_checked_again_whenever_a_connection_is_made(
    start_hub: StartHub,
    service: ServiceServer,
    provider: AuthProviderServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that was public when it was set, and is not any more."""
    provider.answer = verdict({"success": True, "userID": "ann"})

    def rebound(*_: object, **__: object) -> list[Any]:
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    routes = {"r": RpcRoute("a.*", service.url.replace("127.0.0.1", "r.example"), {}, 5, "public")}
    url = provider.url.replace("127.0.0.1", "p.example")
    providers = {"p": AuthProvider(url, {}, 5, "public")}
    acme = msgspec.structs.replace(
        open_hub(auth_provider="p"), rpc_routes=routes, auth_providers=providers
    )
    hub = await start_hub(acme)
    status, answer = await call(hub, "a.b")
    assert (status, answer["error"]["code"]) == (503, "service_unavailable")
    client = await hub.socket()
    await client.send("Auth", reqID=1, credentials={"text": "x"})
    assert (await client.find("Auth"))["error"]["code"] == "auth_provider_failed"
    assert not service.calls
    assert not provider.requests


# -- secrets --------------------------------------------------------------------------------------


@pytest.mark.spec("SEC-04")
@pytest.mark.parametrize("path", ["rpc-routes/r", "auth-providers/p"])
async def test_a_secret_is_not_sent_to_another_address_than_it_was_given_for(
    start_hub: StartHub, path: str
) -> None:
    hub = await start_hub(open_hub())
    where = f"/v1/admin/hubs/acme/{path}"
    value = {"url": "https://pay.example/a", "headers": {"X-Key": "k", "X-Other": "o"}}
    if path.startswith("rpc"):
        value["method"] = "pay.*"
    assert (await operator_of(hub)("PUT", where, value)).status == 201
    tenant = service_of(hub)
    shown = (await tenant("GET", where)).json
    for url in ("https://evil.example/a", "https://pay.example/b", "http://pay.example/a"):
        refused = await tenant("PUT", where, {**shown, "url": url})
        assert (refused.status, code(refused)) == (400, "secret_needed")
    mixed = {
        **shown,
        "url": "https://new.example/",
        "headers": {"X-Key": "n", "X-Other": "(hidden)"},
    }
    assert code(await tenant("PUT", where, mixed)) == "secret_needed"
    assert code(await tenant("PUT", f"{where}2", shown)) == "secret_needed"
    given = {**mixed, "headers": {"X-Key": "n"}}
    assert (await tenant("PUT", where, given)).status == 200
    assert (await tenant("PUT", where, {**given, "headers": {"X-Key": "(hidden)"}})).status == 200


# -- NATS -----------------------------------------------------------------------------------------


@pytest.mark.spec("SEC-02")
@pytest.mark.parametrize(
    "subject",
    [
        *("hubbub.rpc.blue.pay", "hubbub.streams.blue.clicks", "hubbub.admin.publish", "hubbub"),
        *("$JS.API.STREAM.PURGE.hubbub_streams", "$SYS.REQ.SERVER.PING", "billing.pay", "blue"),
        *("_INBOX.x", "hubbub.rpc.acmes.x", "greenish.pay", "green.$JS.x"),
    ],
)
@pytest.mark.parametrize("level", [Level.SERVICE, Level.ADMIN])
async def test_a_subject_of_others_is_refused(
    start_hub: StartHub, subject: str, level: Level
) -> None:
    hub = await start_hub(open_hub(nats_subjects=("green",)))
    caller = Caller(hub, hub.token("eve", hub="*" if level is Level.ADMIN else "acme", level=level))
    for path, body in (
        ("rpc-routes/r", {"method": "a.*", "url": f"nats:{subject}"}),
        ("auth-providers/p", {"url": f"nats:{subject}"}),
    ):
        refused = await caller("PUT", f"/v1/admin/hubs/acme/{path}", body)
        assert refused.status in (400, 403)
        assert code(refused) in ("bad_request", "subject_not_permitted")


@pytest.mark.spec("SEC-02")
@pytest.mark.parametrize("subject", ["green", "green.pay", "hubbub.rpc.acme.x", "hubbub.auth.acme"])
async def test_a_hub_has_the_subjects_of_its_name_and_those_that_it_was_given(
    start_hub: StartHub, subject: str
) -> None:
    hub = await start_hub(open_hub(nats_subjects=("green",)))
    route = {"method": "a.*", "url": f"nats:{subject}"}
    made = await service_of(hub)("PUT", "/v1/admin/hubs/acme/rpc-routes/r", route)
    assert made.status == 201


@pytest.mark.spec("SEC-02")
@pytest.mark.parametrize("subject", ["hubbub.rpc.blue.pay", "$JS.API.STREAM.PURGE.x", "a.*"])
async def test_a_route_that_was_stored_earlier_is_checked_when_it_is_used(
    start_hub: StartHub, subject: str
) -> None:
    route = RpcRoute("a.*", f"nats:{subject}")
    acme = msgspec.structs.replace(open_hub(), rpc_routes={"r": route})
    hub = await start_hub(acme)
    status, answer = await call(hub, "a.b")
    assert (status, answer["error"]["code"]) == (403, "subject_not_permitted")


# -- one tenant and another -----------------------------------------------------------------------


def stored(name: str) -> HubConfiguration:
    return open_hub(name, STORED, callback_addresses="loopback")


@pytest.mark.spec("SEC-01", "SEC-02")
async def test_failing_webhooks_of_one_hub_do_not_stop_anothers_at_the_same_address(
    start_hub: StartHub,
) -> None:
    hub = await start_hub(
        stored("red"), stored("blue"), webhooks__breakerFailures=2, webhooks__firstRetry=600
    )

    def respond(request: Received) -> Reply:
        return whole_answer(500 if request.target.startswith("/red") else 200)

    async with Receiver(respond) as receiver:
        for name, callbacks in (("red", 3), ("blue", 1)):
            for number in range(callbacks):
                wanted = {"channel": "news", "callback": f"{receiver.url}/{name}/{number}"}
                made = await service_of(hub, name)("POST", f"/v1/hubs/{name}/webhooks", wanted)
                assert made.status == 201, made.json
        async with asyncio.timeout(ANSWER_SECONDS):
            await publish(hub, "red")
            while not hub.server.driver.outgoing.open_breakers():
                await asyncio.sleep(0.01)
            await publish(hub, "blue")
            while not any(each.target.startswith("/blue") for each in receiver.received):
                await asyncio.sleep(0.01)


async def publish(hub: RunningHub, name: str) -> None:
    url = f"/v1/hubs/{name}/channels/news/messages"
    async with hub.http.post(url, data=b"x") as answer:
        assert answer.status in (200, 201, 202), await answer.text()


@pytest.mark.spec("SEC-01", "SEC-02")
async def test_hanging_calls_of_one_hub_do_not_fail_anothers(
    start_hub: StartHub, service: ServiceServer
) -> None:
    async with running_service() as hanging:
        hanging.answer = hanging.hang
        red = msgspec.structs.replace(
            open_hub("red"), rpc_routes={"r": RpcRoute("a.*", hanging.url, {}, 60.0)}
        )
        blue = msgspec.structs.replace(
            open_hub("blue"), rpc_routes={"r": RpcRoute("a.*", service.url, {}, 10.0)}
        )
        hub = await start_hub(red, blue)
        url = f"http://{hub.address}"
        async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as many:
            token = hub.server.tokens.issue("red", Identity(user_id="eve", rpcs=("*",)), 600)
            headers = {"Authorization": f"Bearer {token}"}
            calls = [
                asyncio.ensure_future(many.post("/v1/hubs/red/rpc/a.b", data=b"x", headers=headers))
                for _ in range(250)
            ]
            async with asyncio.timeout(ANSWER_SECONDS):
                while len(hanging.calls) < 100:
                    await asyncio.sleep(0.01)
                for _ in range(3):
                    assert (await call(hub, "a.b", "blue"))[0] == 200
            hanging.released.set()
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.spec("SEC-01", "SEC-02")
async def test_an_issuer_that_hangs_does_not_fail_others_nor_the_administration(
    start_hub: StartHub,
) -> None:
    async with running_service() as hanging:
        hanging.answer = hanging.hang
        issuers = (TrustedIssuer("i", "a", hanging.url),)
        hub = await start_hub(open_hub("red", trusted_issuers=issuers), open_hub("blue"))

        claims = {"iss": "i", "aud": "a", "sub": "eve", "exp": 4_000_000_000}
        foreign = jwt.encode(claims, TEST_KEY, algorithm="EdDSA", headers={"kid": "k"})
        url = f"http://{hub.address}"
        async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as many:
            headers = {"Authorization": f"Bearer {foreign}"}
            requests = [
                asyncio.ensure_future(many.get("/v1/admin/hubs/red/rules", headers=headers))
                for _ in range(200)
            ]
            async with asyncio.timeout(ANSWER_SECONDS):
                while not hanging.calls:
                    await asyncio.sleep(0.01)
                refused = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
                assert {each.result().status for each in refused[0]} <= {502, 503}
                assert (await operator_of(hub)("GET", "/v1/admin/hubs")).status == 200
                assert (
                    await service_of(hub, "blue")("GET", "/v1/admin/hubs/blue/rules")
                ).status == 200
            assert len(hanging.calls) == 1
            hanging.released.set()
            for each in requests:
                each.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
