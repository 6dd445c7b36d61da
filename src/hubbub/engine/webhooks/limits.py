"""The numbers that bound webhooks; settings fill them in."""

from __future__ import annotations

import msgspec

from hubbub.domain.webhooks import DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS

MAX_WEBHOOKS = 10_000
"""Of one hub, where its quota does not say otherwise."""


class WebhookLimits(msgspec.Struct, frozen=True):
    """Sizes in bytes, times in seconds."""

    hub: str | None = None
    """Which hub the doors at the root mean."""
    public_url: str | None = None
    timeout_seconds: float = 10.0
    answer_bytes: int = 64 * 1024
    per_host: int = 16
    """Requests under way to one host and port."""
    in_flight: int = 10_000
    """Requests under way in all."""
    retries: int = 100
    refused_retries: int = 7
    """Where the receiver answers that the request is wrong."""
    give_up_seconds: float = 86_400.0
    first_retry_seconds: float = 1.0
    longest_retry_seconds: float = 600.0
    breaker_failures: int = 5
    fetch_bytes: int = 1024 * 1024
    default_lease_seconds: float = DEFAULT_LEASE_SECONDS
    max_lease_seconds: float = MAX_LEASE_SECONDS
    stop_seconds: float = 2.0
    """How long requests under way may still take when the hub stops."""
