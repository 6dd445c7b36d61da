"""Dead letters: messages that were delivered too often, moved to a channel with a note of their
origin."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

import msgspec

from hubbub.domain.cursors import Cursor
from hubbub.domain.envelope import expires_at, has_expired
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Attributes, Message, Stamp
from hubbub.domain.topics import SubscriptionKey, dead_letter_channel
from hubbub.engine.channels.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursor_cache import CursorCache
from hubbub.engine.topics.cursors import DurableSubscription
from hubbub.engine.topics.receipts import Receipts
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock

logger = logging.getLogger(__name__)

_PRINCIPAL = "subscription"
_PATIENCE_SECONDS = 1.0

Publish = Callable[[Message, PublishReply], None]


class DeadLetters:
    """Moves the dead letters of all channels of one owner."""

    def __init__(
        self,
        cache: CursorCache,
        clock: Clock,
        publish: Publish,
        receipts: Receipts,
        counters: defaultdict[str, TopicCounters],
    ) -> None:
        """`publish` sends a dead letter to the owner of its channel."""
        self._cache = cache
        self._clock = clock
        self._publish = publish
        self._receipts = receipts
        self._counters = counters

    def move_soon(self, channel: Channel, subscription: DurableSubscription, serial: int) -> None:
        """Starts to move dead letters to their channel, one at a time. Their sequence numbers
        ensure that none is stored twice."""
        if subscription.moving or subscription.gone:
            return
        subscription.moving = True
        self._cache.run(
            self._move_and_log(channel, subscription, subscription.cursor.dead_lettering or serial)
        )

    async def move(self, channel: Channel, subscription: DurableSubscription, serial: int) -> None:
        """Returns once the dead letter is stored, or was stored before. Raises the `HubbubError`
        that prevents it."""
        while subscription.moving:
            await subscription.wait(_PATIENCE_SECONDS)
        if subscription.cursor.is_done(serial) or subscription.gone:
            return
        subscription.moving = True
        try:
            await self._move_one(channel, subscription, serial)
        finally:
            subscription.moving = False
            subscription.wake()

    async def _move_one(
        self, channel: Channel, subscription: DurableSubscription, serial: int
    ) -> None:
        cursor = subscription.cursor
        cursor.dead_lettering = serial
        await self._cache.save(channel, subscription, changed=True)
        message = (await self._cache.read(channel, [serial])).get(serial)
        now = int(self._clock.now() * 1000)
        if message is not None and has_expired(message, now):
            self._counters[channel.hub].expired += cursor.pass_expired([serial], channel.head)
            await self._cache.save(channel, subscription, changed=True)
            self._receipts.expired(channel, subscription.key, [(serial, serial)])
            return
        if message is not None:
            await self._put(_dead_letter(subscription.key, cursor, message, now))
        cursor.dead_letters += 1
        self._counters[channel.hub].dead_letters += 1
        cursor.acknowledge([serial], channel.head)
        await self._cache.save(channel, subscription, changed=True)
        self._receipts.dead(channel, subscription.key, serial, cursor.options.max_deliveries)

    async def _move_and_log(
        self, channel: Channel, subscription: DurableSubscription, serial: int
    ) -> None:
        try:
            await self._move_one(channel, subscription, serial)
        except HubbubError as error:
            logger.warning(
                "hub %s: message %d of channel %r could not be moved to the dead letters: %s",
                channel.hub,
                serial,
                channel.name,
                error,
            )
        finally:
            subscription.moving = False
        subscription.wake()

    async def _put(self, dead_letter: Message) -> None:
        answer: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
        self._publish(dead_letter, answer.set_result)
        outcome = await answer
        if outcome.error is not None:
            raise outcome.error


def _dead_letter(key: SubscriptionKey, cursor: Cursor, message: Message, now: int) -> Message:
    """The dead letter of a message: a put of the subscription's own producer, numbered by its dead
    letters, so that a repeat after a crash is stored once. It keeps the message's envelope, and
    expires together with the message."""
    attributes = message.attributes or Attributes()
    headers = {
        **(attributes.headers or {}),
        "deadFrom": message.channel,
        "deadSerial": str(message.serial),
        "deadSubscription": key.name,
        "deadOwner": key.owner,
    }
    deadline = expires_at(message)
    return Message(
        id=f"dead-{message.id}",
        hub=message.hub,
        channel=dead_letter_channel(key.channel, cursor.options),
        event=message.event,
        payload=message.payload,
        content_type=message.content_type,
        published_at=now,
        publisher=message.publisher,
        store=True,
        attributes=msgspec.structs.replace(
            attributes,
            headers=headers,
            ttl=None if deadline is None else deadline - now,
            producer_id=None,
            producer_seq=None,
            dead_letter_of=message.id,
        ),
        stamp=Stamp(_PRINCIPAL, f"{key.channel} {key.owner} {key.name}", cursor.dead_letters + 1),
    )
