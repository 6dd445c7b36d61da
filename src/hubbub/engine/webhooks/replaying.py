"""Dead letters of a webhook, sent once more.

A durable subscription of the webhook's name on the channel of the dead letters remembers which of
them it has seen; those of others are passed over.
"""

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
from hubbub.engine.webhooks.push import Push
from hubbub.engine.webhooks.requests import Sealed

_AT_ONCE = 16
_MOMENT_SECONDS = 1.5
"""A request over the bus must not take long; whoever asked goes on with the next."""


def dead_letters_key(key: SubscriptionKey) -> SubscriptionKey:
    dead_letters = dead_letter_channel(key.channel, SubscriptionOptions())
    return SubscriptionKey(key.hub, dead_letters, WEBHOOK_OWNER, key.name)


class DeadLetterReplayer:
    def __init__(self, context: DriverContext, attempts: Attempts) -> None:
        self._context = context
        self._attempts = attempts

    async def replay(self, push: Push, after: int, only: int | None = None) -> Replayed:
        """Try each dead letter once, in order, or `only` one. A failed one stays; the replay ends
        where the receiver cannot be reached at all."""
        after = after if only is None else only - 1
        key = dead_letters_key(push.key)
        try:
            await self._context.topic(SubscribeTopic(key, None, "first"))
        except TopicNotFound:
            return Replayed()
        until = self._context.clock.monotonic() + _MOMENT_SECONDS
        delivered = failed = 0
        while True:
            found = await self._context.topic(GetMessages(key, push.reader, _AT_ONCE, after=after))
            assert isinstance(found, tuple)
            for article in found:
                dead_letter = article.message
                if only is not None and dead_letter.serial != only:
                    return Replayed(delivered, failed)
                if not is_dead_letter_of(dead_letter, push.key):
                    await self._context.topic(Acknowledge(key, (dead_letter.serial,)))
                elif await self._send(push, dead_letter):
                    delivered += 1
                    await self._context.topic(Acknowledge(key, (dead_letter.serial,)))
                    await self._context.topic(
                        Acknowledge(push.key, (dead_letter.serial,), replayed=True)
                    )
                else:
                    failed += 1
                    if push.status.last_status is None or push.host.opened:
                        return Replayed(delivered, failed)
                after = dead_letter.serial
                if self._context.clock.monotonic() > until:
                    return Replayed(delivered, failed, more=True, after=after)
            if not found:
                return Replayed(delivered, failed)

    async def _send(self, push: Push, dead_letter: Message) -> bool:
        attributes = dead_letter.attributes
        assert attributes is not None
        assert attributes.headers is not None
        sealed = Sealed(
            push.webhook,
            push.lasting,
            dead_letter,
            self._context.limits,
            attributes.dead_letter_of,
            int(attributes.headers["deadSerial"]),
        )
        return await self._attempts.try_once(push, sealed, dead_letter)


def is_dead_letter_of(dead_letter: Message, key: SubscriptionKey) -> bool:
    """Only the hub sets `dead_letter_of`, and with it the headers: nobody can forge a letter."""
    attributes = dead_letter.attributes
    if attributes is None or attributes.dead_letter_of is None or attributes.headers is None:
        return False
    headers = attributes.headers
    return (
        headers.get("deadSubscription") == key.name
        and headers.get("deadOwner") == key.owner
        and headers.get("deadFrom") == key.channel
    )
