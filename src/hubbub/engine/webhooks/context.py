"""State shared by the parts of a webhook driver, and requests to callbacks and topics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hubbub.domain.callbacks import Reach
from hubbub.domain.webhooks import Webhook
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.outward.gate import OutgoingGate
from hubbub.engine.outward.limits import WebhookLimits
from hubbub.engine.webhooks.counting import PushCounters
from hubbub.engine.webhooks.requests import Headers
from hubbub.engine.webhooks.transmitting import Transmit
from hubbub.ports.bus import Ask
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.outgoing import USER_AGENT, HttpRequest, HttpResponse, Purpose
from hubbub.ports.storage import Store


@dataclass(frozen=True, slots=True)
class DriverContext:
    """`ask` sends requests to the owner of the channels; `counters` are by hub."""

    store: Store
    clock: Clock
    ask: Ask
    configuration_of: ConfigurationOf
    outgoing: OutgoingGate
    limits: WebhookLimits
    journal: Journal
    transmit: Transmit
    """Sends an attempt; call it between `enter` and `leave` of `outgoing`."""
    counters: defaultdict[str, PushCounters] = field(
        default_factory=lambda: defaultdict(PushCounters)
    )

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self.clock.now() * 1000)

    def exceeds_longest_lease(self, webhook: Webhook) -> bool:
        """Whether a WebSub subscription ends later than the maximum lease allows, counted from
        now."""
        end = webhook.expires_at
        longest = self.now() + 1000 * self.limits.max_lease_seconds
        return webhook.kind == "websub" and end is not None and end > longest

    def reach(self, hub: str) -> Reach:
        """The addresses to which the hub may send requests. Raises `HubNotFound`."""
        return self.configuration_of(hub).settings.callback_addresses

    async def get(
        self, purpose: Purpose, hub: str, url: str, headers: Headers, max_bytes: int
    ) -> HttpResponse:
        """Sends a GET. Raises `SendFailed`, `HubNotFound`, and `BadRequest` for an invalid URL."""
        request = HttpRequest(
            hub,
            "GET",
            url,
            (("User-Agent", USER_AGENT), *headers),
            timeout_seconds=self.limits.timeout_seconds,
            max_answer_bytes=max_bytes,
        )
        return await self.outgoing.send(purpose, request, self.reach(hub))
