"""Limits of webhooks, with their keys in the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.webhooks import DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS

MAX_WEBHOOKS = 10_000
"""Maximum number per hub, unless the hub's quota says otherwise."""


_DAY = 86_400.0
_MEBIBYTE = 1 << 20
_KEYS = {
    "timeout_seconds": "timeout",
    "answer_bytes": "max_response_bytes",
    "in_flight": "max_in_flight",
    "give_up_seconds": "give_up_after",
    "first_retry_seconds": "first_retry",
    "longest_retry_seconds": "longest_retry",
    "fetch_bytes": "fetch_max_bytes",
    "default_lease_seconds": "default_lease",
    "max_lease_seconds": "max_lease",
}
"""Configuration keys that differ from their attribute, whose name includes the unit."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_KEYS):
    """Outgoing HTTP requests, and the paths `/hub` and `/websub`."""

    hub: str | None = None
    """The hub that serves `/hub` and `/websub`. Default: the only declared hub, or `demo` in
    developer mode."""
    public_url: str | None = None
    """The public URL of this server, such as `https://hub.example.com`. It is used in links, and to
    recognise the URLs of own topics. Without it, links are relative."""
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=120)] = 10.0
    """Timeout of one request to a receiver."""
    answer_bytes: Annotated[int, Meta(ge=1024, le=16 * _MEBIBYTE)] = 65_536
    """Maximum size of a receiver's response."""
    per_host: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Maximum number of concurrent requests to one host and port."""
    in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Maximum number of concurrent requests in all."""
    retries: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """Retries of a message before it becomes a dead letter."""
    refused_retries: Annotated[int, Meta(ge=0, le=10_000)] = 7
    """Retries, within `retries`, if the receiver rejects the request (3xx, 4xx)."""
    give_up_seconds: Annotated[float, Meta(ge=0.1, le=365 * _DAY)] = _DAY
    """Time after the first failure in which a message is retried."""
    first_retry_seconds: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    """Pause before the first retry; it doubles after each failure."""
    longest_retry_seconds: Annotated[float, Meta(ge=0.01, le=_DAY)] = 600.0
    """Maximum pause between retries, also if `Retry-After` asks for more."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Consecutive failures after which requests to a host pause; a single request then tests
    whether the host is available again."""
    fetch_bytes: Annotated[int, Meta(ge=1024, le=64 * _MEBIBYTE)] = _MEBIBYTE
    """Maximum size of a topic fetched after a ping."""
    default_lease_seconds: Annotated[float, Meta(ge=60, le=3650 * _DAY)] = DEFAULT_LEASE_SECONDS
    """Lease of a WebSub subscription that asks for none."""
    max_lease_seconds: Annotated[float, Meta(ge=60, le=3650 * _DAY)] = MAX_LEASE_SECONDS
    """Maximum lease of a WebSub subscription."""


class WebhookLimits(WebhookSettings, frozen=True, kw_only=True):
    """The settings, and limits that are not configurable."""

    stop_seconds: float = 2.0
    """How long requests in progress may take when the hub stops."""
