"""Webhooks: receivers that get each message of a channel as an HTTP request.

A webhook is a durable subscription of the owner `webhook`, named by the webhook's id; this module
defines its destination, signature and expiry. `WebTopic` is what a hub knows of a topic of
Light-PubSubHubbub or WebSub besides the channel with its messages.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

import msgspec

from hubbub.domain.callbacks import check_callback
from hubbub.domain.errors import BadRequest
from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.permissions import Reader

WEBHOOK_OWNER = "webhook"
"""The owner of webhooks' durable subscriptions; no principal has this name."""

MIN_LEASE_SECONDS = 60
MAX_LEASE_SECONDS = 30 * 86_400
DEFAULT_LEASE_SECONDS = 10 * 86_400
MAX_SECRET_BYTES = 199
"""WebSub requires less than 200 bytes."""
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64

Kind = Literal["light", "websub", "plain"]
DrivenKind = Literal["light", "websub", "plain", "peer"]
"""`peer`: a peer subscription, which the webhook APIs do not show; its `callback` is the peer's
id."""
Algorithm = Literal["sha1", "sha256", "sha384", "sha512"]
ALGORITHMS: tuple[Algorithm, ...] = ("sha1", "sha256", "sha384", "sha512")
State = Literal["pending", "active", "paused"]
Mode = Literal["subscribe", "unsubscribe"]

_CHANNEL_PREFIX = "websub:"
_MAX_CHANNEL_CHARS = MAX_NAME_CHARS - len(".dead")
"""The longest channel name whose dead letters still have a valid name."""


class WebTopic(msgspec.Struct, frozen=True):
    """A topic that was registered, or whose content is fetched from `url`. Times are ms since
    1970."""

    hub: str
    channel: str
    key_hash: bytes | None = None
    """Hash of the key that publishers must present; None: no key required."""
    created_at: int = 0
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    digest: bytes | None = None
    """Digest of the last fetched content."""
    content_type: str | None = None
    open: bool = False
    """The topic was created through `open_topics`."""
    pinged_at: int | None = None
    """When its publisher announced new content at `url`; None: fetched, or given up."""
    fetch_failures: int = 0
    """Consecutive failures."""
    fetch_error: str | None = None
    """The error of the last fetch; None: it succeeded."""

    @property
    def with_key(self) -> bool:
        return self.key_hash is not None


class PendingVerification(msgspec.Struct, frozen=True):
    """A subscriber's request that the callback must confirm."""

    mode: Mode
    requested_at: int
    """Milliseconds since 1970."""
    lease_seconds: int = DEFAULT_LEASE_SECONDS
    secret: bytes | None = None
    algorithm: Algorithm = "sha256"


class Webhook(msgspec.Struct, frozen=True):
    """The destination of a channel's messages. Times are ms since 1970."""

    hub: str
    channel: str
    id: str
    kind: DrivenKind
    callback: str
    topic: str
    """The URL or name under which the subscriber knows the channel."""
    secret: bytes | None = None
    """Signs requests. It appears in no response, log or metric."""
    algorithm: Algorithm = "sha256"
    key: bytes | None = None
    """Encrypts requests per RFC 8188; as confidential as the secret."""
    created_at: int = 0
    expires_at: int | None = None
    state: State = "active"
    owner: str | None = None
    """The principal that created the webhook."""
    hub_url: str | None = None
    """The URL under which the subscriber reached the hub, for WebSub links."""
    pending: PendingVerification | None = None
    """The request that is being verified; an active webhook stays unchanged until then."""
    acting: Reader | None = None
    """The identity under which the webhook reads, independent of the token's lifetime; None:
    created by a version that did not record it."""

    def __repr__(self) -> str:
        """Omits secret and key."""
        return f"<Webhook {self.id} {self.kind} {self.hub}/{self.channel} {self.state}>"

    @property
    def signed(self) -> bool:
        return self.secret is not None

    @property
    def encrypted(self) -> bool:
        return self.key is not None

    @property
    def host(self) -> str:
        """Host and port for rate limits; for a peer subscription, the peer's name."""
        if self.kind == "peer":
            return f"peer:{self.callback}"
        parts = check_callback(self.callback)
        return f"{parts.host}:{parts.port}"


class WantedWebhook(msgspec.Struct, frozen=True):
    """The request of a subscriber to create a webhook."""

    kind: Kind
    channel: str
    callback: str
    topic: str = ""
    """The subscriber's name for the topic; empty: the channel's name."""
    secret: bytes | None = None
    algorithm: Algorithm = "sha256"
    key: bytes | None = None
    lease_seconds: str | float | None = None
    hub_url: str | None = None
    """The URL under which the subscriber reached the hub."""


class WebhookStatus(msgspec.Struct):
    """The status of a webhook, from its driver. Counters start with the driver."""

    lag: int = 0
    """Undelivered messages."""
    delivered: int = 0
    attempts: int = 0
    """Failed attempts for the current message; 0: none."""
    failures: int = 0
    last_status: int | None = None
    last_error: str | None = None
    last_latency_seconds: float | None = None
    """Duration of the last request."""
    last_delivered_at: int | None = None
    """Milliseconds since 1970."""
    next_try_at: int | None = None
    """Milliseconds since 1970; None: at once, or nothing is pending."""
    breaker: Literal["closed", "open", "probing"] = "closed"
    dead_letters: int = 0


class Replayed(msgspec.Struct, frozen=True):
    """Counts of resent dead letters. `more`: others remain."""

    delivered: int = 0
    failed: int = 0
    more: bool = False
    after: int = 0
    """Where to continue."""


def webhook_id(
    kind: DrivenKind, hub: str, channel: str, callback: str, owner: str | None = None
) -> str:
    """Repeated subscriptions of an owner get the same id; another owner gets another one. Without
    an owner, the id has the form of versions that did not include the owner."""
    text = "\x00".join((kind, hub, channel, callback, *(() if owner is None else (owner,))))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_foreign(channel: str) -> bool:
    """Whether the channel belongs to a topic hosted elsewhere."""
    return channel.startswith(_CHANNEL_PREFIX)


def hash_topic_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def fits_topic_key(key: str | None, key_hash: bytes) -> bool:
    """Compares in constant time."""
    return key is not None and hmac.compare_digest(hash_topic_key(key), key_hash)


def websub_channel(url: str) -> str:
    """The channel of a topic hosted elsewhere."""
    name = _CHANNEL_PREFIX + "".join(c if _may_name(c) else _quoted(c) for c in url)
    if len(name) <= _MAX_CHANNEL_CHARS:
        return name
    return f"{_CHANNEL_PREFIX}sha256:{hashlib.sha256(url.encode()).hexdigest()}"


def _may_name(character: str) -> bool:
    return character not in "*#" and " " < character < "\x7f"


def _quoted(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


# -- what is asked for ----------------------------------------------------------------------------


def check_secret(secret: bytes | None) -> bytes | None:
    """Raises `BadRequest`."""
    if secret is not None and not 1 <= len(secret) <= MAX_SECRET_BYTES:
        raise BadRequest(
            f"the secret has {len(secret)} bytes; give 1 to {MAX_SECRET_BYTES}, or none"
        )
    return secret


def check_key(key: bytes | None) -> bytes | None:
    """Raises `BadRequest`."""
    if key is not None and not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise BadRequest(
            f"the key has {len(key)} bytes; give {MIN_KEY_BYTES} to {MAX_KEY_BYTES} random ones"
        )
    return key


def check_algorithm(name: str) -> Algorithm:
    """Raises `BadRequest`."""
    for known in ALGORITHMS:
        if name == known:
            return known
    raise BadRequest(f"the algorithm is {name[:20]!r}; give one of {', '.join(ALGORITHMS)}")


def lease_seconds(
    asked: str | float | None,
    default: float = DEFAULT_LEASE_SECONDS,
    longest: float = MAX_LEASE_SECONDS,
) -> int:
    """The granted lease of a subscription: the requested duration, clamped to the bounds. Raises
    `BadRequest` if it is not a number or is negative."""
    if asked is None or asked == "":
        return int(min(default, longest))
    try:
        seconds = float(asked)
        whole = int(seconds)
    except (ValueError, OverflowError):
        raise _bad_lease(asked) from None
    if seconds < 0:
        raise _bad_lease(asked)
    if whole == 0:
        return int(min(default, longest))
    return int(max(MIN_LEASE_SECONDS, min(whole, longest)))


def _bad_lease(asked: object) -> BadRequest:
    return BadRequest(
        f"lease_seconds is {str(asked)[:40]!r}; give a number of seconds, 0 for the usual time"
    )


# -- signatures -----------------------------------------------------------------------------------


def signature(secret: bytes, algorithm: Algorithm, body: bytes) -> str:
    """The value of `X-Hub-Signature`."""
    return f"{algorithm}={hmac.digest(secret, body, algorithm).hex()}"


def verify_signature(secret: bytes, given: str, body: bytes) -> bool:
    """Whether the signature is valid for the body under any of the algorithms. Compares in constant
    time."""
    name, _, digest = given.strip().partition("=")
    for algorithm in ALGORITHMS:
        if name == algorithm:
            expected = hmac.digest(secret, body, algorithm).hex()
            return hmac.compare_digest(expected.encode(), digest.lower().encode())
    return False


# -- retries --------------------------------------------------------------------------------------


def retry_delay(
    attempt: int, random: float, first_seconds: float = 1.0, longest_seconds: float = 600.0
) -> float:
    """The delay after the attempt with this number, from 1: exponential, with up to 25 % jitter
    from `random` (0 to 1), so that clients that failed together do not retry together."""
    doubled = first_seconds * 2.0 ** min(attempt - 1, 60)
    return min(doubled, longest_seconds) * (1 + 0.25 * random)
