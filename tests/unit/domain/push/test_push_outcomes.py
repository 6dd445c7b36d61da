"""Answers of push services: what each means, and which tokens they end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.push.outcomes import (
    REFUSALS_TO_DROP,
    REFUSALS_WITHIN_MS,
    after_refusal,
    is_hopeless,
    judge,
)
from hubbub.domain.push.tokens import PLATFORMS, PushToken

pytestmark = pytest.mark.spec("PUSH-01")


def fcm(status: str, code: str | None = None, field: str | None = None, message: str = "") -> Any:
    details: list[Any] = []
    if code:
        details.append({"@type": "type.googleapis.com/…FcmError", "errorCode": code})
    if field:
        details.append({"fieldViolations": [{"field": field, "description": "Invalid"}]})
    return {"error": {"status": status, "message": message, "details": details}}


def reason(word: str, **more: int) -> Any:
    return {"reason": word, **more}


@pytest.mark.parametrize(
    ("platform", "status", "body", "outcome"),
    [
        ("webpush", 201, None, "ok"),
        ("webpush", 404, None, "gone"),
        ("webpush", 410, None, "gone"),
        ("webpush", 401, None, "credentials"),
        ("webpush", 403, None, "credentials"),
        ("webpush", 400, reason("VapidPkHashMismatch"), "credentials"),
        ("webpush", 400, None, "refused"),
        ("webpush", 413, None, "refused"),
        ("webpush", 302, None, "refused"),
        ("webpush", 429, None, "retry"),
        ("webpush", 503, None, "retry"),
        ("fcm", 200, {"name": "projects/p/messages/1"}, "ok"),
        ("fcm", 404, fcm("NOT_FOUND", "UNREGISTERED"), "gone"),
        ("fcm", 400, fcm("INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.token"), "gone"),
        (
            "fcm",
            400,
            fcm(
                "INVALID_ARGUMENT",
                message="The registration token is not a valid FCM registration token",
            ),
            "gone",
        ),
        ("fcm", 400, fcm("INVALID_ARGUMENT", "INVALID_ARGUMENT", "message.data"), "refused"),
        ("fcm", 401, fcm("UNAUTHENTICATED"), "renew"),
        ("fcm", 401, fcm("UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), "credentials"),
        ("fcm", 403, fcm("PERMISSION_DENIED", "SENDER_ID_MISMATCH"), "credentials"),
        ("fcm", 429, fcm("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "retry"),
        ("fcm", 500, fcm("INTERNAL"), "retry"),
        ("apns", 200, None, "ok"),
        ("apns", 400, reason("BadDeviceToken"), "gone"),
        ("apns", 410, reason("Unregistered", timestamp=900), "refused"),
        ("apns", 410, reason("Unregistered", timestamp=2000), "gone"),
        ("apns", 410, reason("ExpiredToken"), "gone"),
        ("apns", 400, reason("DeviceTokenNotForTopic"), "credentials"),
        ("apns", 403, reason("ExpiredProviderToken"), "renew"),
        ("apns", 403, reason("InvalidProviderToken"), "credentials"),
        ("apns", 413, reason("PayloadTooLarge"), "refused"),
        ("apns", 400, reason("BadMessageId"), "refused"),
        ("apns", 429, reason("TooManyRequests"), "retry"),
        ("apns", 503, reason("ServiceUnavailable"), "retry"),
    ],
)
def test_the_table_of_answers(platform: Any, status: int, body: Any, outcome: str) -> None:
    """The token was registered at 1000."""
    token = PushToken("acme", "ann", platform, "t", registered_at=1000)
    assert judge(token, status, json.dumps(body).encode() if body else b"").outcome == outcome


@given(
    platform=st.sampled_from(PLATFORMS),
    status=st.integers(200, 599),
    body=st.binary(max_size=100)
    | st.recursive(
        st.none() | st.text() | st.integers() | st.booleans(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["error", "reason", "details", "timestamp", "fieldViolations"])
                | st.text(),
                inner,
            )
        ),
    ).map(lambda value: json.dumps(value).encode()),
)
def test_garbage_is_judged_by_its_status(platform: Any, status: int, body: bytes) -> None:
    verdict = judge(PushToken("acme", "ann", platform, "t"), status, body)
    assert (verdict.outcome == "ok") == (status < 300)
    assert verdict.reason.isprintable()
    if status >= 500 or status == 429:
        assert verdict.outcome == "retry"


def test_a_token_is_dropped_after_ten_refusals_in_three_days_while_others_succeed() -> None:
    token = PushToken("acme", "ann", "apns", "t")
    start = 10 * REFUSALS_WITHIN_MS
    for number in range(REFUSALS_TO_DROP):
        assert not is_hopeless(token, start + 5)
        token = after_refusal(token, start + number)
    assert token.failing_since == start
    assert is_hopeless(token, start + 5)
    assert not is_hopeless(token, start - 1), "the service refuses all: the credentials are wrong"
    late = after_refusal(token, start + REFUSALS_WITHIN_MS + 1)
    assert (late.failures, is_hopeless(late, start * 2)) == (1, False)
