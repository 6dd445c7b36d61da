"""Push tokens: the address of one device of a user at a push service, on each platform."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from hubbub.domain.callbacks import CallbackParts, Reach, check_callback, literal_address, may_reach
from hubbub.domain.errors import BadRequest

Platform = Literal["webpush", "fcm", "apns"]
Environment = Literal["production", "sandbox"]
PLATFORMS: Final[tuple[Platform, ...]] = get_args(Platform)

MAX_TOKEN_CHARS: Final = 4096
MAX_TOKENS_PER_USER: Final = 50
UNREFRESHED_MS: Final = 270 * 86_400_000
"""A token that was not registered again for so long is considered dead."""
_AUTH_BYTES = 16
_POINT_BYTES = 65
_FCM = re.compile(r"[!-~]{1,4096}")
_APNS = re.compile(r"[0-9a-f]{64,200}")
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,254}")


class SubscriptionKeys(msgspec.Struct, frozen=True):
    """The keys of a browser's push subscription, in base64url."""

    p256dh: Annotated[str, Meta(max_length=200)]
    auth: Annotated[str, Meta(max_length=100)]


class PushSubscription(msgspec.Struct, frozen=True):
    """The result of a browser's `PushSubscription.toJSON()`."""

    endpoint: Annotated[str, Meta(max_length=2000)]
    keys: SubscriptionKeys
    expiration_time: float | None = msgspec.field(default=None, name="expirationTime")


class PushToken(msgspec.Struct, frozen=True):
    """A device of a user. `token` is unique on its platform: the endpoint of a web push
    subscription, or the token itself. Times are in ms since 1970; 0: never."""

    hub: str
    user_id: str
    platform: Platform
    token: str
    p256dh: bytes | None = None
    auth: bytes | None = None
    """Web push only: the browser's public key and secret."""
    topic: str | None = None
    environment: Environment | None = None
    """Apple only: the app's bundle id and environment; None: taken from the hub's credentials."""
    vapid_key: str | None = None
    """The id of the hub's key with which the subscription was created."""
    registered_at: int = 0
    expires_at: int | None = None
    succeeded_at: int = 0
    failures: int = 0
    """Rejections of the hub's credentials since `failing_since`."""
    failing_since: int = 0

    @property
    def id(self) -> str:
        """A hash that identifies the token in logs and answers without disclosing it."""
        return token_hash(self.platform, self.token)


def token_hash(platform: str, token: str) -> str:
    return hashlib.sha256(f"{platform}:{token}".encode()).hexdigest()[:32]


def read_platform(text: str) -> Platform:
    """Raises `BadRequest`."""
    for platform in PLATFORMS:
        if text == platform:
            return platform
    raise BadRequest(f"`platform` is {text[:40]!r}; give one of {', '.join(PLATFORMS)}")


def read_token(
    hub: str,
    user_id: str,
    platform: Platform,
    token: str | PushSubscription,
    now: int,
    *,
    topic: str | None = None,
    environment: Environment | None = None,
    reach: Reach = "public",
) -> PushToken:
    """Reads a token as its owner submitted it. Raises `BadRequest` with the problem, without
    secrets."""
    if platform != "apns" and (topic or environment):
        raise BadRequest("`topic` and `environment` are for the platform apns only")
    if platform == "webpush":
        return _web_push(hub, user_id, _subscription(token), now, reach)
    if not isinstance(token, str):
        raise BadRequest(f"`token` of the platform {platform} is a text")
    if platform == "fcm":
        if not _FCM.fullmatch(token):
            raise BadRequest(f"`token` is not 1 to {MAX_TOKEN_CHARS} printable ASCII characters")
        return PushToken(hub, user_id, platform, token, registered_at=now)
    token = token.lower()
    if not _APNS.fullmatch(token):
        raise BadRequest("`token` of the platform apns is not 64 to 200 hexadecimal digits")
    if topic is not None and not _TOPIC.fullmatch(topic):
        raise BadRequest("`topic` is not a bundle id such as org.example.app")
    return PushToken(
        hub, user_id, platform, token, topic=topic, environment=environment, registered_at=now
    )


def _subscription(token: str | PushSubscription) -> PushSubscription:
    if isinstance(token, PushSubscription):
        return token
    try:
        return msgspec.json.decode(token, type=PushSubscription)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadRequest(
            "`token` of the platform webpush is not the JSON of a PushSubscription with endpoint "
            f"and keys: {error}"
        ) from None


def _web_push(hub: str, user_id: str, given: PushSubscription, now: int, reach: Reach) -> PushToken:
    _check_endpoint(given.endpoint, reach)
    public, secret = _decoded(given.keys.p256dh, "p256dh"), _decoded(given.keys.auth, "auth")
    if len(secret) != _AUTH_BYTES:
        raise BadRequest(f"`keys.auth` has {len(secret)} bytes, not {_AUTH_BYTES}")
    if len(public) != _POINT_BYTES or not is_point(public):
        raise BadRequest("`keys.p256dh` is not an uncompressed point of the curve P-256")
    expires_at = None
    if given.expiration_time is not None:
        if not now < given.expiration_time < 2**53:
            raise BadRequest("`expirationTime` is over; subscribe again in the browser")
        expires_at = int(given.expiration_time)
    return PushToken(
        hub, user_id, "webpush", given.endpoint, public, secret, registered_at=now,
        expires_at=expires_at,
    )  # fmt: skip


def _check_endpoint(endpoint: str, reach: Reach) -> CallbackParts:
    """`https` is required; `http` is allowed only to this machine, if the hub may send there. Names
    are resolved at connection time."""
    parts = check_callback(endpoint)
    address = "127.0.0.1" if parts.host == "localhost" else literal_address(parts.host)
    if address is not None and not may_reach(address, reach):
        raise BadRequest(
            f"the endpoint is at {parts.host!r}, where this hub sends nothing (callbackAddresses)"
        )
    is_local = address is not None and not may_reach(address, "public")
    if not parts.tls and not is_local:
        raise BadRequest("the endpoint does not begin with https://")
    return parts


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest(f"`keys.{name}` is not base64url") from None


def is_point(data: bytes) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data)
    except ValueError:
        return False
    return True


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def is_over(token: PushToken, now: int) -> bool:
    """Whether the token has expired. `now` is in ms since 1970."""
    if token.expires_at is not None and token.expires_at <= now:
        return True
    return token.registered_at + UNREFRESHED_MS <= now


def shown(token: PushToken) -> dict[str, Any]:
    """The fields of a token in a list, without the token itself; unset times are omitted."""
    return {
        "platform": token.platform,
        "token": token.token,
        "id": token.id,
        "topic": token.topic,
        "environment": token.environment,
        "vapid_key": token.vapid_key,
        "registered_at": token.registered_at,
        "expires_at": token.expires_at,
        "last_success_at": token.succeeded_at or None,
        "failures": token.failures,
    }
