"""The meaning of a push service's response for the push, the token and the hub's credentials."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from hubbub.domain.push.tokens import Platform, PushToken

Outcome = Literal["ok", "retry", "gone", "refused", "credentials", "renew"]
"""The push was accepted; retry later; the token is dead; the message is dropped; the hub's
credentials are rejected for this token; get a new access token and retry once."""

REFUSALS_TO_DROP: Final = 10
REFUSALS_WITHIN_MS: Final = 3 * 86_400_000
_REASON_CHARS = 100
_TOO_MANY = 429
_DEAD_APNS = ("BadDeviceToken", "Unregistered", "ExpiredToken")
_FOREIGN_APNS = (
    "DeviceTokenNotForTopic",
    "TopicDisallowed",
    "BadTopic",
    "BadCertificateEnvironment",
)


class PushVerdict(msgspec.Struct, frozen=True):
    """`reason` is the service's error code, or else the HTTP status."""

    outcome: Outcome
    reason: str


def judge(token: PushToken, status: int, body: bytes) -> PushVerdict:
    """Interprets a response of the token's platform. Any body is accepted."""
    reason, dead_since = _reason(token.platform, body)
    if 200 <= status < 300:
        return PushVerdict("ok", "")
    word = reason or str(status)
    if status == _TOO_MANY or status >= 500:
        return PushVerdict("retry", word)
    return PushVerdict(_JUDGES[token.platform](token, status, reason, dead_since), word)


def _web_push(token: PushToken, status: int, reason: str, _: int) -> Outcome:
    if status in (404, 410):
        return "gone"
    if status in (401, 403) or "VapidPkHashMismatch" in reason:
        return "credentials"
    return "refused"


def _fcm(token: PushToken, status: int, reason: str, _: int) -> Outcome:
    if reason in ("UNREGISTERED", "INVALID_ARGUMENT message.token"):
        return "gone"
    if status == 401 and reason != "THIRD_PARTY_AUTH_ERROR":
        return "renew"
    return "credentials" if status in (401, 403) else "refused"


def _apns(token: PushToken, status: int, reason: str, dead_since: int) -> Outcome:
    if reason in _DEAD_APNS or status == 410:
        return "refused" if dead_since and token.registered_at > dead_since else "gone"
    if reason == "ExpiredProviderToken":
        return "renew"
    return "credentials" if status in (401, 403) or reason in _FOREIGN_APNS else "refused"


_JUDGES: Final = {"webpush": _web_push, "fcm": _fcm, "apns": _apns}


def _reason(platform: Platform, body: bytes) -> tuple[str, int]:
    """The service's error code, and since when the token has been dead (ms); empty and 0 if the
    response does not say or is not JSON."""
    try:
        said = msgspec.json.decode(body) if body else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "", 0
    if not isinstance(said, dict):
        return "", 0
    if platform == "fcm":
        return _fcm_reason(said.get("error")), 0
    reason, since = said.get("reason"), said.get("timestamp")
    return _text(reason), since if isinstance(since, int) and 0 < since < 2**53 else 0


def _fcm_reason(error: Any) -> str:
    """The FCM error code, or else the status; `INVALID_ARGUMENT message.token` if the token is
    invalid."""
    if not isinstance(error, dict):
        return ""
    code, fields = "", []
    for detail in _list(error.get("details")):
        code = code or _text(detail.get("errorCode"))
        fields += [_text(each.get("field")) for each in _list(detail.get("fieldViolations"))]
    code = code or _text(error.get("status"))
    about_token = "message.token" in fields or "registration token" in _text(error.get("message"))
    return f"{code} message.token" if code == "INVALID_ARGUMENT" and about_token else code


def _list(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(letter for letter in value[:_REASON_CHARS] if letter.isprintable())


# -- tokens ---------------------------------------------------------------------------------------


def after_refusal(token: PushToken, now: int) -> PushToken:
    """Counts one more rejection of the credentials; rejections older than three days are
    discarded."""
    fresh = now - token.failing_since > REFUSALS_WITHIN_MS
    return msgspec.structs.replace(
        token,
        failures=1 if fresh else token.failures + 1,
        failing_since=now if fresh else token.failing_since,
    )


def is_hopeless(token: PushToken, others_succeeded_at: int) -> bool:
    """Whether the token was rejected repeatedly while the service accepted pushes for other tokens
    of the hub."""
    return token.failures >= REFUSALS_TO_DROP and others_succeeded_at >= token.failing_since
