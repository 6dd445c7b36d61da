"""What the parts of a webhook driver share, and how they ask callbacks and topics."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from hubbub.domain.callbacks import Reach
from hubbub.domain.webhooks import Webhook
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.outgoing import OutgoingGate
from hubbub.engine.webhooks.counting import PushCounters
from hubbub.engine.webhooks.limits import WebhookLimits
from hubbub.engine.webhooks.requests import USER_AGENT, Headers
from hubbub.engine.webhooks.transmitting import Transmit
from hubbub.ports.bus import Topic
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.outgoing import HttpRequest, HttpResponse, Purpose
from hubbub.ports.storage import Store


@dataclass(frozen=True, slots=True)
class DriverContext:
    """`topic` reaches the owner of the channels; `counters` are by hub."""

    store: Store
    clock: Clock
    topic: Topic
    configuration_of: ConfigurationOf
    outgoing: OutgoingGate
    limits: WebhookLimits
    journal: Journal
    transmit: Transmit
    """Sends an attempt; between `enter` and `leave` of `outgoing`."""
    counters: defaultdict[str, PushCounters] = field(
        default_factory=lambda: defaultdict(PushCounters)
    )

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int(self.clock.now() * 1000)

    def exceeds_longest_lease(self, webhook: Webhook) -> bool:
        """Whether the lease of a WebSub subscription ends later than one that begins now may."""
        end = webhook.expires_at
        longest = self.now() + 1000 * self.limits.max_lease_seconds
        return webhook.kind == "websub" and end is not None and end > longest

    def reach(self, hub: str) -> Reach:
        """The addresses that the hub sends requests to. Raises `HubNotFound`."""
        return self.configuration_of(hub).settings.callback_addresses

    async def get(
        self, purpose: Purpose, hub: str, url: str, headers: Headers, max_bytes: int
    ) -> HttpResponse:
        """Raises `SendFailed`, `HubNotFound`, and `BadRequest` for a URL that cannot be used."""
        request = HttpRequest(
            hub,
            "GET",
            url,
            (("User-Agent", USER_AGENT), *headers),
            timeout_seconds=self.limits.timeout_seconds,
            max_answer_bytes=max_bytes,
        )
        return await self.outgoing.send(purpose, request, self.reach(hub))
