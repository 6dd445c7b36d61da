"""Requests of one process to servers that tenants named."""

from __future__ import annotations

import msgspec

from hubbub.connectors.http2_out import Http2Out
from hubbub.connectors.http_out import HttpOut
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.server.settings import Settings


class OutgoingConnections:
    """The gate for all outgoing requests, and its connections."""

    def __init__(self, settings: Settings) -> None:
        self.limits = webhook_limits(settings)
        self._http = HttpOut()
        self.http2 = Http2Out()
        """For push services that require HTTP/2."""
        self.gate = OutgoingGate(self._http, self.limits)

    async def close(self) -> None:
        """Closes all connections, including those with requests in flight."""
        await self._http.close()
        await self.http2.close()


def webhook_limits(settings: Settings) -> WebhookLimits:
    given = msgspec.structs.asdict(settings.webhooks)
    return WebhookLimits(**{**given, "hub": given["hub"] or _usual_hub(settings)})


def _usual_hub(settings: Settings) -> str | None:
    """`demo` in developer mode, else the only hub."""
    if settings.developer and "demo" in settings.hubs:
        return "demo"
    return next(iter(settings.hubs)) if len(settings.hubs) == 1 else None
