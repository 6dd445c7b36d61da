"""Who is it? A real auth provider that behaves and misbehaves, and tokens of every wrong kind."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web

from harness.auth_provider import AuthProviderServer, auth_provider, saying, sending
from harness.clock import FakeClock
from harness.raw import RawConnection
from harness.running_hub import RunningHub, Socket, StartHub, open_hub
from hubbub.domain.permissions import Grant, Level
from hubbub.domain.rules import AuthProvider, HubConfiguration, Rules

ANN = {"success": True, "userID": "ann"}
WITH_GRANTS = {
    **ANN,
    "extra": {"name": "Ann"},
    "channels": [{"channel": "room:*", "publish": True, "subscribe": True}],
    "rpcs": ["cart.*"],
}


@pytest.fixture
async def provider() -> AsyncIterator[AuthProviderServer]:
    async with auth_provider() as running:
        yield running


def hub_with(url: str, timeout: float = 5.0, **settings: Any) -> HubConfiguration:
    asked = AuthProvider(url, {"X-Api-Key": "k", "Hubbub-Hub": "forged"}, timeout)
    hub = open_hub(namespaces={"room": Rules()}, auth_provider="main", **settings)
    return msgspec.structs.replace(hub, auth_providers={"main": asked})


async def authenticate(socket: Socket, credentials: object = "secret") -> dict[str, Any]:
    await socket.send("Auth", reqID=9, credentials={"json": credentials})
    return await socket.find("Auth")


# -- the provider -------------------------------------------------------------------------------


@pytest.mark.spec("LIVE-06")
async def test_the_provider_gets_the_credentials_untouched_and_decides_what_is_allowed(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    provider.answer = saying(WITH_GRANTS)
    hub = await start_hub(hub_with(provider.url, allow_anonymous=False))
    socket = await hub.raw_socket()
    session_id = (await socket.expect("SessionInfo"))["sessionID"]
    answer = await authenticate(socket, {"password": "geheim"})
    assert answer["success"] is True
    assert (answer["reqID"], answer["userID"]) == (9, "ann")
    assert answer["extra"] == {"name": "Ann"}
    assert answer["rpcAuthorizations"] == ["cart.*"]
    assert answer["channelAuthorizations"] == [
        {"channel": "room:*", "publish": True, "subscribe": True}
    ]
    ((headers, body),) = provider.requests
    assert json.loads(body) == {"password": "geheim"}
    assert headers["Hubbub-Hub"] == "acme"  # configured headers cannot forge it
    assert headers["Hubbub-Session"] == session_id
    assert headers["X-Api-Key"] == "k"
    assert (await socket.subscribe("room:1"))["subscribedChannels"] == ["room:1"]
    assert (await socket.publish("room:1", {"json": 1}))["success"]


@pytest.mark.spec("LIVE-06", "LIVE-07")
async def test_a_publish_is_decided_by_the_channel_and_by_whom_the_session_is_now(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    hub = await start_hub(hub_with(provider.url))
    socket = await hub.socket()

    async def may_publish(channel: str) -> bool:
        return bool((await socket.publish(channel, {"json": 1})).get("success"))

    for mine, other in (("room:a", "room:b"), ("room:b", "room:a")):
        provider.answer = saying({**WITH_GRANTS, "channels": [{"channel": mine, "publish": True}]})
        assert (await authenticate(socket))["success"] is True
        for _ in range(2):
            assert await may_publish(mine)
            assert not await may_publish(other)


@pytest.mark.spec("LIVE-06")
async def test_the_token_of_the_reply_opens_the_http_api_and_later_connections(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    provider.answer = saying(WITH_GRANTS)
    hub = await start_hub(hub_with(provider.url, allow_anonymous=False))
    token = (await authenticate(await hub.socket()))["token"]
    path = "/v1/hubs/acme/channels/room:1/messages"
    async with hub.http.post(path, data="x") as refused:
        assert refused.status == 401
    async with hub.http.post(path, data="x", headers={"Authorization": f"Bearer {token}"}) as sent:
        assert sent.status == 200
    later = await hub.socket(token=token)
    assert (await later.subscribe("room:2"))["subscribedChannels"] == ["room:2"]


@pytest.mark.spec("LIVE-06")
async def test_credentials_are_exchanged_for_a_token_over_http(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    """For clients that reach the hub by HTTP alone."""
    provider.answer = saying(WITH_GRANTS)
    hub = await start_hub(hub_with(provider.url, allow_anonymous=False))
    path, body = "/v1/hubs/acme/token", b'{"password": "geheim"}'
    async with hub.http.post(path, data=body) as answer:
        assert answer.status == 200
        issued = await answer.json()
    assert (issued["userID"], issued["extra"]) == ("ann", {"name": "Ann"})
    ((headers, asked),) = provider.requests
    assert asked == body
    assert headers["Hubbub-Session"].startswith("s")
    bearer = {"Authorization": f"Bearer {issued['token']}"}
    messages = "/v1/hubs/acme/channels/room:1/messages"
    async with hub.http.post(messages, json=1, headers=bearer) as answer:
        assert answer.status == 200

    provider.answer = saying({"success": False, "message": "wrong password"})
    async with hub.http.post(path, data=b"\xff\x00") as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (401, "not_authenticated")
    provider.answer = sending(b"", status=500)
    async with hub.http.post(path, data=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (
            502,
            "auth_provider_failed",
        )
    async with hub.http.post(path, data=b"x" * 20_000) as answer:
        assert answer.status == 413
    asked_before = len(provider.requests)
    async with hub.http.post("/v1/hubs/nowhere/token", data=body) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (401, "not_authenticated")
    assert len(provider.requests) == asked_before


@pytest.mark.spec("LIVE-06")
async def test_what_the_provider_lends_for_a_time_ends_with_it(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    provider.answer = saying({**WITH_GRANTS, "expiresIn": 60})
    hub = await start_hub(hub_with(provider.url))
    answer = await authenticate(await hub.socket())
    assert time.time() + 50 < answer["expiresAt"] <= time.time() + 60
    claims = jwt.decode(answer["token"], options={"verify_signature": False})
    assert claims["exp"] <= answer["expiresAt"]


async def _hang(provider: AuthProviderServer) -> web.StreamResponse:
    await provider.released.wait()
    return web.Response()


def misbehaving(provider: AuthProviderServer) -> dict[str, tuple[Any, str]]:
    async def hang(_: web.Request) -> web.StreamResponse:
        return await _hang(provider)

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"success":')
        return await _hang(provider)

    async def hang_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    failed, refused = "auth_provider_failed", "not_authenticated"
    return {
        "says no": (saying({"success": False, "message": "no such user"}), refused),
        "401": (saying(ANN, 401), refused),
        "403": (saying(ANN, 403), refused),
        "500": (saying(ANN, 500), failed),
        "204": (sending(b"", 204), failed),
        "201": (saying(ANN, 201), failed),
        "redirect": (sending(b"", 302, Location=provider.url), failed),
        "hangs": (hang, failed),
        "stops half way": (drip, failed),
        "hangs up": (hang_up, failed),
        "nothing": (sending(b""), failed),
        "garbage": (sending(b"\xff\x00<html>"), failed),
        "a list": (saying([ANN]), failed),
        "a megabyte": (sending(b'{"success":true,"userID":"ann","x":"' + b"x" * 2**20), failed),
        "a bomb": (sending(b"[" * 60_000), failed),
        "no user": (saying({"success": True}), failed),
        "an empty user": (saying({"success": True, "userID": ""}), failed),
        "a number as user": (saying({"success": True, "userID": 7}), failed),
        "success as text": (saying({"success": "true", "userID": "ann"}), failed),
        "success as number": (saying({"success": 1, "userID": "ann"}), failed),
        "no success": (saying({"userID": "ann"}), failed),
        "channels as text": (saying({**ANN, "channels": "*"}), failed),
        "a grant without pattern": (saying({**ANN, "channels": [{"publish": True}]}), failed),
        "a grant of text": (saying({**ANN, "channels": [{"channel": "*", "publish": 1}]}), failed),
        "extra as list": (saying({**ANN, "extra": []}), failed),
        "an expiry in the past": (saying({**ANN, "expiresIn": -1}), failed),
        "an expiry of zero": (saying({**ANN, "expiresIn": 0}), failed),
        "an expiry beyond numbers": (saying({**ANN, "expiresIn": 1e308}), failed),
        "a name that is none": (saying({**ANN, "userID": "a\nb"}), failed),
        "a name too long": (saying({**ANN, "userID": "a" * 300}), failed),
    }  # fmt: skip


@pytest.mark.spec("LIVE-06", "OPS-03")
async def test_a_provider_that_misbehaves_is_a_clear_failure_never_a_hang_never_access(
    start_server: StartHub, provider: AuthProviderServer
) -> None:
    hub = await start_server(
        hub_with(provider.url, timeout=0.3, allow_anonymous=True), session__messagesPerSecond=0
    )
    for behaviour, (answer, code) in misbehaving(provider).items():
        provider.answer = answer
        socket = await hub.socket()
        result = await authenticate(socket)
        assert result["success"] is False, behaviour
        assert result["error"]["code"] == code, (behaviour, result)
        assert "token" not in result, behaviour
        refused = await socket.subscribe("room:1")
        assert refused["failures"][0]["error"]["code"] == "not_permitted", behaviour
        await socket.connection.close()


@pytest.mark.spec("LIVE-06", "LIVE-05")
async def test_where_anonymity_is_forbidden_the_failure_closes_with_its_code(
    start_hub: StartHub, provider: AuthProviderServer
) -> None:
    hub = await start_hub(hub_with(provider.url, allow_anonymous=False))
    refused = await hub.socket()
    assert (await authenticate(refused))["error"]["code"] == "not_authenticated"
    assert (await refused.closed())[0] == 4410
    provider.answer = saying(ANN, 500)
    failed = await hub.socket()
    assert (await authenticate(failed))["error"]["code"] == "auth_provider_failed"
    code, _ = await failed.closed()
    assert code == 4502
    assert failed.backlog[-1]["payload"]["reconnect"] is True


@pytest.mark.spec("LIVE-06")
async def test_a_provider_that_is_down_is_said_so(start_hub: StartHub) -> None:
    async with auth_provider() as gone:
        url = gone.url
    hub = await start_hub(hub_with(url))
    result = await authenticate(await hub.socket())
    assert result["error"]["code"] == "auth_provider_failed"
    assert result["error"]["retry"] is True


@pytest.mark.spec("LIVE-06")
async def test_a_hub_without_provider_takes_no_credentials(hub: RunningHub) -> None:
    result = await authenticate(await hub.socket())
    assert result["error"]["code"] == "not_authenticated"


@pytest.mark.spec("LIVE-06", "OPS-03")
async def test_a_provider_that_hangs_for_one_client_hinders_no_other(
    start_server: StartHub, provider: AuthProviderServer
) -> None:
    async def hang_for_mallory(request: web.Request) -> web.StreamResponse:
        if b"mallory" in provider.requests[-1][1]:
            return await _hang(provider)
        return web.json_response(ANN)

    provider.answer = hang_for_mallory
    hub = await start_server(hub_with(provider.url, timeout=2))
    waiting = [await hub.socket() for _ in range(20)]
    for socket in waiting:
        await socket.send("Auth", credentials={"text": "mallory"})
    async with asyncio.timeout(1.5):
        assert (await authenticate(await hub.socket()))["success"]
    await waiting[0].connection.close()  # who leaves meanwhile leaves nothing behind


# -- tokens -------------------------------------------------------------------------------------


def signed_by(hub: RunningHub, which: str, claims: dict[str, Any], **header: Any) -> str:
    """A token signed with the hub's own key, but with any claims and header."""
    keys = json.loads((hub.server.settings.storage.path / "secrets.json").read_text())
    key = keys[which]["keys"][0] if isinstance(keys[which], dict) else keys[which][0]
    secret = key["secret"]
    try:
        raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
    except ValueError:
        raw = secret.encode()
    return jwt.encode(claims, raw, "HS256", headers={"kid": key["id"], **header})


async def code_of(hub: RunningHub, token: str) -> tuple[str | None, int]:
    """What the socket and the HTTP API say to this token."""
    socket = await hub.raw_socket(additional_headers={"Authorization": f"Bearer {token}"})
    first = await socket.next()
    await socket.connection.close()
    async with await RawConnection.open(hub.address) as client:
        client.request("GET /v1/hubs/acme/channels/a/messages", f"Authorization: Bearer {token}")
        status = (await client.response()).status
    return first["payload"].get("code") if first["event"] == "Disconnect" else None, status


@pytest.mark.spec("LIVE-06", "OPS-02")
async def test_no_wrong_token_is_accepted_anywhere(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    good = hub.token()
    assert await code_of(hub, good) == (None, 200)
    header, claims, signature = good.split(".")
    decoded = jwt.decode(good, options={"verify_signature": False})
    kid = jwt.get_unverified_header(good)["kid"]

    def encoded(part: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()

    none = {"alg": "none", "kid": kid, "typ": "session"}
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    deep = base64.urlsafe_b64encode(b"[" * 9000).decode()
    wrong = {
        "garbage": "garbage",
        "dots": "..",
        "alg none": f"{encoded(none)}.{claims}.",
        "alg None": f"{encoded({**none, 'alg': 'None'})}.{claims}.{signature}",
        "changed claims": f"{header}.{encoded({**decoded, 'sub': 'root'})}.{signature}",
        "changed signature": f"{header}.{claims}.{flipped}",
        "no signature": f"{header}.{claims}.",
        "another key": jwt.encode(decoded, b"k" * 32, "HS256", headers={"kid": kid}),
        "unknown key": jwt.encode(decoded, b"k" * 32, "HS256", headers={"kid": "nobody"}),
        "no key": jwt.encode(decoded, b"k" * 32, "HS256"),
        "the name as key": jwt.encode(decoded, b"x" * 32, "HS256", headers={"kid": "../../x"}),
        "another hub": hub.token(hub="other"),
        "another algorithm": jwt.encode(decoded, b"k" * 64, "HS512", headers={"kid": kid}),
        "deep header": f"{deep}.{claims}.{signature}",
        "huge": "a" * 15_000,
    }
    for what, token in wrong.items():
        assert await code_of(hub, token) == ("invalid_token", 401), what


@pytest.mark.spec("LIVE-06")
async def test_an_expired_token_is_refused_at_connect_and_by_http(start_server: StartHub) -> None:
    clock = FakeClock()
    hub = await start_server(clock=clock)
    token = hub.token(ttl=30)
    assert await code_of(hub, token) == (None, 200)
    clock.advance(31)
    assert await code_of(hub, token) == ("invalid_token", 401)


@pytest.mark.spec("LIVE-06", "OPS-02")
async def test_keys_of_sessions_cannot_make_administrators(hub: RunningHub) -> None:
    now = int(time.time())
    base = {"iss": "hubbub", "iat": now, "exp": now + 60, "hub": "acme", "sub": "eve"}
    wrong = {
        "level admin under a session key": ({**base, "level": "admin"}, {"typ": "session"}),
        "typ admin under a session key": ({**base, "level": "admin"}, {"typ": "admin"}),
        "every hub under a session key": ({**base, "hub": "*"}, {"typ": "session"}),
        "no expiry": ({k: v for k, v in base.items() if k != "exp"}, {"typ": "session"}),
        "another issuer": ({**base, "iss": "else"}, {"typ": "session"}),
        "expiry as text": ({**base, "exp": "never"}, {"typ": "session"}),
        "unknown level": ({**base, "level": "god"}, {"typ": "session"}),
        "channels as text": ({**base, "channels": "*"}, {"typ": "session"}),
        "user as number": ({**base, "sub": 7}, {"typ": "session"}),
    }
    assert await code_of(hub, signed_by(hub, "session", base, typ="session")) == (None, 200)
    for what, (claims, header) in wrong.items():
        token = signed_by(hub, "session", claims, **header)
        assert await code_of(hub, token) == ("invalid_token", 401), what
    confused = signed_by(hub, "admin", base, typ="session")
    assert await code_of(hub, confused) == ("invalid_token", 401)


@pytest.mark.spec("LIVE-06", "OPS-04")
async def test_a_token_is_taken_from_header_query_and_subprotocol(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False))
    token = hub.token()
    bearer = {"Authorization": f"Bearer {token}"}
    lower = {"Authorization": f"bearer {token}"}
    offered = ["hubbub.json.v1", f"hubbub.token.{token}"]
    sockets = [
        await hub.raw_socket(additional_headers=bearer),
        await hub.raw_socket(additional_headers=lower),
        await hub.raw_socket(query=f"?token={token}"),
        await hub.raw_socket(query=f"?access_token={token}"),
        await hub.raw_socket(subprotocols=offered),
    ]
    for socket in sockets:
        assert (await socket.expect("SessionInfo"))["userID"] == "ann"
    assert sockets[-1].connection.subprotocol == "hubbub.json.v1"  # the token is not echoed
    for request in (
        hub.http.get("/v1/hubs/acme/channels/a/messages", headers=bearer),
        hub.http.get(f"/v1/hubs/acme/channels/a/messages?token={token}"),
        hub.http.get(f"/v1/hubs/acme/events?channel=a&access_token={token}"),
    ):
        async with request as answer:
            assert answer.status == 200
    async with hub.http.get(
        "/v1/hubs/acme/channels/a/messages", headers={"Authorization": "Basic YTpi"}
    ) as basic:
        assert basic.status == 401


@pytest.mark.spec("LIVE-06")
async def test_a_service_reaches_its_hub_and_only_its_hub(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules()), open_hub("other", rules=Rules()))
    service = await hub.socket(token=hub.token("svc", level=Level.SERVICE))
    assert (await service.subscribe("private"))["subscribedChannels"] == ["private"]
    assert (await service.publish("private", {"json": 1}))["success"]
    token = hub.token("svc", level=Level.SERVICE)
    elsewhere = await hub.raw_socket("other", f"?token={token}")
    assert (await elsewhere.expect("Disconnect"))["code"] == "invalid_token"


@pytest.mark.spec("LIVE-06", "LIVE-07")
async def test_the_grants_of_a_token_hold_for_what_they_name(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(rules=Rules()))
    grants = (Grant("in:#", subscribe=True), Grant("out:*", publish=True))
    socket = await hub.socket(token=hub.token(grants=grants))
    subscribed = await socket.subscribe("in:a", "in:a:b", "out:a", "other")
    assert subscribed["subscribedChannels"] == ["in:a"]
    assert {each["channel"] for each in subscribed["failures"]} == {"in:a:b", "out:a", "other"}
    assert (await socket.publish("out:a:b", {"json": 1}))["success"]
    assert (await socket.publish("in:a", {"json": 1}))["error"]["code"] == "not_permitted"
