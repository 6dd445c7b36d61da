"""What the settings say about webhooks, as the engine reads it."""

from __future__ import annotations

from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.server.settings import Settings


def webhook_limits(settings: Settings) -> WebhookLimits:
    given = settings.webhooks
    return WebhookLimits(
        hub=given.hub or _usual_hub(settings),
        public_url=given.public_url,
        timeout_seconds=given.timeout,
        answer_bytes=given.max_response_bytes,
        per_host=given.per_host,
        in_flight=given.max_in_flight,
        retries=given.retries,
        give_up_seconds=given.give_up_after,
        first_retry_seconds=given.first_retry,
        longest_retry_seconds=given.longest_retry,
        breaker_failures=given.breaker_failures,
        fetch_bytes=given.fetch_max_bytes,
        default_lease_seconds=given.default_lease,
        max_lease_seconds=given.max_lease,
    )


def _usual_hub(settings: Settings) -> str | None:
    """`demo` in developer mode, else the only one."""
    if settings.developer and "demo" in settings.hubs:
        return "demo"
    return next(iter(settings.hubs)) if len(settings.hubs) == 1 else None
