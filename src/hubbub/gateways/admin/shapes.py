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
    """The same values as another struct."""
    return msgspec.convert(value, kind, from_attributes=True)


Limit = Annotated[int, Meta(ge=1, le=1000, description="Entries in one page at most.")]
Cursor = Annotated[str, Meta(max_length=1024, description="`next` of the page before.")]


class Shape(
    msgspec.Struct, frozen=True, kw_only=True, rename=wire_name, forbid_unknown_fields=True
):
    """Base of all: unknown fields are refused by name."""


class ErrorInfo(Shape, frozen=True):
    """`code` is stable; `retry`: the same request may work later; `retryAfter`: in so many seconds,
    where that is known. The others are details of single codes. `position`: the character of a
    text, counted from 0, that is wrong; `at`: the place in a filter; `opIndex`: the operation of a
    JSON Patch that failed, and `reason`, why; `version`, `epoch`: where the document stands;
    `status`: the one that a command answers."""

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
    """Every failure has this form."""

    error: ErrorInfo


class Page(Shape, Generic[T], frozen=True):
    """A part of a list. With `next` there is more: send it as `cursor`."""

    items: list[T]
    next: str | None = None


class CountedPage(Page[T], Generic[T], frozen=True):
    """A part of a list that can be very long: at most 200 entries, whatever the `limit`. `total`
    counts all that match; what several nodes know is counted by each of them."""

    total: int = 0


class Named(Shape, Generic[T], frozen=True):
    """An entry of a list of settings; `version` is its ETag, 0 where it has none."""

    name: str
    version: int
    value: T


class ProviderOfHub(Named[AuthProvider], frozen=True):
    hub: str


class Namespace(Shape, frozen=True):
    """The rules of all channels whose name begins with the namespace and ':'."""

    rules: Name


class ChannelSettings(Shape, frozen=True):
    """Rules of a single channel; null: those of its namespace or of the hub."""

    rules: Name | None = None


class Metadata(Shape, frozen=True):
    """Anything that services want to note about a channel."""

    metadata: dict[str, Any]


class ChannelView(Shape, frozen=True):
    """A channel that has settings, or sessions, or both. Metadata of more than 500 bytes is left
    out: read it with the channel's own path."""

    channel: str
    sessions: int
    version: int
    rules: str | None = None
    metadata: dict[str, Any] = {}
    metadata_left_out: bool = False


class HubCreation(Shape, frozen=True):
    hub: Name
    settings: HubSettings = HubSettings()


class HubEntry(Shape, frozen=True):
    """`stored` is false for a hub that came into being by use and has no settings of its own."""

    hub: str
    stored: bool
    sessions: int
    channels: int


class HubView(HubEntry, frozen=True):
    """A hub with its settings."""

    version: int
    settings: HubSettings


class AllCounters(Shape, frozen=True):
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
    """`at` is in ms since 1970; `before` and `after` are what was and is stored, without
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
    """Who the token is for, and what they may do."""

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
    """`extra` is what the auth provider says about the user."""

    extra: dict[str, Any] = {}
