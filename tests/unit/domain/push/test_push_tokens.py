"""Tokens of the three platforms: what is taken, what is refused, and when one is over."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from hubbub.domain.errors import BadRequest
from hubbub.domain.push.requests import point_of
from hubbub.domain.push.tokens import (
    UNREFRESHED_MS,
    PushSubscription,
    SubscriptionKeys,
    is_over,
    read_platform,
    read_token,
    token_hash,
)

pytestmark = pytest.mark.spec("PUSH-01")

NOW = 1_800_000_000_000


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


POINT = text(point_of(ec.generate_private_key(ec.SECP256R1())))
AUTH = text(bytes(16))


def subscription(endpoint: str = "https://push.example.net/a/b", **changes: Any) -> str:
    keys = {"p256dh": POINT, "auth": AUTH} | changes.pop("keys", {})
    return json.dumps({"endpoint": endpoint, "expirationTime": None, "keys": keys} | changes)


def test_the_endpoint_of_a_web_push_subscription_is_its_identity() -> None:
    first = read_token("acme", "ann", "webpush", subscription(), NOW)
    other = text(point_of(ec.generate_private_key(ec.SECP256R1())))
    renewed = read_token("acme", "ann", "webpush", subscription(keys={"p256dh": other}), NOW + 1)
    assert first.token == renewed.token == "https://push.example.net/a/b"
    assert (len(first.p256dh or b""), len(first.auth or b"")) == (65, 16)
    assert first.id == renewed.id == token_hash("webpush", first.token)
    as_object = PushSubscription(first.token, SubscriptionKeys(POINT, AUTH))
    assert read_token("acme", "ann", "webpush", as_object, NOW) == first


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("not json", "PushSubscription"),
        ("[]", "PushSubscription"),
        ('{"endpoint":"https://push.example.net/"}', "keys"),
        (subscription("http://push.example.net/a"), "https"),
        (subscription("ftp://push.example.net/a"), "http"),
        (subscription("https://10.1.2.3/a"), "sends nothing"),
        (subscription("https://127.0.0.1/a"), "sends nothing"),
        (subscription("https://localhost/a"), "sends nothing"),
        (subscription("https://[::1]/a"), "sends nothing"),
        (subscription("https://169.254.169.254/latest"), "sends nothing"),
        (subscription("https://0x7f000001/a"), "sends nothing"),
        (subscription("https://me:secret@push.example.net/"), "password"),
        (subscription(keys={"p256dh": text(bytes(65))}), "P-256"),
        (subscription(keys={"p256dh": text(b"\x04" + bytes(64))}), "P-256"),
        (subscription(keys={"p256dh": "%%%"}), "base64url"),
        (subscription(keys={"auth": text(bytes(15))}), "16"),
        (subscription(expirationTime=NOW - 1), "expirationTime"),
    ],
)
def test_a_web_push_subscription_that_cannot_be_used_is_refused_with_the_reason(
    given: str, problem: str
) -> None:
    with pytest.raises(BadRequest, match=problem):
        read_token("acme", "ann", "webpush", given, NOW)


def test_a_push_service_on_this_machine_is_taken_where_the_hub_may_send_to_it() -> None:
    local = subscription("http://localhost:8090/notify/1")
    assert read_token("acme", "ann", "webpush", local, NOW, reach="loopback").token
    with pytest.raises(BadRequest, match="https"):
        read_token(
            "acme", "ann", "webpush", subscription("http://a.example/"), NOW, reach="loopback"
        )


def test_tokens_of_phones() -> None:
    fcm = read_token("acme", "ann", "fcm", "abc:DEF_-", NOW)
    assert (fcm.token, fcm.registered_at) == ("abc:DEF_-", NOW)
    apns = read_token(
        "acme", "ann", "apns", "AB" * 32, NOW, topic="org.example.app", environment="sandbox"
    )
    assert (apns.token, apns.topic, apns.environment) == ("ab" * 32, "org.example.app", "sandbox")


@pytest.mark.parametrize(
    ("platform", "token", "options"),
    [
        ("fcm", "", {}),
        ("fcm", "with space", {}),
        ("fcm", "x" * 4097, {}),
        ("fcm", "x", {"topic": "org.example.app"}),
        ("apns", "xyz", {}),
        ("apns", "ab" * 31, {}),
        ("apns", "ab" * 32, {"topic": "no/topic"}),
    ],
)
def test_tokens_of_phones_that_cannot_be_right_are_refused(
    platform: Any, token: str, options: Any
) -> None:
    with pytest.raises(BadRequest):
        read_token("acme", "ann", platform, token, NOW, **options)


def test_other_platforms_are_refused() -> None:
    assert read_platform("fcm") == "fcm"
    with pytest.raises(BadRequest, match="webpush, fcm, apns"):
        read_platform("pigeon")


def test_a_token_is_over_when_it_says_so_or_was_not_refreshed_for_270_days() -> None:
    token = read_token("acme", "ann", "fcm", "abc", NOW)
    assert not is_over(token, NOW + UNREFRESHED_MS - 1)
    assert is_over(token, NOW + UNREFRESHED_MS)
    expiring = read_token("acme", "ann", "webpush", subscription(expirationTime=NOW + 5), NOW)
    assert (is_over(expiring, NOW + 4), is_over(expiring, NOW + 5)) == (False, True)
