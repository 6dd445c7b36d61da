"""Webhooks: receivers that get each message of a channel as an HTTP request.

A webhook is a durable subscription of the owner `webhook`, named by the webhook's id; what is here
says where its messages go, how they are signed, and until when. `WebTopic` is what a hub knows of
a topic of Light-PubSubHubbub or WebSub beyond the channel that holds its messages.
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
"""The owner of the durable subscriptions; no principal has this name."""

MIN_LEASE_SECONDS = 60
MAX_LEASE_SECONDS = 30 * 86_400
DEFAULT_LEASE_SECONDS = 10 * 86_400
MAX_SECRET_BYTES = 199
"""WebSub wants less than 200."""
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 64

Kind = Literal["light", "websub", "plain"]
DrivenKind = Literal["light", "websub", "plain", "peer"]
"""`peer`: a peer subscription, which no door of webhooks shows; its `callback` is the peer's id."""
Algorithm = Literal["sha1", "sha256", "sha384", "sha512"]
ALGORITHMS: tuple[Algorithm, ...] = ("sha1", "sha256", "sha384", "sha512")
State = Literal["pending", "active", "paused"]
Mode = Literal["subscribe", "unsubscribe"]

_CHANNEL_PREFIX = "websub:"
_MAX_CHANNEL_CHARS = MAX_NAME_CHARS - len(".dead")
"""So that the dead letters have a name, too."""


class WebTopic(msgspec.Struct, frozen=True):
    """A topic that was registered, or that is fetched from its `url`. Times are ms since 1970."""

    hub: str
    channel: str
    key_hash: bytes | None = None
    """Who publishes must know the key with this hash; None: there is none."""
    created_at: int = 0
    url: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    digest: bytes | None = None
    """Of what was fetched last."""
    content_type: str | None = None
    open: bool = False
    """It was made through `open_topics`, which holds for it."""
    pinged_at: int | None = None
    """When its publisher said that there is something new at `url`; None: that was fetched, or
    given up."""
    fetch_failures: int = 0
    """In a row."""
    fetch_error: str | None = None
    """Of the last fetch; None: it went well."""

    @property
    def with_key(self) -> bool:
        return self.key_hash is not None


class Pending(msgspec.Struct, frozen=True):
    """A request of a subscriber that the callback has to confirm."""

    mode: Mode
    requested_at: int
    """Milliseconds since 1970."""
    lease_seconds: int = DEFAULT_LEASE_SECONDS
    secret: bytes | None = None
    algorithm: Algorithm = "sha256"


class Webhook(msgspec.Struct, frozen=True):
    """Where the messages of a channel go. Times are ms since 1970."""

    hub: str
    channel: str
    id: str
    kind: DrivenKind
    callback: str
    topic: str
    """The URL or name under which the subscriber knows the channel."""
    secret: bytes | None = None
    """Signs what is sent. It is in no answer, log or metric."""
    algorithm: Algorithm = "sha256"
    key: bytes | None = None
    """Encrypts what is sent, as RFC 8188 says; as secret as the secret."""
    created_at: int = 0
    expires_at: int | None = None
    state: State = "active"
    owner: str | None = None
    """The principal that made it."""
    hub_url: str | None = None
    """Where the subscriber reached the hub, for the links of WebSub."""
    pending: Pending | None = None
    """What is being verified; a webhook that is active stays as it is until then."""
    acting: Reader | None = None
    """As whom it is sent messages, whatever becomes of the token; None: made before this was
    kept."""

    def __repr__(self) -> str:
        """Without secret and key."""
        return f"<Webhook {self.id} {self.kind} {self.hub}/{self.channel} {self.state}>"

    @property
    def signed(self) -> bool:
        return self.secret is not None

    @property
    def encrypted(self) -> bool:
        return self.key is not None

    @property
    def host(self) -> str:
        """Host and port that the limits count by; of a peer, its name."""
        if self.kind == "peer":
            return f"peer:{self.callback}"
        parts = check_callback(self.callback)
        return f"{parts.host}:{parts.port}"


class WantedWebhook(msgspec.Struct, frozen=True):
    """What somebody asks for who wants to be sent a channel's messages."""

    kind: Kind
    channel: str
    callback: str
    topic: str = ""
    """As the subscriber calls it; empty: like the channel."""
    secret: bytes | None = None
    algorithm: Algorithm = "sha256"
    key: bytes | None = None
    lease_seconds: str | float | None = None
    hub_url: str | None = None
    """Where the subscriber reached the hub."""


class WebhookStatus(msgspec.Struct):
    """How a webhook is doing, from its driver. Counts are since the driver began."""

    lag: int = 0
    """Messages that have not arrived yet."""
    delivered: int = 0
    attempts: int = 0
    """Of the message that is tried now; 0: none is."""
    failures: int = 0
    last_status: int | None = None
    last_error: str | None = None
    last_latency_seconds: float | None = None
    """How long the last request took."""
    last_delivered_at: int | None = None
    """Milliseconds since 1970."""
    next_try_at: int | None = None
    """Milliseconds since 1970; None: at once, or there is nothing to do."""
    breaker: Literal["closed", "open", "probing"] = "closed"
    dead_letters: int = 0


class Replayed(msgspec.Struct, frozen=True):
    """Counts of dead letters that were sent again. `more`: there are others."""

    delivered: int = 0
    failed: int = 0
    more: bool = False
    after: int = 0
    """Where to go on."""


def webhook_id(
    kind: DrivenKind, hub: str, channel: str, callback: str, owner: str | None = None
) -> str:
    """An owner who subscribes again gets the same one; another owner never does. Without an
    owner: as the ids were made before they named one."""
    text = "\x00".join((kind, hub, channel, callback, *(() if owner is None else (owner,))))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_foreign(channel: str) -> bool:
    """Whether it is the channel of a topic that lives somewhere else."""
    return channel.startswith(_CHANNEL_PREFIX)


def hash_topic_key(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def fits_topic_key(key: str | None, key_hash: bytes) -> bool:
    """Takes the same time for every wrong key."""
    return key is not None and hmac.compare_digest(hash_topic_key(key), key_hash)


def websub_channel(url: str) -> str:
    """The channel of a topic that lives somewhere else."""
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
    """For how long a subscription holds that asked for so much. A hub chooses what it grants, so
    that too much and too little are brought within bounds. Raises `BadRequest` for what is no
    number, or one below 0."""
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
    """As in `X-Hub-Signature`."""
    return f"{algorithm}={hmac.digest(secret, body, algorithm).hex()}"


def verify_signature(secret: bytes, given: str, body: bytes) -> bool:
    """Whether it is the body's, by any of the algorithms. Takes the same time for every wrong
    one."""
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
    """How long to wait after the attempt with this number, from 1: twice as long each time. With
    `random` from 0 to 1 it is up to a quarter more, so that those who failed together do not come
    back together."""
    doubled = first_seconds * 2.0 ** min(attempt - 1, 60)
    return min(doubled, longest_seconds) * (1 + 0.25 * random)
