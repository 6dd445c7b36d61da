"""The path of messages at the owner: taken in, made as durable as they must be, delivered.

What must be stored is collected and handed to the store in groups. A channel has one append under
way at a time; what comes in meanwhile goes with the next one. So serials are given out only to
messages that are on their way to the disk, in order, and a failed write leaves no gap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from hubbub.domain.asking import OrderedRequest, Sent
from hubbub.domain.documents.steps import Steps, finish
from hubbub.domain.errors import HubbubError, Internal, QuotaExceeded, SequenceGap, StaleOwner
from hubbub.domain.messages import Message
from hubbub.domain.search import is_searched
from hubbub.domain.topics import FoundPut
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.delivering import Deliverer
from hubbub.engine.channels.lifecycle import Channels
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.rooms import OwnerRoom, PreparedWrite
from hubbub.engine.channels.stored_bytes import size_of
from hubbub.engine.large_work import CHANGE_WEIGHT, SMALL_BYTES, HubLocks, in_turns, leave_loop
from hubbub.engine.rooms import implementing, merged
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.storage.messages import Append, AppendAll
from hubbub.tasks import TaskSet

_Entry = tuple[Channel, Sent, PublishReply | None]


logger = logging.getLogger(__name__)


class _Refused(PreparedWrite):
    def __init__(self, error: HubbubError) -> None:
        self.error = error


class Appender:
    """Appends for all channels of one owner."""

    def __init__(
        self,
        append: AppendAll,
        parts: OwnerParts,
        channels: Channels,
        retained: RetainedMessages,
        deliverer: Deliverer,
        rooms: Sequence[OwnerRoom],
    ) -> None:
        """`append` is the store's."""
        self._append_all = append
        self._terms = parts.terms
        self._fenced = parts.bus.fenced
        self._channels = channels
        self._producers = parts.producers
        self._retained = retained
        self._stored_bytes = parts.stored_bytes
        self._deliver = deliverer.deliver
        self._handlers = merged(room.ordered_requests for room in rooms)
        self._appended = implementing(rooms, OwnerRoom.appended)
        self._ready: dict[Channel, None] = {}
        self._preparing = HubLocks()
        """Held by who prepares ordered requests that take long."""
        self._tasks = TaskSet()

    @property
    def busy(self) -> bool:
        return bool(self._ready or self._tasks)

    async def settle(self) -> None:
        """Waits until all appends have ended."""
        while self.busy:
            await self._tasks.settle()
            await asyncio.sleep(0)

    async def ended_so_far(self) -> None:
        """Waits until the appends now in progress have ended."""
        await asyncio.sleep(0)  # what is ready sets out in this turn of the loop
        await self._tasks.settle_so_far()

    # -- taking in ------------------------------------------------------------------------------

    def publish(self, channel: Channel, sent: Sent, reply: PublishReply | None) -> None:
        """Raises a `HubbubError` where nothing was begun; else `reply` is called, now or later."""
        if channel.state >= State.READY:
            self.accept(channel, sent, reply)
        else:
            self.wait_until_ready(channel, sent, reply)

    def wait_until_ready(self, channel: Channel, sent: Sent, reply: PublishReply | None) -> None:
        if channel.closed_by is not None:
            raise channel.closed_by
        self._channels.load(channel)
        channel.wait(sent, reply)
        channel.resume = self._resume

    def _resume(self, channel: Channel) -> None:
        """The channel is read: publishes that waited for it go on."""
        for sent, reply in channel.take_queue():
            try:
                self.publish(channel, sent, reply)
            except HubbubError as error:
                if reply is not None:
                    reply(PublishOutcome(error=error))

    def accept(self, channel: Channel, sent: Sent, reply: PublishReply | None) -> None:
        """Decide how durable it must be, and deliver it once it is. The channel is ready. Raises as
        `publish`."""
        if not isinstance(sent, Message):
            for request in self._handlers[type(sent)].before(channel, sent):
                self.append(channel, request, None)
        if sent.stamp is not None:
            self._producers.put(self, channel, sent, reply or _ignore)
        elif not isinstance(sent, Message) or (channel.rules.store and channel.must_store(sent)):
            self.append(channel, sent, reply)
        elif channel.queue or channel.state > State.READY:
            channel.wait(sent, reply)  # behind the stored ones that came first
        else:
            self._accept_unstored(channel, sent, reply)

    def publish_live(self, channel: Channel, message: Message) -> None:
        """What `publish` comes to with a message that asks for nothing, in a channel without a
        store whose queue is empty."""
        channel.head = message.serial = channel.head + 1
        self._deliver(channel, message)

    def append(self, channel: Channel, sent: Sent, reply: PublishReply | None) -> None:
        """Store it, in its turn. Raises `QuotaExceeded`."""
        size = self._size_of(sent)
        try:
            self._stored_bytes.check(channel, size)
        except QuotaExceeded:
            if isinstance(sent, Message) or not self._handlers[type(sent)].spares_quota(sent):
                raise
        self._stored_bytes.add(channel.hub, size)
        channel.queued_bytes += size
        channel.wait(sent, reply)
        self._make_ready(channel)

    async def original(self, producer: int, request: OrderedRequest[Any]) -> FoundPut:
        """The answer to a repeat of an ordered request. Raises `SequenceReused`."""
        return await self._handlers[type(request)].original(producer, request)

    def _accept_unstored(
        self, channel: Channel, message: Message, reply: PublishReply | None
    ) -> None:
        retains = message.retain and channel.must_retain(message)
        if retains:
            try:
                self._stored_bytes.check_retained(channel, message)
            except QuotaExceeded as error:
                if reply is not None:
                    reply(PublishOutcome(error=error))
                return
        message.store = False
        channel.number(message)
        self._deliver(channel, message)
        if retains:
            self._retained.save(channel, message, reply)
        elif reply is not None:
            reply(PublishOutcome(message.serial))

    # -- groups ---------------------------------------------------------------------------------

    def _make_ready(self, channel: Channel) -> None:
        if channel.state is not State.READY or channel in self._ready:
            return
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ready[channel] = None

    def _flush(self) -> None:
        """Appends the queued messages of all ready channels, as one batch."""
        ready, self._ready = self._ready, {}
        entries: list[_Entry] = []
        channels = []
        for channel in ready:
            if channel.state is not State.READY:  # its rules changed in this turn of the loop
                self._uncount_queue(channel)
                continue
            if channel.states and self._takes_long(channel):
                self._begin_long(channel)
                continue
            channel.queued_bytes = 0
            channels.append(channel)
            entries += [(channel, sent, reply) for sent, reply in channel.begin_append()]
        if entries:
            prepared: dict[int, PreparedWrite] = {}
            appends = finish(self._prepare(channels, entries, prepared))
            self._tasks.start(self._write(channels, entries, appends, prepared))

    @staticmethod
    def _takes_long(channel: Channel) -> bool:
        return any(state.takes_long(channel.queued_bytes) for state in channel.states)

    def _begin_long(self, channel: Channel) -> None:
        """A few requests at a time are prepared; the others stay queued."""
        taken = list(channel.begin_append(SMALL_BYTES))
        size = sum(
            self._size_of(sent)
            for sent, _ in taken
            if not isinstance(sent, Message) or channel.must_store(sent)
        )
        channel.queued_bytes = max(0, channel.queued_bytes - size) if channel.queue else 0
        entries = [(channel, sent, reply) for sent, reply in taken]
        self._tasks.start(self._write_long(channel, entries, size))

    async def _write_long(self, channel: Channel, entries: list[_Entry], size: int) -> None:
        prepared: dict[int, PreparedWrite] = {}
        async with self._preparing.of(channel.hub):
            appends = await in_turns(self._prepare([channel], entries, prepared))
            await leave_loop(CHANGE_WEIGHT * size)
        await self._write([channel], entries, appends, prepared)

    def _size_of(self, sent: Sent) -> int:
        if isinstance(sent, Message):
            return size_of(sent)
        return self._handlers[type(sent)].size(sent)

    def _uncount_queue(self, channel: Channel) -> None:
        """A channel that is read again: its queue is published once more after that, and counted
        then. The queue of a channel that was closed is gone."""
        self._stored_bytes.add(channel.hub, -channel.queued_bytes)
        channel.queued_bytes = 0
        if channel.queue:
            channel.resume = self._resume

    async def _write(
        self,
        channels: list[Channel],
        entries: list[_Entry],
        appends: list[Append | None],
        prepared: Mapping[int, PreparedWrite],
    ) -> None:
        failed: dict[Channel, HubbubError] = {}
        results: list[Exception | None] = []
        try:
            to_store = [append for append in appends if append is not None]
            if to_store:
                results = await self._append_all(to_store)
        except HubbubError as error:
            failed = dict.fromkeys(channels, error)
        except Exception:
            logger.exception("an append failed")
            failed = dict.fromkeys(channels, Internal("the hub failed to store this"))
        self._conclude_all(entries, appends, prepared, results, failed)
        self._release(channels, failed)

    # -- preparing ------------------------------------------------------------------------------

    def _prepare(
        self, channels: list[Channel], entries: list[_Entry], prepared: dict[int, PreparedWrite]
    ) -> Steps[list[Append | None]]:
        """What is to be stored of each entry; `prepared` gets what becomes of ordered requests, and
        of messages that are refused."""
        heads = {channel: channel.head for channel in channels}
        appends: list[Append | None] = []
        for at, (channel, sent, _) in enumerate(entries):
            append: Append | None = None
            refusal = None if sent.stamp is None else _out_of_turn(channel, sent)
            if refusal is not None:
                prepared[at] = _Refused(refusal)
            elif not isinstance(sent, Message):
                found = prepared[at] = yield from self._prepare_request(channel, sent)
                if found.message is not None:
                    if found.numbered:
                        found.message.serial = heads[channel] = heads[channel] + 1
                    append = self._append_of(channel, found.message, *channel.row_of(sent))
                    append = found.complete(append)
            elif channel.must_store(sent):
                sent.serial = heads[channel] = heads[channel] + 1
                sent.store = True  # also where the rules wanted it and not the publisher
                append = self._append_of(channel, sent, *channel.row_of(sent))
            appends.append(append)
        return appends

    def _prepare_request(
        self, channel: Channel, request: OrderedRequest[Any]
    ) -> Steps[PreparedWrite]:
        try:
            return (yield from self._handlers[type(request)].prepare(channel, request))
        except HubbubError as error:
            refusal = error
        except Exception:
            logger.exception("a request for channel %r could not be prepared", channel.name)
            refusal = Internal("the hub failed to apply the change")
        producer = channel.producer_of(request)
        if producer is not None and request.stamp is not None:  # it uses up no sequence
            producer.accepted = min(producer.accepted, request.stamp.sequence - 1)
        return _Refused(refusal)

    def _append_of(
        self, channel: Channel, message: Message, producer: int, sequence: int
    ) -> Append:
        retained = message.retain and channel.must_retain(message)
        return Append(
            message,
            channel.epoch,
            channel.partition,
            self._terms.of(channel),
            self._retained.until(message) if retained else None,
            producer,
            sequence,
            search=is_searched(channel.name, channel.rules),
        )

    # -- concluding -----------------------------------------------------------------------------

    def _conclude_all(
        self,
        entries: list[_Entry],
        appends: list[Append | None],
        prepared: Mapping[int, PreparedWrite],
        results: list[Exception | None],
        failed: dict[Channel, HubbubError],
    ) -> None:
        """In order. What was refused in a channel whose append failed was prepared against
        something that is not on disk: it is prepared again, before all that came later."""
        outcomes = iter(results)
        again: list[_Entry] = []
        for at, (channel, sent, reply) in enumerate(entries):
            stored = appends[at] is not None
            result = next(outcomes, None) if stored else None
            if isinstance(result, HubbubError):
                failed[channel] = result
                if isinstance(result, StaleOwner):
                    self._fenced(channel.partition)
            error = failed.get(channel) if failed else None
            if at not in prepared:
                assert isinstance(sent, Message)
                self._conclude(channel, sent, reply, stored, error)
            elif error is not None and prepared[at].error is not None:
                again.append((channel, sent, reply))
            else:
                self._conclude_prepared(channel, sent, reply, prepared[at], error)
        for channel, sent, reply in reversed(again):
            channel.queued_bytes += self._size_of(sent)
            channel.wait_first(sent, reply)

    def _conclude(
        self,
        channel: Channel,
        message: Message,
        reply: PublishReply | None,
        stored: bool,
        error: HubbubError | None,
    ) -> None:
        if error is not None:
            if stored:
                self._stored_bytes.add(channel.hub, -size_of(message))
            if reply is not None:
                reply(PublishOutcome(error=error))
        elif stored:
            channel.head = message.serial
            if message.retain and channel.must_retain(message):
                self._retained.keep(channel, message)
            self._deliver(channel, message)
            if reply is not None:
                reply(PublishOutcome(message.serial))
        else:
            self._accept_unstored(channel, message, reply)

    def _conclude_prepared(
        self,
        channel: Channel,
        sent: Sent,
        reply: PublishReply | None,
        prepared: PreparedWrite,
        error: HubbubError | None,
    ) -> None:
        """Stored, then told, then answered."""
        refused = error or prepared.error
        kept = prepared.kept_bytes if refused is None else 0
        self._stored_bytes.add(channel.hub, kept - self._size_of(sent))
        if refused is None and not isinstance(sent, Message):
            self._handlers[type(sent)].stored(channel, prepared)
            if prepared.message is not None and prepared.numbered:
                channel.head = prepared.message.serial
                self._deliver(channel, prepared.message)
        if reply is not None:
            reply(prepared.outcome() if refused is None else PublishOutcome(error=refused))

    def _release(self, channels: list[Channel], failed: Mapping[Channel, HubbubError]) -> None:
        for channel in channels:
            intact = channel not in failed
            self._channels.append_ended(channel, intact)
            if channel.state is not State.READY:
                self._uncount_queue(channel)
            elif channel.queue:
                self._make_ready(channel)
            if intact and channel.states:
                for appended in self._appended:
                    appended(channel)


def _out_of_turn(channel: Channel, sent: Sent) -> SequenceGap | None:
    """The refusal of what its producer put behind a request that was refused since."""
    producer, stamp = channel.producer_of(sent), sent.stamp
    if producer is None or stamp is None or stamp.keyed or stamp.sequence <= producer.accepted:
        return None
    return SequenceGap(
        f"sequence {stamp.sequence} of producer {stamp.producer!r} cannot follow: an "
        f"earlier one was refused; {producer.accepted + 1} comes next"
    )


def _ignore(_: PublishOutcome) -> None:
    """Nobody waits for it."""
