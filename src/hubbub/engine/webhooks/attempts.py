"""Attempts: one message to one webhook, until it arrives or is given up."""

from __future__ import annotations

import asyncio
import math

from hubbub.domain.envelope import expires_at
from hubbub.domain.errors import BadRequest, HubbubError
from hubbub.domain.journal import WEBHOOK_ATTEMPT, JournalEvent
from hubbub.domain.messages import Message
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.push import Push
from hubbub.engine.webhooks.requests import Sealed
from hubbub.engine.webhooks.retrying import GivenUp, pause_seconds, retry_after_seconds
from hubbub.ports.outgoing import HttpResponse, SendFailed

_TECHNOLOGIES = {"light": "light", "websub": "websub", "plain": "webhook"}
_MOMENT_SECONDS = 1.0


class Expired(Exception):
    """The message's time to live was over before it arrived."""


class Ended(Exception):
    """The webhook is over."""


class Stopped(Exception):
    """The webhook is not driven on this node any more."""


class Pace:
    """So many requests each second for a hub; what is too fast waits."""

    __slots__ = ("_next", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._next = 0.0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        due = max(now - 1.0, self._next)  # what a quiet second left over may go at once
        self._next = due + 1 / self._rate
        if due > now:
            await asyncio.sleep(due - now)


class HubPart:
    """The settings of a hub that bound its webhooks."""

    __slots__ = ("configuration", "pace", "quiet", "reach")

    def __init__(self, configuration: HubConfiguration) -> None:
        settings = configuration.settings
        rate = settings.quotas.webhook_requests_per_second
        self.configuration = configuration
        self.reach = settings.callback_addresses
        self.pace = Pace(rate) if rate else None
        self.quiet: dict[str, bool] = {}
        """Channels by whether the journal keeps nothing of them."""

    def is_quiet(self, channel: str) -> bool:
        quiet = self.quiet.get(channel)
        if quiet is None:
            quiet = self.configuration.rules_for(channel).journal == "off"
            self.quiet[channel] = quiet
        return quiet


class Attempts:
    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._hubs: dict[str, HubPart] = {}

    def hub_changed(self, hub: str) -> None:
        self._hubs.pop(hub, None)

    async def deliver(self, push: Push, message: Message) -> None:
        """Until it has arrived. Raises `GivenUp`, `Expired`, `Ended`, `Stopped`."""
        sealed = Sealed(push.webhook, push.lasting, message, self._context.limits)
        webhook = push.webhook
        push.status.attempts = 0
        push.failing_since = None
        try:
            while True:
                if push.webhook is not webhook:  # it was changed meanwhile
                    webhook = push.webhook
                    sealed = Sealed(webhook, push.lasting, message, self._context.limits)
                retry_after = await self._attempt(push, sealed, message, push.status.attempts + 1)
                if retry_after is None:
                    return
                push.status.attempts += 1
                if push.gone:
                    raise Stopped
                await self._wait(push, message, retry_after)
        finally:
            push.status.attempts = 0
            push.status.next_try_at = None

    async def try_once(self, push: Push, sealed: Sealed, message: Message) -> bool:
        """Whether it has arrived; it waits only for a moment until its host may have it."""
        try:
            return await self._attempt(push, sealed, message, 1, _MOMENT_SECONDS) is None
        except (GivenUp, Expired, Ended):
            return False

    async def _attempt(
        self,
        push: Push,
        sealed: Sealed,
        message: Message,
        number: int,
        patience_seconds: float | None = None,
    ) -> float | None:
        """One request, when its destination may have one. Returns None where the message arrived,
        else the seconds of the receiver's `Retry-After`, 0 without that header. Raises `GivenUp`,
        `Expired`, `Ended`."""
        hub = self._hub(push.webhook.hub)
        if hub.pace is not None:
            await hub.pace.wait()
        patience = self._patience(push) if patience_seconds is None else patience_seconds
        await self._enter(push, message, patience)
        host = push.host
        push.sending = True
        well: bool | None = None
        answer: HttpResponse | None = None
        failed: SendFailed | None = None
        try:
            answer = await self._context.outgoing.transmit(sealed.attempt(number), hub.reach)
            well = answer.status < 500
        except SendFailed as error:
            failed = error
            well = error.word == "too_large"
        except BadRequest as error:
            raise Ended(error.message) from None
        finally:
            push.sending = False
            self._context.outgoing.leave(host, well)
        status = answer.status if answer is not None else failed.status if failed else None
        if status is not None and 200 <= status < 300 and (well or answer is not None):
            seconds = self._arrived(push, answer, status)
            self._tell(push, message, hub, number, "ok", status, seconds)
            return None
        word = self._failed(push, failed, status)
        self._tell(push, message, hub, number, word, status, None)
        if status == 410:
            raise Ended("the receiver answered 410")
        return retry_after_seconds(answer, self._context.clock.now())

    async def _enter(self, push: Push, message: Message, patience: float) -> None:
        """Wait for a request to the webhook's host. Raises `GivenUp`, `Expired`, `Ended`."""
        lifetime = self._lifetime(message)
        if not await self._context.outgoing.enter(push.host, min(patience, lifetime)):
            raise Expired if lifetime < patience else GivenUp
        expires_at = push.webhook.expires_at
        lease_is_over = expires_at is not None and expires_at <= self._context.now()
        if self._lifetime(message) <= 0 or lease_is_over:
            self._context.outgoing.leave(push.host, None)
            raise Ended("its lease is over") if lease_is_over else Expired

    # -- what became of it ----------------------------------------------------------------------

    def _arrived(self, push: Push, answer: HttpResponse | None, status: int) -> float:
        """Returns how many seconds the request took."""
        seconds = answer.duration_seconds if answer is not None else 0.0
        push.status.delivered += 1
        push.status.last_status = status
        push.status.last_error = None
        push.status.last_latency_seconds = seconds
        push.status.last_delivered_at = self._context.now()
        counters = self._context.counters[push.webhook.hub]
        counters.outcomes["ok"] += 1
        counters.answered.took(seconds)
        return seconds

    def _failed(self, push: Push, failed: SendFailed | None, status: int | None) -> str:
        """Returns the word for the failure in the journal."""
        push.status.failures += 1
        push.status.last_status = status
        push.status.last_error = failed.message if failed else f"the receiver answered {status}"
        if push.failing_since is None:
            push.failing_since = self._context.clock.monotonic()
        word = failed.word if failed else "status"
        outcome = f"{status // 100}xx" if failed is None and status is not None else word
        self._context.counters[push.webhook.hub].outcomes[outcome] += 1
        return word

    def _tell(
        self,
        push: Push,
        message: Message,
        hub: HubPart,
        number: int,
        outcome: str,
        status: int | None,
        seconds: float | None,
    ) -> None:
        if not self._context.journal.enabled or hub.is_quiet(message.channel):
            return
        webhook = push.webhook
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
                duration=None if seconds is None else int(seconds * 1e6),
                peer=push.host.name,
            )
        )

    # -- again ----------------------------------------------------------------------------------

    def _patience(self, push: Push) -> float:
        """How long this message may still take."""
        if push.failing_since is None:
            return self._context.limits.give_up_seconds
        gone = self._context.clock.monotonic() - push.failing_since
        return max(0.0, self._context.limits.give_up_seconds - gone)

    def _lifetime(self, message: Message) -> float:
        """How many seconds the message may still be delivered."""
        limit = expires_at(message)
        return math.inf if limit is None else limit / 1000 - self._context.clock.now()

    async def _wait(self, push: Push, message: Message, retry_after: float) -> None:
        seconds = pause_seconds(
            self._context.limits,
            push.status.attempts,
            push.status.last_status,
            retry_after,
            self._patience(push),
        )
        if seconds >= self._lifetime(message):
            raise Expired
        push.status.next_try_at = int((self._context.clock.now() + seconds) * 1000)
        await asyncio.sleep(seconds)
        push.status.next_try_at = None

    def _hub(self, name: str) -> HubPart:
        part = self._hubs.get(name)
        if part is None:
            try:
                configuration = self._context.configuration_of(name)
            except HubbubError as error:
                raise Ended(error.message) from None
            part = self._hubs[name] = HubPart(configuration)
        return part
