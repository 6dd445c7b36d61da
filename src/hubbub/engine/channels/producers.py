"""Producers at the owner of a channel: each put is stored once, in the order of its sequence.

Only the owner writes to a channel, so its memory of a producer is correct until a write fails;
after a failure the state is dropped and read from the store again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Protocol

from hubbub.domain.asking import OrderedRequest, Sent, envelope_of
from hubbub.domain.errors import (
    HubbubError,
    Overloaded,
    ProducerFenced,
    SequenceGap,
    SequenceReused,
    StaleOwner,
    TopicNotFound,
)
from hubbub.domain.messages import Message, Stamp
from hubbub.domain.topics import FindPut, FoundPut, OpenProducer, ProducerState
from hubbub.engine.channels.active_producer import ActiveProducer, Put
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.recent_keys import RecentKeys, reused
from hubbub.engine.channels.rooms import OwnerRoom, of_topic
from hubbub.engine.channels.terms import Terms
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.topics import ProducerRecord, TopicStore
from hubbub.tasks import TaskSet

MAX_PRODUCERS = 10_000
"""Maximum number per channel in memory; idle producers are unloaded and read again on use."""
MAX_KEYED = 1000
"""Maximum number of a user's publishes with idempotency keys in progress per channel."""
MAX_PRODUCERS_OF_A_USER = 10_000
"""Maximum number per channel. Producers are kept for ever, since a repeat may come at any time."""


Original = Callable[[int], Awaitable[FoundPut]]
"""The answer to a repeat, by the row of its producer. Raises `SequenceReused`."""


class Path(Protocol):
    """Continues a put that is not a repeat."""

    def append(self, channel: Channel, sent: Sent, reply: PublishReply) -> None:
        """Raises `QuotaExceeded`, in which case nothing was begun."""

    def accept(self, channel: Channel, sent: Sent, reply: PublishReply) -> None:
        """Takes what has no stamp. Raises as `append`."""

    def wait_until_ready(self, channel: Channel, sent: Sent, reply: PublishReply) -> None: ...

    async def original(self, producer: int, request: OrderedRequest[Any]) -> FoundPut: ...


class Producers(OwnerRoom):
    """The sequenced and keyed puts to the channels of one owner."""

    def __init__(
        self, store: TopicStore, terms: Terms, channels: Mapping[tuple[str, str], Channel]
    ) -> None:
        """`channels` are the open channels."""
        self._channels = channels
        self.owner_requests = {FindPut: self._find}
        self.channel_requests = {OpenProducer: of_topic(self._take_over)}
        self._store = store
        self._terms = terms
        self._tasks = TaskSet()

    async def settle(self) -> None:
        await self._tasks.settle()

    async def hub_suspended(self, hub: str) -> None:
        await self._tasks.settle_so_far()

    # -- putting --------------------------------------------------------------------------------

    def put(self, path: Path, channel: Channel, sent: Sent, reply: PublishReply) -> None:
        """Has `path` store it, or returns the result of the original if it is a repeat. Raises
        `TopicNotFound`, `ProducerFenced`, `SequenceGap`, `SequenceReused` and `QuotaExceeded`."""
        stamp = _stamp_of(sent)
        if channel.state < State.READY:
            path.wait_until_ready(channel, sent, reply)  # it comes here again then
            return
        if isinstance(sent, Message) and stamp.keyed and not channel.must_store(sent):
            self._publish_unstored(path, channel, sent, stamp, reply)
            return
        if isinstance(sent, Message) and not channel.rules.store:
            raise TopicNotFound(
                f"channel {channel.name!r} does not store messages; switch 'store' on in its "
                "rules, or name topicRules in the hub's settings"
            )
        producer = self._known(path, channel, stamp)
        if producer.waiting is not None:
            producer.waiting.append((sent, reply))
        elif stamp.keyed:
            self._put_keyed(path, channel, producer, sent, reply)
        elif stamp.sequence <= producer.stored:
            self._run(channel, self._answer_repeat(path, producer.id, sent, reply))
        elif stamp.sequence in producer.under_way:
            earlier = producer.under_way[stamp.sequence]
            _check_same(earlier.sent, sent)
            earlier.replies.append(reply)
        else:
            self._check_turn(producer, sent, stamp)
            self._put_next(path, channel, producer, sent, reply)

    @staticmethod
    def _put_next(
        path: Path, channel: Channel, producer: ActiveProducer, sent: Sent, reply: PublishReply
    ) -> None:
        sequence = _stamp_of(sent).sequence
        put = Put(sent, reply)

        def stored(outcome: PublishOutcome) -> None:
            producer.under_way.pop(sequence, None)
            if outcome.error is None:
                producer.stored = max(producer.stored, sequence)
            put.conclude(outcome)

        producer.under_way[sequence] = put
        producer.accepted = sequence
        try:
            path.append(channel, sent, stored)
        except HubbubError:
            del producer.under_way[sequence]
            producer.accepted = sequence - 1
            raise

    # -- idempotency keys -----------------------------------------------------------------------

    @staticmethod
    def _publish_unstored(
        path: Path, channel: Channel, message: Message, stamp: Stamp, reply: PublishReply
    ) -> None:
        if channel.recent_keys is None:
            channel.recent_keys = RecentKeys()
        message.stamp = None
        channel.recent_keys.publish(stamp, message, reply, partial(path.accept, channel))

    def _put_keyed(
        self,
        path: Path,
        channel: Channel,
        producer: ActiveProducer,
        sent: Sent,
        reply: PublishReply,
    ) -> None:
        """A key without a put in progress is looked up in the store; publishes keep their order."""
        sequence = _stamp_of(sent).sequence
        earlier = producer.under_way.get(sequence)
        if earlier is not None:
            _check_same(earlier.sent, sent)
            earlier.replies.append(reply)
            return
        if len(producer.under_way) >= MAX_KEYED:
            raise Overloaded(
                f"{MAX_KEYED} publishes with idempotency keys wait in channel {channel.name!r}"
            )
        producer.under_way[sequence] = put = Put(sent, reply)
        producer.lookups.append(put)
        if len(producer.lookups) == 1:
            self._run(channel, self._look_up(path, channel, producer))

    async def _look_up(self, path: Path, channel: Channel, producer: ActiveProducer) -> None:
        while producer.lookups:
            puts = list(producer.lookups)
            found = await asyncio.gather(
                *(self._read_keyed(path, producer.id, put.sent) for put in puts)
            )
            for put, original in zip(puts, found, strict=True):
                self._conclude_look_up(path, channel, producer, put, original)
            del producer.lookups[: len(puts)]

    async def _read_keyed(self, path: Path, producer_id: int, sent: Sent) -> FoundPut | HubbubError:
        try:
            return await self._original(path, producer_id, sent)
        except HubbubError as error:
            return error

    @staticmethod
    def _conclude_look_up(
        path: Path,
        channel: Channel,
        producer: ActiveProducer,
        put: Put,
        original: FoundPut | HubbubError,
    ) -> None:
        def conclude(outcome: PublishOutcome) -> None:
            producer.under_way.pop(_stamp_of(put.sent).sequence, None)
            put.conclude(outcome)

        if isinstance(original, HubbubError):
            conclude(PublishOutcome(error=original))
        elif original.message_id is not None:
            conclude(PublishOutcome(original.serial, None, True, original.message_id))
        else:
            try:
                if channel.closed_by is not None:
                    raise channel.closed_by
                if channel.producer_of(put.sent) is not producer:
                    raise StaleOwner("the channel was read again meanwhile; try again")
                path.append(channel, put.sent, conclude)
            except HubbubError as error:
                conclude(PublishOutcome(error=error))

    @staticmethod
    def _check_turn(producer: ActiveProducer, sent: Sent, stamp: Stamp) -> None:
        if stamp.fence and stamp.fence != producer.fence:
            raise ProducerFenced(
                f"producer {stamp.producer!r} was opened again by another process, which goes on "
                f"with channel {sent.channel!r}; fence {stamp.fence} holds no longer"
            )
        if stamp.sequence != producer.accepted + 1:
            raise SequenceGap(
                f"producer {stamp.producer!r} put sequence {stamp.sequence} to channel "
                f"{sent.channel!r}, but {producer.accepted + 1} comes next"
            )

    async def _answer_repeat(
        self, path: Path, producer_id: int, sent: Sent, reply: PublishReply
    ) -> None:
        try:
            found = await self._original(path, producer_id, sent)
            outcome = PublishOutcome(found.serial, None, True, found.message_id, found.change)
        except HubbubError as error:
            outcome = PublishOutcome(error=error)
        reply(outcome)

    async def _original(self, path: Path, producer_id: int, sent: Sent) -> FoundPut:
        """The result for a repeat. Raises `SequenceReused`."""
        if isinstance(sent, Message):
            return await self._original_message(sent, producer_id)
        return await path.original(producer_id, sent)

    async def _original_message(self, message: Message, producer_id: int) -> FoundPut:
        sequence = _stamp_of(message).sequence
        original = await self._store.read_put(producer_id, sequence, message.hub, message.channel)
        if original is None:
            return FoundPut()
        _check_same(original, message)
        return FoundPut(original.serial, original.id)

    # -- questions ------------------------------------------------------------------------------

    async def _find(self, request: FindPut) -> FoundPut | None:
        return await self.find(request.message, partial(self._original_message, request.message))

    async def find(self, sent: Sent, original: Original) -> FoundPut | None:
        """The result of the original if this put is a repeat; None if it is new. Changes nothing.
        Raises `SequenceReused`."""
        hub, name, stamp = sent.hub, sent.channel, _stamp_of(sent)
        channel = self._channels.get((hub, name))
        known = (
            (channel.producers or {}).get((stamp.principal, stamp.producer)) if channel else None
        )
        if known is not None and stamp.sequence in known.under_way:
            earlier = known.under_way[stamp.sequence]
            _check_same(earlier.sent, sent)
            answer: asyncio.Future[PublishOutcome] = asyncio.get_running_loop().create_future()
            earlier.replies.append(answer.set_result)
            outcome = await answer
            if outcome.error is not None:
                return None
            return FoundPut(outcome.serial, outcome.message_id, outcome.change)
        found = await self._store.read_producer(hub, name, stamp.principal, stamp.producer)
        if found is None or (stamp.sequence > found.sequence and not stamp.keyed):
            return None
        repeated = await original(found.id)
        return None if stamp.keyed and repeated.message_id is None else repeated

    async def _take_over(self, channel: Channel, request: OpenProducer) -> ProducerState:
        """Raises the producer's fence; puts already stored under the old one still count."""
        principal, name = request.principal, request.producer
        found = await self._open(channel, principal, name, take_over=True)
        known = (channel.producers or {}).get((principal, name))
        if known is not None:
            known.fence = max(known.fence, found.fence)
            return ProducerState(found.fence, max(found.sequence, known.accepted))
        return ProducerState(found.fence, found.sequence)

    # -- knowing --------------------------------------------------------------------------------

    def _known(self, path: Path, channel: Channel, stamp: Stamp) -> ActiveProducer:
        if channel.producers is None:
            channel.producers = {}
        key = (stamp.principal, stamp.producer)
        producer = channel.producers.get(key)
        if producer is None:
            if len(channel.producers) >= MAX_PRODUCERS:
                _forget_idle(channel.producers)
            producer = channel.producers[key] = ActiveProducer()
            self._run(channel, self._load(path, channel, key, producer))
        return producer

    async def _load(
        self, path: Path, channel: Channel, key: tuple[str, str], producer: ActiveProducer
    ) -> None:
        error: HubbubError | None = None
        try:
            producer.know(await self._open(channel, *key, take_over=False))
        except HubbubError as caught:
            error = caught
            if channel.producers is not None and channel.producers.get(key) is producer:
                del channel.producers[key]
        waiting, producer.waiting = producer.waiting, None
        for sent, reply in waiting or ():
            try:
                if error is not None:
                    raise error
                self.put(path, channel, sent, reply)
            except HubbubError as caught:
                reply(PublishOutcome(error=caught))

    async def _open(
        self, channel: Channel, principal: str, name: str, take_over: bool
    ) -> ProducerRecord:
        which = (channel.hub, channel.name, principal, name)
        return await self._store.open_producer(
            *which, channel.partition, self._terms.of(channel), take_over, MAX_PRODUCERS_OF_A_USER
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


def _stamp_of(sent: Sent) -> Stamp:
    assert sent.stamp is not None
    return sent.stamp


def _check_same(original: Sent, sent: Sent) -> None:
    """Raises `SequenceReused`."""
    first, again = envelope_of(original), envelope_of(sent)
    same = (
        first.payload == again.payload
        and first.event == again.event
        and first.content_type == again.content_type
    )
    if not same:
        raise sequence_reused(again)


def sequence_reused(message: Message) -> SequenceReused:
    stamp = _stamp_of(message)
    if stamp.keyed:
        return reused(message)
    return SequenceReused(
        f"producer {stamp.producer!r} put sequence {stamp.sequence} to channel "
        f"{message.channel!r} before, with other content; take the next sequence"
    )
