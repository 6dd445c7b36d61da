"""The numbers that bound webhooks, with their keys in the configuration."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from hubbub.domain.webhooks import DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS

MAX_WEBHOOKS = 10_000
"""Of one hub, where its quota does not say otherwise."""


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
"""Keys that are not called like their attribute, which says its unit."""


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True, rename=_KEYS):
    """Messages that go out as HTTP requests, and the doors `/hub` and `/websub`."""

    hub: str | None = None
    """The hub that `/hub` and `/websub` mean; without it the only one that is declared, in
    developer mode `demo`."""
    public_url: str | None = None
    """How others reach this server, such as `https://hub.example.com`: for links, and to know own
    topics by their URL. Without it, links are relative."""
    timeout_seconds: Annotated[float, Meta(ge=0.1, le=120)] = 10.0
    """Time for one request to a receiver."""
    answer_bytes: Annotated[int, Meta(ge=1024, le=16 * _MEBIBYTE)] = 65_536
    """Size of a receiver's answer at most."""
    per_host: Annotated[int, Meta(ge=1, le=1000)] = 16
    """Requests under way to one host and port at most."""
    in_flight: Annotated[int, Meta(ge=1, le=100_000)] = 10_000
    """Requests under way in all at most."""
    retries: Annotated[int, Meta(ge=0, le=10_000)] = 100
    """How often a message is tried again before it goes to the dead letters."""
    refused_retries: Annotated[int, Meta(ge=0, le=10_000)] = 7
    """The same where the receiver answers that the request is wrong (3xx, 4xx), within
    `retries`."""
    give_up_seconds: Annotated[float, Meta(ge=0.1, le=365 * _DAY)] = _DAY
    """Time after the first failure in which it is tried."""
    first_retry_seconds: Annotated[float, Meta(ge=0.01, le=3600)] = 1.0
    """Time before it is tried again; twice as long after each failure."""
    longest_retry_seconds: Annotated[float, Meta(ge=0.01, le=_DAY)] = 600.0
    """The longest such time, also where `Retry-After` asks."""
    breaker_failures: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Failures in a row after which a host is left alone for a while; then one request finds out
    whether it is back."""
    fetch_bytes: Annotated[int, Meta(ge=1024, le=64 * _MEBIBYTE)] = _MEBIBYTE
    """Size of a topic that is fetched after a ping."""
    default_lease_seconds: Annotated[float, Meta(ge=60, le=3650 * _DAY)] = DEFAULT_LEASE_SECONDS
    """Time for which a WebSub subscription holds."""
    max_lease_seconds: Annotated[float, Meta(ge=60, le=3650 * _DAY)] = MAX_LEASE_SECONDS
    """The longest such time that a subscriber gets."""


class WebhookLimits(WebhookSettings, frozen=True, kw_only=True):
    """The settings, and what no operator decides."""

    stop_seconds: float = 2.0
    """How long requests under way may still take when the hub stops."""
