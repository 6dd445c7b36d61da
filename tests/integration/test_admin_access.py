"""Tokens issued, renewed, revoked and rotated, and administrators who log in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest

from harness.admin import HUB, Caller, admin_of, client_of, service_of
from harness.admin_login import AdminUrl
from harness.clock import FakeClock
from harness.raw import RawConnection
from harness.running_hub import RunningHub, StartHub, hub_settings, open_hub
from hubbub.domain.permissions import Level
from hubbub.ports.storage.administration import Revocation
from hubbub.server.secrets import rotate
from hubbub.server.wiring import Server

HISTORY = "/v1/hubs/acme/channels/news/messages"
REFRESH = "/v1/hubs/acme/token/refresh"


@pytest.fixture
async def clocked(tmp_path: Path) -> AsyncIterator[tuple[RunningHub, FakeClock]]:
    """A server whose clock the test turns."""
    clock = FakeClock()
    server = Server(hub_settings(tmp_path, open_hub()), clock)
    await server.start()
    hub = RunningHub(server)
    yield hub, clock
    await hub.close()


@pytest.mark.spec("ADMIN-03")
async def test_a_service_issues_tokens_for_its_users(start_hub: StartHub) -> None:
    hub = await start_hub(open_hub(allow_anonymous=False, default_rules=None))
    request = {
        "userID": "ann",
        "channels": [{"channel": "room:*", "subscribe": True}],
        "extra": {"name": "Ann"},
        "ttlSeconds": 60,
    }
    issued = await service_of(hub)("POST", f"{HUB}/tokens", request)
    assert issued.status == 201
    socket = await hub.socket(token=issued.json["token"])
    done = await socket.subscribe("room:1", "other")
    assert done["subscribedChannels"] == ["room:1"]
    (session,) = (await service_of(hub)("GET", f"{HUB}/sessions?user=ann")).json["items"]
    assert session["tokenID"] == issued.json["tokenID"]
    assert session["expiresAt"] == issued.json["expiresAt"]


@pytest.mark.spec("ADMIN-03", "OPS-02")
async def test_nobody_gives_more_than_they_have(hub: RunningHub) -> None:
    refused = await service_of(hub)("POST", f"{HUB}/tokens", {"level": "service"})
    assert (refused.status, refused.code) == (403, "not_permitted")
    made = await admin_of(hub)("POST", f"{HUB}/tokens", {"level": "service", "userID": "job"})
    assert (await Caller(hub, made.json["token"])("GET", f"{HUB}/settings")).status == 200
    for wrong in ({"level": "admin"}, {}, {"userID": "a", "ttlSeconds": 0}, {"userID": ""}):
        assert (await admin_of(hub)("POST", f"{HUB}/tokens", wrong)).status == 400
    big = {"userID": "a", "extra": {"text": "x" * 20_000}}
    assert (await admin_of(hub)("POST", f"{HUB}/tokens", big)).status == 413


@pytest.mark.spec("ADMIN-03")
async def test_a_token_is_renewed_until_its_time_is_over(
    clocked: tuple[RunningHub, FakeClock],
) -> None:
    hub, clock = clocked
    caller = client_of(hub)
    first = caller.token
    clock.advance(500)
    renewed = await caller("POST", REFRESH)
    assert renewed.status == 200
    assert renewed.json["userID"] == "ann"
    caller.token = renewed.json["token"]
    clock.advance(200)
    expired = await Caller(hub, first)("POST", REFRESH)
    assert (expired.status, expired.code) == (401, "invalid_token")
    for _ in range(7 * 24 - 1):
        reply = await caller("POST", REFRESH)
        assert reply.status == 200
        caller.token = reply.json["token"]
        clock.advance(3500)
    clock.advance(2 * 24 * 3600 - 3500)
    assert (await caller("POST", REFRESH)).code == "invalid_token"


@pytest.mark.spec("ADMIN-03")
async def test_no_chain_of_renewals_outlives_the_limit(
    clocked: tuple[RunningHub, FakeClock],
) -> None:
    hub, clock = clocked
    caller = client_of(hub)
    limit = int(clock.now()) + 7 * 24 * 3600
    while (reply := await caller("POST", REFRESH)).status == 200:
        caller.token = reply.json["token"]
        assert reply.json["expiresAt"] <= limit
        clock.advance(3500)
    assert reply.code == "invalid_token"
    assert clock.now() >= limit - 3600


@pytest.mark.spec("ADMIN-03")
async def test_an_administrator_renews_too_but_not_at_a_hub(hub: RunningHub) -> None:
    admin = admin_of(hub)
    renewed = await admin("POST", "/v1/admin/token/refresh")
    assert (await Caller(hub, renewed.json["token"])("GET", "/v1/admin/hubs")).status == 200
    assert (await service_of(hub)("POST", "/v1/admin/token/refresh")).status == 401


@pytest.mark.spec("ADMIN-03")
async def test_a_revocation_of_a_token_covers_what_it_was_exchanged_for(hub: RunningHub) -> None:
    """Also the newer one, by which a stolen token would live on."""
    stolen = client_of(hub)
    renewed = Caller(hub, (await stolen("POST", REFRESH)).json["token"])
    assert stolen.token is not None
    claims = jwt.decode(stolen.token, options={"verify_signature": False})
    body = {"kind": "token", "subject": claims["jti"]}
    assert (await service_of(hub)("POST", f"{HUB}/revocations", body)).status == 201
    for caller in (stolen, renewed):
        assert (await caller("POST", REFRESH)).code == "invalid_token"


@pytest.mark.spec("ADMIN-03")
@pytest.mark.parametrize("kind", ["token", "user", "hub"])
async def test_revocation_cuts_live_sessions_and_keeps_them_out(
    start_hub: StartHub, kind: str
) -> None:
    hub = await start_hub(open_hub(), open_hub("other"))
    token = hub.token("ann")
    socket = await hub.socket(token=token)
    key = (await socket.find("SessionRestore"))["restoreKey"]
    bystander = await hub.socket("other", token=hub.token("ann", hub="other"))
    anonymous = await hub.socket()
    (session,) = (await admin_of(hub)("GET", f"{HUB}/sessions?user=ann")).json["items"]
    subject = {"token": session["tokenID"], "user": "ann", "hub": ""}[kind]
    body = {"kind": kind, "subject": subject} if subject else {"kind": kind}
    reply = await service_of(hub)("POST", f"{HUB}/revocations", body)
    assert reply.status == 201
    code, reason = await socket.closed()
    assert code == 4411
    assert "revoked" in reason
    assert (await Caller(hub, token)("GET", HISTORY)).code == "invalid_token"
    await anonymous.send("SessionRestore", restoreKey=key, reqID=1)
    assert (await anonymous.find("Error"))["error"]["code"] == "restore_failed"
    assert (await bystander.publish("news", {"text": "still here"}))["success"]
    assert (await client_of(hub)("GET", HISTORY)).status == 200
    listed = await admin_of(hub).all(f"{HUB}/revocations", 1)
    assert [(entry["kind"], entry["subject"]) for entry in listed] == [(kind, subject)]


@pytest.mark.spec("ADMIN-03")
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_whose_token_was_good_a_moment_ago_is_refused_after_its_revocation(
    hub: RunningHub, method: str
) -> None:
    bearer = f"Authorization: Bearer {hub.token('ann', level=Level.SERVICE)}"
    async with await RawConnection.open(hub.address) as connection:
        found = []
        for each in range(4):
            if each == 2:
                await admin_of(hub)("POST", f"{HUB}/revocations", {"kind": "hub"})
            connection.request(f"{method} {HISTORY}", bearer, body=b"hello")
            found.append((await connection.response()).status)
    assert found == [200, 200, 401, 401]


@pytest.mark.spec("ADMIN-03")
async def test_revocations_hold_after_a_restart(start_server: StartHub) -> None:
    hub = await start_server()
    token = hub.token("ann")
    await admin_of(hub)("POST", f"{HUB}/revocations", {"kind": "user", "subject": "ann"})
    await hub.server.stop()
    again = await start_server()
    assert (await Caller(again, token)("GET", HISTORY)).code == "invalid_token"


@pytest.mark.spec("ADMIN-03", "OPS-02")
async def test_an_administrator_is_revoked_everywhere_but_not_by_a_hub(hub: RunningHub) -> None:
    rogue, admin = admin_of(hub, "rogue"), admin_of(hub)
    socket = await hub.socket(token=rogue.token)
    body = {"kind": "user", "subject": "rogue"}
    assert (await service_of(hub)("POST", f"{HUB}/revocations", body)).status == 201
    assert (await rogue("GET", "/v1/admin/hubs")).status == 200
    assert (await admin("POST", "/v1/admin/revocations", body)).status == 201
    assert (await socket.closed())[0] == 4411
    assert (await rogue("GET", "/v1/admin/hubs")).code == "invalid_token"
    assert len(await admin.all("/v1/admin/revocations", 10)) == 1


@pytest.mark.spec("ADMIN-03", "ADMIN-04")
async def test_a_revocation_that_nobody_heard_of_is_found_by_reading_again(
    hub: RunningHub,
) -> None:
    socket = await hub.socket(token=hub.token("ann"))
    server = hub.server
    until = int(server.node.clock.now() * 1000)
    revocation = Revocation("acme", "user", "ann", until, until + 10**9)
    await server.store.save_revocation(revocation)
    await server.reread()
    assert (await socket.closed())[0] == 4411


@pytest.mark.spec("ADMIN-03")
async def test_a_session_that_proved_itself_later_can_be_revoked(hub: RunningHub) -> None:
    socket = await hub.socket()
    await socket.send("Auth", reqID=1, token=hub.token("ann"))
    assert (await socket.find("Auth"))["success"]
    await admin_of(hub)("POST", f"{HUB}/revocations", {"kind": "user", "subject": "ann"})
    assert (await socket.closed())[0] == 4411


@pytest.mark.spec("ADMIN-03")
async def test_keys_rotate_while_older_tokens_hold(start_server: StartHub, tmp_path: Path) -> None:
    hub = await start_server()
    data = tmp_path / "data"
    old = hub.token("ann")
    old_admin = admin_of(hub)
    rotate(data, "session")
    rotate(data, "admin")
    # Another process that starts now signs with the new key; the running one takes it at once.
    other = Server(hub_settings(tmp_path, open_hub()))
    fresh = other.tokens.issue("acme", hub.server.tokens.verify(old, "acme"), 60)
    assert (await Caller(hub, fresh)("GET", HISTORY)).status == 200
    assert (await Caller(hub, old)("GET", HISTORY)).status == 200
    assert (await old_admin("GET", "/v1/admin/hubs")).status == 200
    newest = hub.token("ann")
    assert newest.split(".")[0] == fresh.split(".")[0] != old.split(".")[0]
    for _ in range(2):
        rotate(data, "session")
    hub.server.tokens.reread_keys()
    assert (await Caller(hub, old)("GET", HISTORY)).code == "invalid_token"
    assert (await Caller(hub, fresh)("GET", HISTORY)).status == 200


@pytest.mark.spec("ADMIN-03", "OPS-03")
async def test_a_key_that_is_gone_ends_repeated_publishes_too(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server()
    caller = client_of(hub)
    for _ in range(3):
        assert (await caller("POST", HISTORY, {"n": 1})).status == 200
    rotate(tmp_path / "data", "session", keep=0)
    hub.server.tokens.reread_keys()
    assert (await caller("POST", HISTORY, {"n": 1})).code == "invalid_token"


@pytest.mark.spec("ADMIN-03")
async def test_login_is_delegated_to_a_url(
    start_hub: StartHub, admin_url: tuple[AdminUrl, str]
) -> None:
    login, url = admin_url
    hub = await start_hub(admin__url=url)
    anyone = Caller(hub, None)
    reply = await anyone("POST", "/v1/admin/login", {"user": "olga", "password": "p"})
    assert reply.status == 200
    assert reply.json["userID"] == "olga"
    assert login.received == [b'{"user": "olga", "password": "p"}']
    admin = Caller(hub, reply.json["token"])
    assert (await admin("GET", "/v1/admin/hubs")).status == 200
    (entry,) = await admin.all("/v1/admin/audit", 10)
    assert (entry["action"], entry["actor"]) == ("admin.login", "olga")


@pytest.mark.spec("ADMIN-03", "OPS-02", "OPS-03")
@pytest.mark.parametrize(
    ("status", "answer", "code"),
    [
        (200, b'{"success": false, "message": "wrong password"}', "not_authenticated"),
        (401, b"", "not_authenticated"),
        (200, b"garbage", "auth_provider_failed"),
        (200, b'{"success": true}', "auth_provider_failed"),
        (500, b'{"success": true, "userID": "olga"}', "auth_provider_failed"),
        (302, b'{"success": true, "userID": "olga"}', "auth_provider_failed"),
    ],
)
async def test_a_login_that_is_not_confirmed_gives_nothing(
    start_hub: StartHub,
    admin_url: tuple[AdminUrl, str],
    status: int,
    answer: bytes,
    code: str,
) -> None:
    login, url = admin_url
    login.status, login.answer = status, answer
    hub = await start_hub(admin__url=url)
    reply = await Caller(hub, None)("POST", "/v1/admin/login", {})
    assert reply.code == code
    assert "token" not in reply.json


@pytest.mark.spec("ADMIN-03", "OPS-02")
async def test_logins_are_limited_and_off_by_default(
    start_server: StartHub, admin_url: tuple[AdminUrl, str]
) -> None:
    hub = await start_server()
    assert (await Caller(hub, None)("POST", "/v1/admin/login", {})).code == "not_found"
    await hub.server.stop()
    _, url = admin_url
    limited = await start_server(admin__url=url, admin__loginsPerMinute=3)
    anyone = Caller(limited, None)
    replies = await asyncio.gather(*[anyone("POST", "/v1/admin/login", {}) for _ in range(6)])
    assert sorted(reply.status for reply in replies) == [200, 200, 200, 429, 429, 429]
    large = await anyone("POST", "/v1/admin/login", data=b"{" + b" " * 20_000 + b"}")
    assert large.status == 413
