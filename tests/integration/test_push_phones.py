"""Push to phones: FCM and APNs through servers that check what the real ones check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from harness.admin import admin_of, service_of
from harness.certificates import make_certificate
from harness.push_services import Fcm, apns_service, pem, push_hub
from harness.receivers import whole_answer
from harness.running_hub import RunningHub, StartHub
from hubbub.domain.push.tokens import token_hash
from hubbub.engine.access.tokens import KeyRing, SigningKey

pytestmark = pytest.mark.spec("PUSH-01")

HUB = "/v1/admin/hubs/acme"
USER = f"{HUB}/users/ann/push-tokens"
OTHER_CURVE = pem(ec.generate_private_key(ec.SECP384R1()))


async def register(hub: RunningHub, platform: str, token: str, **more: str) -> None:
    body = {"platform": platform, "token": token, **more}
    answer = await service_of(hub)("PUT", USER, body)
    assert answer.status == 200, answer.json


async def tokens(hub: RunningHub) -> list[str]:
    return [each["token"] for each in (await service_of(hub)("GET", USER)).json["items"]]


async def push(hub: RunningHub, **options: Any) -> None:
    order = {"users": ["ann"], "title": "Hello", **options}
    assert (await service_of(hub)("POST", f"{HUB}/push", order)).status == 200
    await hub.server.push.settle()


def fcm_error(status: int, word: str, code: str) -> bytes:
    error = {"status": word, "message": "", "details": [{"errorCode": code}]}
    return whole_answer(status, json.dumps({"error": error}).encode())


async def test_fcm_gets_messages_with_an_access_token_that_is_fetched_once(
    start_hub: StartHub,
) -> None:
    async with Fcm() as fcm:
        hub = await start_hub(push_hub(), **fcm.settings)
        set_up = await admin_of(hub)("PUT", f"{HUB}/push/credentials/fcm", fcm.account)
        assert set_up.status == 200, set_up.json
        assert set_up.json["projectID"] == "proj-1"
        assert "PRIVATE" not in json.dumps(set_up.json)
        for token in ("one", "two", "three"):
            await register(hub, "fcm", token)
        await push(hub, body="World", urgency="high", collapseKey="k", data={"n": 1})
        await push(hub)
        assert fcm.assertions == 1
        assert len(fcm.sent) == 6
        first = fcm.sent[0]
        assert first["notification"] == {"title": "Hello", "body": "World"}
        assert first["data"]["hub"] == "acme"
        assert first["android"]["priority"] == "HIGH"


async def test_dead_tokens_go_and_refused_credentials_keep_them(start_hub: StartHub) -> None:
    async with Fcm() as fcm:
        hub = await start_hub(push_hub(), **fcm.settings)
        await admin_of(hub)("PUT", f"{HUB}/push/credentials/fcm", fcm.account)
        for token in ("dead", "foreign", "good", "odd"):
            await register(hub, "fcm", token)
        fcm.answers = {
            "dead": fcm_error(404, "NOT_FOUND", "UNREGISTERED"),
            "foreign": fcm_error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"),
            "odd": whole_answer(400, b"<html>garbage"),
        }
        await push(hub)
        assert await tokens(hub) == ["foreign", "good", "odd"]
        for _ in range(9):
            assert "foreign" in await tokens(hub)
            await push(hub)
        assert await tokens(hub) == ["good", "odd"], "ten refusals while others succeed"


async def test_an_access_token_that_expired_early_is_renewed_once(start_hub: StartHub) -> None:
    async with Fcm() as fcm:
        hub = await start_hub(push_hub(), **fcm.settings)
        await admin_of(hub)("PUT", f"{HUB}/push/credentials/fcm", fcm.account)
        await register(hub, "fcm", "one")
        await push(hub)
        fcm.expired.add("access-1")
        await push(hub)
        assert (fcm.assertions, len(fcm.sent)) == (2, 3)


async def test_an_account_that_google_refuses_is_told_by_the_test(start_hub: StartHub) -> None:
    async with Fcm() as fcm, Fcm() as other:
        hub = await start_hub(push_hub(), **fcm.settings)
        admin = admin_of(hub)
        await register(hub, "fcm", "one")
        path = f"{HUB}/push/test"
        (missing,) = (await admin("POST", path, {"user": "ann"})).json["items"]
        assert "no service account" in missing["reason"]
        await admin("PUT", f"{HUB}/push/credentials/fcm", other.account)
        (refused,) = (await admin("POST", path, {"user": "ann"})).json["items"]
        assert (refused["outcome"], "invalid_grant" in refused["reason"]) == ("credentials", True)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("fcm", {"project_id": "p", "client_email": "e", "private_key": "no key"}),
        ("fcm", {"project_id": "p"}),
        ("fcm", []),
        ("apns", {"keyID": "k", "teamID": "t", "key": "no key"}),
        ("apns", {"keyID": "k", "teamID": "t", "key": OTHER_CURVE}),
    ],
)
async def test_credentials_that_are_none_are_refused_without_being_quoted(
    hub: RunningHub, name: str, body: Any
) -> None:
    answer = await admin_of(hub)("PUT", f"{HUB}/push/credentials/{name}", body)
    assert answer.status == 400
    assert "PRIVATE" not in json.dumps(answer.json)


async def test_secrets_lie_sealed_on_disk_and_outlive_a_new_signing_key(
    start_server: StartHub, tmp_path: Path
) -> None:
    hub = await start_server(push_hub())
    async with Fcm() as fcm:
        await admin_of(hub)("PUT", f"{HUB}/push/credentials/fcm", fcm.account)
        key = await hub.server.push_credentials.vapid_key("acme")
        stored = await hub.server.store.read_push_credentials("acme")
        secret = fcm.account["private_key"].encode()
        for each in stored:
            assert secret[100:160] not in each.sealed
            assert key.private not in each.sealed
        files = [path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert not any(secret[100:160] in data for data in files)
        before = stored[0].sealed
        tokens_of_hub = hub.server.tokens
        ring = KeyRing((), (SigningKey("new", b"n" * 64), *tokens_of_hub.sealing_keys))
        tokens_of_hub._keys = ring
        await hub.server.push_credentials.seal_again()
        hub.server.push_credentials.forget("acme")
        assert (await hub.server.store.read_push_credentials("acme"))[0].sealed != before
        found = await hub.server.push_credentials.of("acme")
        assert found.fcm is not None
        assert found.vapid == (key,)


async def test_apns_is_reached_over_http2_and_its_dead_tokens_go(
    start_server: StartHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    async with apns_service(certificate, streams=2, goaway_every=3) as apns:
        hub = await start_server(push_hub(), push__apnsUrl=apns.url)
        account = {
            "keyID": "KEYID12345",
            "teamID": "TEAMID1234",
            "key": pem(ec.generate_private_key(ec.SECP256R1())),
            "topic": "org.example.app",
        }
        answer = await admin_of(hub)("PUT", f"{HUB}/push/credentials/apns", account)
        assert answer.status == 200, answer.json
        for number in range(8):
            await register(hub, "apns", f"{number:064x}")
        await register(hub, "apns", "dead".ljust(64, "0"), topic="org.example.other")
        await push(hub, body="World")
        got = await apns.got(9)
        assert len({each["device"] for each in got}) == 9
        assert {each["found"] and each["found"][1] for each in got} == {None, "Unregistered"}
        topics = {each["headers"]["apns-topic"] for each in got}
        assert topics == {"org.example.app", "org.example.other"}
        assert len(await tokens(hub)) == 8


async def test_attempts_are_journalled_and_counted_without_the_token(
    start_server: StartHub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Fcm() as fcm:
        hub = await start_server(push_hub(), journal__enabled=True, **fcm.settings)
        await admin_of(hub)("PUT", f"{HUB}/push/credentials/fcm", fcm.account)
        await register(hub, "fcm", "secret-token-1")
        await register(hub, "fcm", "secret-token-2")
        fcm.answers["secret-token-2"] = fcm_error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH")
        await push(hub)
        journal = hub.server.journal
        assert journal is not None
        await journal.stop()
        written = b"".join(
            path.read_bytes() for path in (tmp_path / "data").rglob("*.hbj") if path.is_file()
        )
        assert b"push.attempt" in written
        assert token_hash("fcm", "secret-token-1").encode() in written
        assert b"secret-token" not in written
        assert "secret-token" not in caplog.text
        assert token_hash("fcm", "secret-token-2") in caplog.text
