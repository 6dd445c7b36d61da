"""Sends the dead letters of a webhook again.

A durable subscription with the webhook's name on the channel of dead letters records which of them
were processed; dead letters of other webhooks are skipped."""

from __future__ import annotations

from hubbub.domain.errors import TopicNotFound
from hubbub.domain.messages import Message
from hubbub.domain.topics import (
    Acknowledge,
    GetMessages,
    SubscribeTopic,
    SubscriptionKey,
    SubscriptionOptions,
    dead_letter_channel,
)
from hubbub.domain.webhooks import WEBHOOK_OWNER, Replayed
from hubbub.engine.webhooks.attempts import Attempts
from hubbub.engine.webhooks.context import DriverContext
from hubbub.engine.webhooks.driven import DrivenWebhook
from hubbub.engine.webhooks.requests import Sealed

_AT_ONCE = 16
_MOMENT_SECONDS = 1.5
"""How long one request may replay: requests over the bus must be short, and the caller sends
another one for the rest."""


def dead_letters_key(key: SubscriptionKey) -> SubscriptionKey:
    dead_letters = dead_letter_channel(key.channel, SubscriptionOptions())
    return SubscriptionKey(key.hub, dead_letters, WEBHOOK_OWNER, key.name)


class DeadLetterReplayer:
    def __init__(self, context: DriverContext, attempts: Attempts) -> None:
        self._context = context
        self._attempts = attempts

    async def replay(self, driven: DrivenWebhook, after: int, only: int | None = None) -> Replayed:
        """Tries each dead letter once, in order, or only the one with the serial `only`. Failed
        ones stay; the replay stops if the receiver is unreachable."""
        after = after if only is None else only - 1
        key = dead_letters_key(driven.key)
        try:
            await self._context.ask(SubscribeTopic(key, None, "first"))
        except TopicNotFound:
            return Replayed()
        until = self._context.clock.monotonic() + _MOMENT_SECONDS
        delivered = failed = 0
        while True:
            found = await self._context.ask(GetMessages(key, driven.reader, _AT_ONCE, after=after))
            assert isinstance(found, tuple)
            for article in found:
                dead_letter = article.message
                if only is not None and dead_letter.serial != only:
                    return Replayed(delivered, failed)
                if not is_dead_letter_of(dead_letter, driven.key):
                    await self._context.ask(Acknowledge(key, (dead_letter.serial,)))
                elif await self._send(driven, dead_letter):
                    delivered += 1
                    await self._context.ask(Acknowledge(key, (dead_letter.serial,)))
                    await self._context.ask(
                        Acknowledge(driven.key, (dead_letter.serial,), replayed=True)
                    )
                else:
                    failed += 1
                    if driven.status.last_status is None or driven.host.opened:
                        return Replayed(delivered, failed)
                after = dead_letter.serial
                if self._context.clock.monotonic() > until:
                    return Replayed(delivered, failed, more=True, after=after)
            if not found:
                return Replayed(delivered, failed)

    async def _send(self, driven: DrivenWebhook, dead_letter: Message) -> bool:
        attributes = dead_letter.attributes
        assert attributes is not None
        assert attributes.headers is not None
        sealed = Sealed(
            driven.webhook,
            driven.lasting,
            dead_letter,
            self._context.limits,
            attributes.dead_letter_of,
            int(attributes.headers["deadSerial"]),
        )
        return await self._attempts.try_once(driven, sealed, dead_letter)


def is_dead_letter_of(dead_letter: Message, key: SubscriptionKey) -> bool:
    """Whether the message is a dead letter of this subscription. Only the hub sets
    `dead_letter_of`, and with it the headers: clients cannot forge a dead letter."""
    attributes = dead_letter.attributes
    if attributes is None or attributes.dead_letter_of is None or attributes.headers is None:
        return False
    headers = attributes.headers
    return (
        headers.get("deadSubscription") == key.name
        and headers.get("deadOwner") == key.owner
        and headers.get("deadFrom") == key.channel
    )
