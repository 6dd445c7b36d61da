"""What the settings say about webhooks, as the engine reads it."""

from __future__ import annotations

import msgspec

from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.server.settings import Settings


def webhook_limits(settings: Settings) -> WebhookLimits:
    given = msgspec.structs.asdict(settings.webhooks)
    return WebhookLimits(**{**given, "hub": given["hub"] or _usual_hub(settings)})


def _usual_hub(settings: Settings) -> str | None:
    """`demo` in developer mode, else the only one."""
    if settings.developer and "demo" in settings.hubs:
        return "demo"
    return next(iter(settings.hubs)) if len(settings.hubs) == 1 else None
