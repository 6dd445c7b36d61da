"""Attempts: sends one message to one webhook until it arrives or is given up."""

from __future__ import annotations

import math

from hubbub.domain.envelope import expires_at
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.journal import WEBHOOK_ATTEMPT, JournalEvent
from hubbub.domain.messages import Message
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.outward.attempts import (
    Attempted,
    Expired,
    OutwardAttempts,
    Pace,
    ReceiverEnded,
    Shipment,
)
from hubbub.engine.outward.gate import Destination
from hubbub.engine.outward.retrying import GivenUp, retry_after_seconds
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.engine.webhooks.handover import hand_over
from hubbub.engine.webhooks.requests import Sealed
from hubbub.ports.outgoing import HttpResponse, SendFailed

_TECHNOLOGIES = {"light": "light", "websub": "websub", "plain": "webhook"}
_MOMENT_SECONDS = 1.0


class HubPart:
    """The hub's settings that apply to its webhooks."""

    __slots__ = ("configuration", "pace", "quiet", "reach")

    def __init__(self, configuration: HubConfiguration) -> None:
        settings = configuration.settings
        rate = settings.quotas.webhook_requests_per_second
        self.configuration = configuration
        self.reach = settings.callback_addresses
        self.pace = Pace(rate) if rate else None
        self.quiet: dict[str, bool] = {}
        """Whether the journal leaves a channel out, by channel."""

    def is_quiet(self, channel: str) -> bool:
        quiet = self.quiet.get(channel)
        if quiet is None:
            quiet = self.configuration.rules_for(channel).journal == "off"
            self.quiet[channel] = quiet
        return quiet


class Attempts:
    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._outward = OutwardAttempts(context.outgoing, context.clock, context.limits)
        self._hubs: dict[str, HubPart] = {}

    def hub_changed(self, hub: str) -> None:
        self._hubs.pop(hub, None)

    async def deliver(self, driven: DrivenWebhook, message: Message) -> None:
        """Returns once the message has arrived; for a peer, once there is a verdict. Raises
        `GivenUp`, `Expired`, `ReceiverEnded`, `Stopped`, and `HubbubError` if the log of the hub
        accepts no message now."""
        if driven.webhook.kind == "peer":
            await hand_over(self._context, driven, message)
            return
        shipment = self._shipment(driven, message, None)
        await self._outward.deliver(shipment, shipment.hub.pace)

    async def try_once(self, driven: DrivenWebhook, sealed: Sealed, message: Message) -> bool:
        """Makes one attempt and returns whether the message arrived; waits only briefly for its
        host's turn."""
        try:
            shipment = self._shipment(driven, message, sealed)
            attempted = await self._outward.once(shipment, 1, shipment.hub.pace, _MOMENT_SECONDS)
        except (GivenUp, Expired, ReceiverEnded):
            return False
        return attempted.arrived

    def _shipment(
        self, driven: DrivenWebhook, message: Message, sealed: Sealed | None
    ) -> WebhookShipment:
        return WebhookShipment(
            self._context, self._hub(driven.webhook.hub), driven, message, sealed
        )

    def _hub(self, name: str) -> HubPart:
        part = self._hubs.get(name)
        if part is None:
            try:
                configuration = self._context.configuration_of(name)
            except HubbubError as error:
                raise ReceiverEnded(error.message) from None
            part = self._hubs[name] = HubPart(configuration)
        return part


class WebhookShipment(Shipment):
    """A message on its way to a webhook, as HTTP requests."""

    __slots__ = ("_context", "_driven", "_message", "_sealed", "_webhook", "hub")

    def __init__(
        self,
        context: DriverContext,
        hub: HubPart,
        driven: DrivenWebhook,
        message: Message,
        sealed: Sealed | None,
    ) -> None:
        super().__init__()
        self._context = context
        self.hub = hub
        self._driven = driven
        self._message = message
        self._webhook = driven.webhook
        self._sealed = sealed or self._seal()

    def _seal(self) -> Sealed:
        driven = self._driven
        return Sealed(driven.webhook, driven.lasting, self._message, self._context.limits)

    @property
    def destination(self) -> Destination:
        return self._driven.host

    @property
    def is_stopped(self) -> bool:
        return self._driven.gone

    def note(self, attempts: int, next_try_at: int | None) -> None:
        self._driven.status.attempts = attempts
        self._driven.status.next_try_at = next_try_at

    def lifetime(self) -> float:
        lease = self._driven.webhook.expires_at
        if lease is not None and lease <= self._context.now():
            raise ReceiverEnded("its lease is over")
        limit = expires_at(self._message)
        return math.inf if limit is None else limit / 1000 - self._context.clock.now()

    async def attempt(self, number: int) -> Attempted:
        driven = self._driven
        if driven.webhook is not self._webhook:  # it was changed meanwhile
            self._webhook = driven.webhook
            self._sealed = self._seal()
        driven.sending = True
        began = self._context.clock.monotonic()
        answer: HttpResponse | None = None
        failed: SendFailed | None = None
        try:
            request = self._sealed.attempt(number)
            answer = await self._context.transmit(request, self.hub.reach, self._message)
            well = answer.status < 500
        except SendFailed as error:
            failed = error
            well = error.word == "too_large"
        except BadRequest as error:
            raise ReceiverEnded(error.message) from None
        finally:
            driven.sending = False
        status = answer.status if answer is not None else failed.status if failed else None
        if status is not None and 200 <= status < 300 and (well or answer is not None):
            seconds = self._arrived(answer, status)
            self._tell(number, "ok", status, seconds)
            return Attempted(True, well, status)
        seconds = self._context.clock.monotonic() - began
        self._tell(number, self._failed(failed, status, seconds), status, seconds)
        if status == 410:
            raise ReceiverEnded("the receiver answered 410")
        return Attempted(
            False, well, status, retry_after_seconds(answer, self._context.clock.now())
        )

    def _arrived(self, answer: HttpResponse | None, status: int) -> float:
        """Records a success; returns the duration of the request in seconds."""
        seconds = answer.duration_seconds if answer is not None else 0.0
        known = self._driven.status
        known.delivered += 1
        known.last_status = status
        known.last_error = None
        known.last_latency_seconds = seconds
        known.last_delivered_at = self._context.now()
        counters = self._context.counters[self._webhook.hub]
        counters.outcomes["ok"] += 1
        counters.answered.took(seconds)
        return seconds

    def _failed(self, failed: SendFailed | None, status: int | None, seconds: float) -> str:
        """Records a failure; returns the journal's word for it."""
        known = self._driven.status
        known.last_latency_seconds = seconds
        self._context.counters[self._webhook.hub].failed.took(seconds)
        known.failures += 1
        known.last_status = status
        known.last_error = failed.message if failed else f"the receiver answered {status}"
        word = failed.word if failed else "status"
        outcome = f"{status // 100}xx" if failed is None and status is not None else word
        self._context.counters[self._webhook.hub].outcomes[outcome] += 1
        return word

    def _tell(self, number: int, outcome: str, status: int | None, seconds: float) -> None:
        message, webhook = self._message, self._webhook
        if not self._context.journal.enabled or self.hub.is_quiet(message.channel):
            return
        self._context.journal.record(
            JournalEvent(
                WEBHOOK_ATTEMPT,
                int(self._context.clock.now() * 1e6),
                webhook.hub,
                channel=webhook.channel,
                technology=_TECHNOLOGIES[webhook.kind],
                message_id=message.id,
                serial=message.serial,
                published_at=message.published_at * 1000,
                subscription=webhook.id,
                attempt=number,
                outcome=outcome,
                status=status,
                duration=int(seconds * 1e6),
                peer=self._driven.host.name,
            )
        )
