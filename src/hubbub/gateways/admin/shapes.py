"""The JSON bodies of the admin API. Fields have the names of the configuration file."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta

from hubbub.domain.fields import Name, UserId, wire_name
from hubbub.domain.rules import AuthProvider, HubSettings
from hubbub.engine.administration.views import Counters

T = TypeVar("T")


def into(kind: type[T], value: object) -> T:
    """Converts a struct to another with the same fields."""
    return msgspec.convert(value, kind, from_attributes=True)


Limit = Annotated[int, Meta(ge=1, le=1000, description="Entries in one page at most.")]
Cursor = Annotated[str, Meta(max_length=1024, description="`next` of the page before.")]


class Shape(
    msgspec.Struct, frozen=True, kw_only=True, rename=wire_name, forbid_unknown_fields=True
):
    """Base class: unknown fields are refused by name."""


class ErrorInfo(Shape, frozen=True):
    """`code` is stable; `retry`: the same request may succeed later; `retryAfter`: after this many
    seconds, if known. Other fields belong to single codes. `position`: index of the wrong character
    in a text, from 0; `at`: the position in a filter; `opIndex`: index of the JSON Patch operation
    that failed, and `reason` its cause; `version`, `epoch`: the document's current version;
    `status`: the status of a command."""

    code: str
    message: str
    retry: bool
    retry_after: float | None = None
    position: int | None = None
    at: str | None = None
    op_index: int | None = None
    reason: str | None = None
    version: int | None = None
    epoch: str | None = None
    status: int | None = None


class Error(Shape, frozen=True):
    """The form of every error."""

    error: ErrorInfo


class Page(Shape, Generic[T], frozen=True):
    """A page of a list. `next`, if set, is the `cursor` of the next page."""

    items: list[T]
    next: str | None = None


class CountedPage(Page[T], Generic[T], frozen=True):
    """A page of a list that can be very long: at most 200 entries, whatever the `limit`. `total`
    counts all matches; entries known to several nodes count once per node, and channels that only
    hold messages are not counted. A page may be short, or empty, while there is a next one."""

    total: int = 0


class Named(Shape, Generic[T], frozen=True):
    """An entry in a list of settings; `version` is its ETag, 0 if it has none."""

    name: str
    version: int
    value: T


class ProviderOfHub(Named[AuthProvider], frozen=True):
    """An auth provider and its hub."""

    hub: str


class Namespace(Shape, frozen=True):
    """The rules of all channels whose name begins with the namespace and ':'."""

    rules: Name


class ChannelSettings(Shape, frozen=True):
    """Rules of a single channel; null: those of its namespace or of the hub."""

    rules: Name | None = None


class Metadata(Shape, frozen=True):
    """Any JSON that services want to store about a channel."""

    metadata: dict[str, Any]


class ChannelView(Shape, frozen=True):
    """A channel that has settings, sessions or stored messages. Metadata of more than 500 bytes is
    left out: read it with the channel's own path. `stored` counts the messages, `storedBytes` the
    bytes of their payloads; `storedAt` is the time of the last one, in ms since 1970."""

    channel: str
    sessions: int
    version: int
    rules: str | None = None
    metadata: dict[str, Any] = {}
    metadata_left_out: bool = False
    stored: int = 0
    stored_bytes: int = 0
    stored_at: int | None = None


class HubCreation(Shape, frozen=True):
    """A new hub; settings that are left out have their defaults."""

    hub: Name
    settings: HubSettings = HubSettings()


class HubEntry(Shape, frozen=True):
    """`stored` is false for a hub that was created on first use and has no settings of its own."""

    hub: str
    stored: bool
    sessions: int
    channels: int


class HubView(HubEntry, frozen=True):
    """A hub with its settings. `storedBytes` is its storage that counts against its quota; a hub
    with `overQuota` exceeds the quota: its data is kept, and may only shrink."""

    version: int
    settings: HubSettings
    stored_bytes: int = 0
    over_quota: bool = False


class AllCounters(Shape, frozen=True):
    """Counters of the node that answers: their sum, and those of each hub."""

    total: Counters
    hubs: dict[str, Counters]


class RevokeToken(Shape, frozen=True, tag_field="kind", tag="token"):
    """Revoke the token with the id `subject`."""

    subject: UserId


class RevokeUser(Shape, frozen=True, tag_field="kind", tag="user"):
    """Revoke all tokens of the user `subject` that were issued so far."""

    subject: UserId


class RevokeHub(Shape, frozen=True, tag_field="kind", tag="hub"):
    """Revoke all tokens that were issued so far."""


Revocation = RevokeToken | RevokeUser | RevokeHub


class RevocationView(Shape, frozen=True):
    """Times in ms since 1970."""

    hub: str
    kind: str
    subject: str
    issued_until: int
    expires_at: int


class AuditView(Shape, frozen=True):
    """`at` is in ms since 1970; `before` and `after` are the previous and the new value, without
    secrets."""

    id: int
    at: int
    hub: str
    actor: str
    level: str
    action: str
    name: str
    token_id: str | None = None
    before: Any = None
    after: Any = None


class Grant(Shape, frozen=True):
    """Permission for the channels that match a pattern: `*` stands for anything, `#` for one
    segment between ':'."""

    channel: Annotated[str, Meta(min_length=1, max_length=255)]
    publish: bool = False
    subscribe: bool = False


class TokenRequest(Shape, frozen=True):
    """The user and the permissions of the token."""

    user_id: UserId | None = None
    level: Literal["client", "viewer", "service"] = "client"
    channels: Annotated[tuple[Grant, ...], Meta(max_length=100)] = ()
    rpcs: Annotated[tuple[Annotated[str, Meta(max_length=255)], ...], Meta(max_length=100)] = ()
    extra: dict[str, Any] = {}
    ttl_seconds: Annotated[int, Meta(ge=1, le=365 * 24 * 3600)] | None = None


class Token(Shape, frozen=True):
    """`expiresAt` is in seconds since 1970."""

    token: str
    token_id: str
    expires_at: int
    user_id: str | None = None


class ClientToken(Token, frozen=True):
    """`extra` is the auth provider's data about the user."""

    extra: dict[str, Any] = {}
