"""Requests to push services: encryption and signatures against the RFCs, headers of each option."""

from __future__ import annotations

import base64
import json
from typing import Any

import http_ece
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.push.content import PushNote, render
from hubbub.domain.push.options import PushOptions
from hubbub.domain.push.requests import (
    apns_provider_token,
    apns_request,
    collapse_id,
    encrypt_for,
    fcm_assertion,
    fcm_request,
    make_vapid_key,
    origin_of,
    point_of,
    private_key_of,
    vapid_signature,
    web_push_request,
)
from hubbub.domain.push.tokens import PushToken

pytestmark = pytest.mark.spec("PUSH-01")


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def note(**options: Any) -> PushNote:
    return PushNote("acme", "news", "said", "m1", 7, 1_000_000, PushOptions(**options))


def test_the_example_of_rfc_8291_comes_out_byte_by_byte() -> None:
    sender = private_key_of(decoded("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    encrypted = encrypt_for(
        b"When I grow up, I want to be a watermelon",
        decoded(
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        ),
        decoded("BTBZMqHH6r4Tts7J_aSIgg"),
        sender,
        decoded("DGv6ra1nlYgDCS1FRnbzlw"),
    )
    assert encrypted == decoded(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAm"
        "S6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Q"
        "ulcy4a-fN"
    )


@given(st.binary(max_size=3993), st.binary(min_size=16, max_size=16))
def test_what_is_encrypted_another_library_reads_within_4096_bytes(
    body: bytes, secret: bytes
) -> None:
    receiver = ec.generate_private_key(ec.SECP256R1())
    sender = ec.generate_private_key(ec.SECP256R1())
    encrypted = encrypt_for(body, point_of(receiver), secret, sender, bytes(range(16)))
    assert len(encrypted) <= 4096
    read = http_ece.decrypt(
        encrypted, private_key=receiver, auth_secret=secret, version="aes128gcm"
    )
    assert read == body


def test_a_vapid_signature_names_the_services_origin_and_verifies_with_the_public_key() -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    key = make_vapid_key(private, 5)
    assert "hidden" in repr(key)
    said = vapid_signature(
        key, origin_of("https://push.example.net:8443/a?b"), "mailto:a@b.example", 99
    )
    scheme, token, public = said.replace(",", "").split()
    assert (scheme, decoded(public.removeprefix("k="))) == ("vapid", point_of(private))
    claims = jwt.decode(
        token.removeprefix("t="), private.public_key(), ["ES256"],
        audience="https://push.example.net:8443", options={"verify_exp": False},
    )  # fmt: skip
    assert (claims["exp"], claims["sub"]) == (99, "mailto:a@b.example")


def test_the_options_as_headers_of_web_push() -> None:
    token = PushToken("acme", "ann", "webpush", "https://push.example.net/a")
    asked = note(title="t", collapse_key="score", urgency="high")
    request = web_push_request(token, asked, b"encrypted", "vapid t=x, k=y", 60)
    headers = dict(request.headers)
    assert (request.url, request.body) == (token.token, b"encrypted")
    assert (headers["TTL"], headers["Urgency"]) == ("60", "high")
    assert headers["Content-Encoding"] == "aes128gcm"
    assert headers["Topic"] == collapse_id("score")
    assert len(collapse_id("score")) == 32
    assert "Topic" not in dict(web_push_request(token, note(), b"", "", 60).headers)


def test_a_message_for_fcm() -> None:
    token = PushToken("acme", "ann", "fcm", "device")
    asked = note(title="t", collapse_key="score", urgency="high")
    request = fcm_request("https://fcm", "proj", token, asked, render("fcm", asked), "access", 60)
    assert request.url == "https://fcm/v1/projects/proj/messages:send"
    assert dict(request.headers)["Authorization"] == "Bearer access"
    said = json.loads(request.body)["message"]
    android = {"ttl": "60s", "priority": "HIGH", "collapse_key": collapse_id("score")}
    assert said["android"] == android
    assert (said["token"], said["notification"], said["data"]["serial"]) == (
        "device",
        {"title": "t"},
        "7",
    )
    silent = fcm_request("https://fcm", "proj", token, note(), render("fcm", note()), "access", 60)
    assert json.loads(silent.body)["message"]["android"]["priority"] == "NORMAL"


def test_the_assertion_of_a_service_account_is_signed_with_its_key() -> None:
    key = rsa.generate_private_key(65537, 2048)
    said = fcm_assertion("me@proj.example", key, "kid1", "https://token", 1000)
    claims = jwt.decode(
        said, key.public_key(), ["RS256"], audience="https://token", options={"verify_exp": False}
    )
    assert (claims["iss"], claims["exp"] - claims["iat"]) == ("me@proj.example", 3600)
    assert claims["scope"].endswith("/firebase.messaging")
    assert jwt.get_unverified_header(said)["kid"] == "kid1"


def test_a_request_to_apns() -> None:
    token = PushToken("acme", "ann", "apns", "ab" * 32)
    asked = note(title="t", collapse_key="score", ttl=60)
    request = apns_request("https://apns", "org.app", token, asked, b"{}", "bearer")
    assert request.url == f"https://apns/3/device/{'ab' * 32}"
    assert dict(request.headers) == {
        "authorization": "bearer bearer",
        "apns-topic": "org.app",
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-expiration": "1060",
        "apns-collapse-id": collapse_id("score"),
        "content-type": "application/json",
    }
    for options, kind, priority in (
        ({"urgency": "low", "title": "t"}, "alert", "5"),
        ({"urgency": "high"}, "background", "5"),
    ):
        headers = dict(apns_request("", "", token, note(**options), b"", "").headers)
        assert (headers["apns-push-type"], headers["apns-priority"]) == (kind, priority)
    now = dict(apns_request("", "", token, note(ttl=0), b"", "").headers)
    assert now["apns-expiration"] == "0"
    key = ec.generate_private_key(ec.SECP256R1())
    provider = apns_provider_token("TEAM", "KEY", key, 1000)
    claims = jwt.decode(provider, key.public_key(), ["ES256"], options={"verify_iat": False})
    assert claims == {"iss": "TEAM", "iat": 1000}
    assert jwt.get_unverified_header(provider)["kid"] == "KEY"
