"""Producers at the owner of a channel: each put is stored once, in the order of its sequence.

The owner alone writes to a channel, so what it remembers of a producer is the truth as long as
nothing failed; after a failure everything is forgotten here and read from the store again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from hubbub.domain.documents.changes import ChangeOutcome, digest_of
from hubbub.domain.errors import (
    HubbubError,
    Overloaded,
    ProducerFenced,
    SequenceGap,
    SequenceReused,
    StaleOwner,
    TopicNotFound,
)
from hubbub.domain.messages import Message, Stamp, change_of
from hubbub.domain.topics import FoundPut, ProducerState
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.topics.active_producer import ActiveProducer, Put
from hubbub.engine.topics.recent_keys import RecentKeys, reused
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.documents import DocumentStore
from hubbub.ports.storage.topics import ProducerRecord, TopicStore
from hubbub.tasks import TaskSet

MAX_PRODUCERS = 10_000
"""Of one channel, in memory; those that have nothing under way are read again when they come."""
MAX_KEYED = 1000
"""Publishes of one user with idempotency keys that are under way to a channel."""
MAX_PRODUCERS_OF_A_USER = 10_000
"""On one channel. They are never forgotten, since a repeat may come however late."""


class ProducerStore(TopicStore, DocumentStore, Protocol):
    """Where puts of both kinds are found again."""


Append = Callable[[Channel, Message, PublishReply], None]
"""Checks and appends a message; raises `QuotaExceeded`, in which case nothing was begun."""


class Producers:
    """Serves all channels of one owner."""

    def __init__(
        self, store: ProducerStore, terms: Mapping[int, int], append: Append, accept: Append
    ) -> None:
        """`accept` takes what has no stamp."""
        self._accept = accept
        self._store = store
        self._terms = terms
        self._append = append
        self._tasks = TaskSet()

    async def settle(self) -> None:
        await self._tasks.settle()

    async def settle_so_far(self) -> None:
        await self._tasks.settle_so_far()

    # -- putting --------------------------------------------------------------------------------

    def put(self, channel: Channel, message: Message, reply: PublishReply) -> None:
        """Store the message, or answer for the original. Raises `TopicNotFound`, `ProducerFenced`,
        `SequenceGap`, `SequenceReused` and `QuotaExceeded`."""
        stamp = _stamp_of(message)
        if channel.closed_by is not None:
            raise channel.closed_by
        if channel.state < State.READY:
            channel.wait(message, reply)  # it comes here again once the channel is
            return
        if stamp.keyed and not channel.must_store(message):
            self._publish_unstored(channel, message, stamp, reply)
            return
        if not channel.rules.store and change_of(message) is None:
            raise TopicNotFound(
                f"channel {channel.name!r} does not store messages; switch 'store' on in its "
                "rules, or name topicRules in the hub's settings"
            )
        producer = self._known(channel, stamp)
        if producer.waiting is not None:
            producer.waiting.append((message, reply))
        elif stamp.keyed:
            self._put_keyed(channel, producer, message, reply)
        elif stamp.sequence <= producer.stored:
            self._run(channel, self._answer_repeat(producer.id, message, reply))
        elif stamp.sequence in producer.under_way:
            earlier = producer.under_way[stamp.sequence]
            _check_same(earlier.message, message)
            earlier.replies.append(reply)
        else:
            self._check_turn(producer, message, stamp)
            self._put_next(channel, producer, message, reply)

    def _put_next(
        self, channel: Channel, producer: ActiveProducer, message: Message, reply: PublishReply
    ) -> None:
        sequence = _stamp_of(message).sequence
        put = Put(message, reply)

        def stored(outcome: PublishOutcome) -> None:
            producer.under_way.pop(sequence, None)
            if outcome.error is None:
                producer.stored = max(producer.stored, sequence)
            put.conclude(outcome)

        producer.under_way[sequence] = put
        producer.accepted = sequence
        try:
            self._append(channel, message, stored)
        except HubbubError:
            del producer.under_way[sequence]
            producer.accepted = sequence - 1
            raise

    # -- idempotency keys -----------------------------------------------------------------------

    def _publish_unstored(
        self, channel: Channel, message: Message, stamp: Stamp, reply: PublishReply
    ) -> None:
        if channel.recent_keys is None:
            channel.recent_keys = RecentKeys()
        message.stamp = None
        channel.recent_keys.publish(stamp, message, reply, partial(self._accept, channel))

    def _put_keyed(
        self, channel: Channel, producer: ActiveProducer, message: Message, reply: PublishReply
    ) -> None:
        """A key that is not under way is looked for in the store; publishes keep their order."""
        sequence = _stamp_of(message).sequence
        earlier = producer.under_way.get(sequence)
        if earlier is not None:
            _check_same(earlier.message, message)
            earlier.replies.append(reply)
            return
        if len(producer.under_way) >= MAX_KEYED:
            raise Overloaded(
                f"{MAX_KEYED} publishes with idempotency keys wait in channel {channel.name!r}"
            )
        producer.under_way[sequence] = put = Put(message, reply)
        producer.lookups.append(put)
        if len(producer.lookups) == 1:
            self._run(channel, self._look_up(channel, producer))

    async def _look_up(self, channel: Channel, producer: ActiveProducer) -> None:
        while producer.lookups:
            puts = list(producer.lookups)
            found = await asyncio.gather(
                *(self._read_keyed(producer.id, put.message) for put in puts)
            )
            for put, original in zip(puts, found, strict=True):
                self._conclude_look_up(channel, producer, put, original)
            del producer.lookups[: len(puts)]

    async def _read_keyed(self, producer_id: int, message: Message) -> FoundPut | HubbubError:
        try:
            return await self._original(producer_id, message)
        except HubbubError as error:
            return error

    def _conclude_look_up(
        self,
        channel: Channel,
        producer: ActiveProducer,
        put: Put,
        original: FoundPut | HubbubError,
    ) -> None:
        def conclude(outcome: PublishOutcome) -> None:
            producer.under_way.pop(_stamp_of(put.message).sequence, None)
            put.conclude(outcome)

        if isinstance(original, HubbubError):
            conclude(PublishOutcome(error=original))
        elif original.message_id is not None:
            conclude(PublishOutcome(original.serial, None, True, original.message_id))
        else:
            try:
                if channel.closed_by is not None:
                    raise channel.closed_by
                if channel.producer_of(put.message) is not producer:
                    raise StaleOwner("the channel was read again meanwhile; try again")
                self._append(channel, put.message, conclude)
            except HubbubError as error:
                conclude(PublishOutcome(error=error))

    @staticmethod
    def _check_turn(producer: ActiveProducer, message: Message, stamp: Stamp) -> None:
        if stamp.fence and stamp.fence != producer.fence:
            raise ProducerFenced(
                f"producer {stamp.producer!r} was opened again by another process, which goes on "
                f"with channel {message.channel!r}; fence {stamp.fence} holds no longer"
            )
        if stamp.sequence != producer.accepted + 1:
            raise SequenceGap(
                f"producer {stamp.producer!r} put sequence {stamp.sequence} to channel "
                f"{message.channel!r}, but {producer.accepted + 1} comes next"
            )

    async def _answer_repeat(self, producer_id: int, message: Message, reply: PublishReply) -> None:
        try:
            found = await self._original(producer_id, message)
            outcome = PublishOutcome(found.serial, None, True, found.message_id, found.change)
        except HubbubError as error:
            outcome = PublishOutcome(error=error)
        reply(outcome)

    async def _original(self, producer_id: int, message: Message) -> FoundPut:
        """What a repeat is answered with. Raises `SequenceReused`."""
        sequence = _stamp_of(message).sequence
        if change_of(message) is not None:
            return await self._original_change(producer_id, message)
        original = await self._store.read_put(producer_id, sequence, message.hub, message.channel)
        if original is None:
            return FoundPut()
        _check_same(original, message)
        return FoundPut(original.serial, original.id)

    async def _original_change(self, producer_id: int, message: Message) -> FoundPut:
        sequence = _stamp_of(message).sequence
        found = await self._store.read_document_put(producer_id, sequence)
        if found is None or found.digest != digest_of(message.payload):
            raise _reused(message)
        return FoundPut(change=ChangeOutcome(found.epoch, found.version, found.at))

    # -- questions ------------------------------------------------------------------------------

    async def find(self, channel: Channel | None, message: Message) -> FoundPut | None:
        """The answer to a put that would be a repeat; None: it would be new. Leaves no trace.
        Raises `SequenceReused`."""
        stamp = _stamp_of(message)
        known = (
            (channel.producers or {}).get((stamp.principal, stamp.producer)) if channel else None
        )
        if known is not None and stamp.sequence in known.under_way:
            earlier = known.under_way[stamp.sequence]
            _check_same(earlier.message, message)
            answer: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
            earlier.replies.append(answer.set_result)
            outcome = await answer
            if outcome.error is not None:
                return None
            return FoundPut(outcome.serial, outcome.message_id, outcome.change)
        found = await self._store.read_producer(
            message.hub, message.channel, stamp.principal, stamp.producer
        )
        if found is None or (stamp.sequence > found.sequence and not stamp.keyed):
            return None
        original = await self._original(found.id, message)
        return None if stamp.keyed and original.message_id is None else original

    async def open(self, channel: Channel, principal: str, name: str) -> ProducerState:
        """Take the producer over: its fence rises, what an earlier process sent counts still."""
        found = await self._open(channel, principal, name, take_over=True)
        known = (channel.producers or {}).get((principal, name))
        if known is not None:
            known.fence = max(known.fence, found.fence)
            return ProducerState(found.fence, max(found.sequence, known.accepted))
        return ProducerState(found.fence, found.sequence)

    # -- knowing --------------------------------------------------------------------------------

    def row_of(self, channel: Channel, message: Message) -> tuple[int, int]:
        """Under which producer and sequence the store keeps the message; (0, 0): nobody's."""
        stamp = message.stamp
        if stamp is None or channel.producers is None:
            return 0, 0
        known = channel.producers.get((stamp.principal, stamp.producer))
        return (known.id, stamp.sequence) if known is not None else (0, 0)

    def _known(self, channel: Channel, stamp: Stamp) -> ActiveProducer:
        if channel.producers is None:
            channel.producers = {}
        key = (stamp.principal, stamp.producer)
        producer = channel.producers.get(key)
        if producer is None:
            if len(channel.producers) >= MAX_PRODUCERS:
                _forget_idle(channel.producers)
            producer = channel.producers[key] = ActiveProducer()
            self._run(channel, self._load(channel, key, producer))
        return producer

    async def _load(self, channel: Channel, key: tuple[str, str], producer: ActiveProducer) -> None:
        error: HubbubError | None = None
        try:
            producer.know(await self._open(channel, *key, take_over=False))
        except HubbubError as caught:
            error = caught
            if channel.producers is not None and channel.producers.get(key) is producer:
                del channel.producers[key]
        waiting, producer.waiting = producer.waiting, None
        for message, reply in waiting or ():
            try:
                if error is not None:
                    raise error
                self.put(channel, message, reply)
            except HubbubError as caught:
                reply(PublishOutcome(error=caught))

    async def _open(
        self, channel: Channel, principal: str, name: str, take_over: bool
    ) -> ProducerRecord:
        term = self._terms.get(channel.partition, 0)
        which = (channel.hub, channel.name, principal, name)
        return await self._store.open_producer(
            *which, channel.partition, term, take_over, MAX_PRODUCERS_OF_A_USER
        )

    def _run(self, channel: Channel, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(self._hold(channel, work))

    @staticmethod
    async def _hold(channel: Channel, work: Coroutine[Any, Any, None]) -> None:
        channel.hold()
        try:
            await work
        finally:
            channel.let_go(channel.idle_since)


def _forget_idle(producers: dict[tuple[str, str], ActiveProducer]) -> None:
    for key, producer in list(producers.items()):
        if producer.waiting is None and not producer.under_way:
            del producers[key]


def _stamp_of(message: Message) -> Stamp:
    assert message.stamp is not None
    return message.stamp


def _check_same(original: Message, message: Message) -> None:
    """Raises `SequenceReused`."""
    same = (
        original.payload == message.payload
        and original.event == message.event
        and original.content_type == message.content_type
    )
    if not same:
        raise _reused(message)


def _reused(message: Message) -> SequenceReused:
    stamp = _stamp_of(message)
    if stamp.keyed:
        return reused(message)
    return SequenceReused(
        f"producer {stamp.producer!r} put sequence {stamp.sequence} to channel "
        f"{message.channel!r} before, with other content; take the next sequence"
    )
