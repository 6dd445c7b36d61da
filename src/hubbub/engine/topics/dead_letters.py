"""Dead letters: messages that were handed out too often, put aside with a note of where from."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from hubbub.domain.cursors import Cursor
from hubbub.domain.errors import HubbubError
from hubbub.domain.messages import Attributes, Message, Stamp
from hubbub.domain.topics import SubscriptionKey, dead_letter_channel
from hubbub.engine.channels.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.topics.cursor_cache import Shelf
from hubbub.engine.topics.cursors import Place
from hubbub.engine.topics.receipts import Receipts
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock

logger = logging.getLogger(__name__)

_PRINCIPAL = "subscription"
_PATIENCE_SECONDS = 1.0

Publish = Callable[[Message, PublishReply], None]


class DeadLetters:
    """Buries the messages of all channels of one owner."""

    def __init__(
        self,
        shelf: Shelf,
        clock: Clock,
        publish: Publish,
        receipts: Receipts,
        counters: defaultdict[str, TopicCounters],
    ) -> None:
        """`publish` takes a letter to wherever its channel is owned."""
        self._shelf = shelf
        self._clock = clock
        self._publish = publish
        self._receipts = receipts
        self._counters = counters

    def bury(self, channel: Channel, place: Place, serial: int) -> None:
        """One at a time: they are numbered, so that none is put twice."""
        if place.burying or place.gone:
            return
        place.burying = True
        self._shelf.run(self._bury_now(channel, place, place.cursor.dying or serial))

    async def bury_at_once(self, channel: Channel, place: Place, serial: int) -> None:
        """Answers when it is with the dead letters, or has been before. Raises what keeps it from
        getting there."""
        while place.burying:
            await place.wait(_PATIENCE_SECONDS)
        if place.cursor.is_done(serial) or place.gone:
            return
        place.burying = True
        try:
            await self._move(channel, place, serial)
        finally:
            place.burying = False
            place.wake()

    async def _move(self, channel: Channel, place: Place, serial: int) -> None:
        cursor = place.cursor
        cursor.dying = serial
        await self._shelf.save(channel, place, changed=True)
        message = (await self._shelf.read(channel, [serial])).get(serial)
        if message is not None:
            await self._put(_letter(place.key, cursor, message, int(self._clock.now() * 1000)))
        cursor.dead_letters += 1
        self._counters[channel.hub].dead_letters += 1
        cursor.acknowledge([serial], channel.head)
        await self._shelf.save(channel, place, changed=True)
        self._receipts.dead(channel, place.key, serial, cursor.options.max_deliveries)

    async def _bury_now(self, channel: Channel, place: Place, serial: int) -> None:
        try:
            await self._move(channel, place, serial)
        except HubbubError as error:
            logger.warning(
                "message %d of channel %r could not be put to the dead letters: %s",
                serial,
                channel.name,
                error.message,
            )
        finally:
            place.burying = False
        place.wake()

    async def _put(self, letter: Message) -> None:
        answer: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
        self._publish(letter, answer.set_result)
        outcome = await answer
        if outcome.error is not None:
            raise outcome.error


def _letter(key: SubscriptionKey, cursor: Cursor, message: Message, now: int) -> Message:
    """The message as it goes to its dead letters. It is the subscription's own put, numbered by how
    many there were, so that one that is repeated after a crash is stored once."""
    headers = {
        "deadFrom": message.channel,
        "deadSerial": str(message.serial),
        "deadSubscription": key.name,
        "deadOwner": key.owner,
    }
    if message.attributes is not None and message.attributes.headers:
        headers = {**message.attributes.headers, **headers}
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
        attributes=Attributes(refers_to=message.id, headers=headers),
        stamp=Stamp(_PRINCIPAL, f"{key.channel} {key.owner} {key.name}", cursor.dead_letters + 1),
    )
