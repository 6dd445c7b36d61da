"""Durable appends: collects what channels must store and hands it to the store in groups.

A channel has one append under way at a time; what comes in meanwhile goes with the next one. So
serials are given out only to messages that are on their way to the disk, in order, and a failed
write leaves no gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.messages import Message, change_of
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.documents.judge import DocumentJudge, Judged, message_of
from hubbub.engine.documents.reader import CHANGE_WEIGHT
from hubbub.engine.documents.snapshots import Snapshots
from hubbub.engine.large_work import SMALL_BYTES, HubLocks, leave_loop
from hubbub.ports.bus import PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.storage.messages import Append, AppendAll
from hubbub.tasks import TaskSet

_Entry = tuple[Channel, Message, PublishReply | None]


class Appender:
    """Serves all channels of one owner."""

    def __init__(
        self,
        append: AppendAll,
        clock: Clock,
        terms: Mapping[int, int],
        retained: RetainedMessages,
        stored_bytes: StoredBytes,
        row_of: Callable[[Channel, Message], tuple[int, int]],
        deliver: Callable[[Channel, Message], None],
        accept_unstored: Callable[[Channel, Message, PublishReply | None], None],
        documents: DocumentJudge,
        snapshots: Snapshots,
        tell_change: Callable[[Channel, Judged], None],
        ended: Callable[[Channel, bool], None],
        fenced: Callable[[int], None],
    ) -> None:
        """`append` is the store's. `row_of(channel, message)` says whose put it is.
        `ended(channel, intact)` is called when a channel's append has ended; not intact: epoch and
        head have to be read from the store again. `fenced(partition)` is called where another node
        owns the channel."""
        self._append_all = append
        self._clock = clock
        self._retained = retained
        self._stored_bytes = stored_bytes
        self._row_of = row_of
        self._deliver = deliver
        self._accept_unstored = accept_unstored
        self._documents = documents
        self._snapshots = snapshots
        self._tell_change = tell_change
        self._ended = ended
        self._fenced = fenced
        self._ready: dict[Channel, None] = {}
        self._changing = HubLocks()
        """Held by who applies large changes to a document."""
        self._tasks = TaskSet()
        self.terms = terms

    @property
    def busy(self) -> bool:
        return bool(self._ready or self._tasks)

    async def settle(self) -> None:
        """Wait until everything that was begun has ended."""
        while self.busy:
            await self._tasks.settle()
            await asyncio.sleep(0)

    async def ended_so_far(self) -> None:
        """Wait until the appends that are under way now have ended."""
        await asyncio.sleep(0)  # what is ready sets out in this turn of the loop
        await self._tasks.settle_so_far()

    def append(self, channel: Channel, message: Message, reply: PublishReply | None) -> None:
        size = len(message.payload)
        self._stored_bytes.add(channel.hub, size)
        channel.queued_bytes += size
        channel.wait(message, reply)
        self._make_ready(channel)

    def _make_ready(self, channel: Channel) -> None:
        if channel.state is not State.READY or channel in self._ready:
            return
        if not self._ready:
            asyncio.get_running_loop().call_soon(self._flush)
        self._ready[channel] = None

    def _flush(self) -> None:
        """Send what every ready channel has collected, as one group."""
        ready, self._ready = self._ready, {}
        entries: list[_Entry] = []
        channels = []
        for channel in ready:
            if not self._still_ready(channel):
                continue
            if channel.document is not None and channel.queued_bytes > SMALL_BYTES:
                self._begin_large(channel)
                continue
            channel.queued_bytes = 0
            channels.append(channel)
            entries += [(channel, message, reply) for message, reply in channel.begin_append()]
        if entries:
            self._tasks.start(self._write(channels, entries))

    def _begin_large(self, channel: Channel) -> None:
        """Of large changes to a document a few at a time are applied; the others stay queued."""
        taken = list(channel.begin_append(SMALL_BYTES))
        size = sum(len(message.payload) for message, _ in taken if channel.must_store(message))
        channel.queued_bytes = max(0, channel.queued_bytes - size) if channel.queue else 0
        entries = [(channel, message, reply) for message, reply in taken]
        self._tasks.start(self._write_large(channel, entries, size))

    async def _write_large(self, channel: Channel, entries: list[_Entry], size: int) -> None:
        async with self._changing.of(channel.hub):
            await self._write([channel], entries)
            await leave_loop(CHANGE_WEIGHT * size)

    def _still_ready(self, channel: Channel) -> bool:
        """A channel whose rules changed in this turn of the loop is read again first; its queue
        is published once more after that, and counted then. The queue of a channel that was closed
        is gone."""
        if channel.state is State.READY:
            return True
        self._uncount_queue(channel)
        return False

    def _uncount_queue(self, channel: Channel) -> None:
        self._stored_bytes.add(channel.hub, -channel.queued_bytes)
        channel.queued_bytes = 0

    async def _write(self, channels: list[Channel], entries: list[_Entry]) -> None:
        judged: dict[int, Judged] = {}
        appends = self._prepare(channels, entries, judged)
        failed: dict[Channel, HubbubError] = {}
        results: list[Exception | None] = []
        try:
            to_store = [append for append in appends if append is not None]
            if to_store:
                results = await self._append_all(to_store)
        except HubbubError as error:
            failed = dict.fromkeys(channels, error)
        self._conclude_all(entries, appends, judged, results, failed)
        self._release(channels, failed)

    def _prepare(
        self, channels: list[Channel], entries: list[_Entry], judged: dict[int, Judged]
    ) -> list[Append | None]:
        """What is to be stored of each entry; `judged` gets what is to become of changes."""
        heads = {channel: channel.head for channel in channels}
        appends: list[Append | None] = []
        for at, (channel, message, _) in enumerate(entries):
            append: Append | None = None
            if channel.document is not None and (found := self._judge(channel, message)):
                judged[at] = found
                append = self._change_append(channel, message, found, heads)
            elif channel.must_store(message):
                message.serial = heads[channel] = heads[channel] + 1
                message.store = True  # also where the rules wanted it and not the publisher
                append = self._append_of(channel, message)
            appends.append(append)
        return appends

    def _conclude_all(
        self,
        entries: list[_Entry],
        appends: list[Append | None],
        judged: dict[int, Judged],
        results: list[Exception | None],
        failed: dict[Channel, HubbubError],
    ) -> None:
        """In order. What was refused in a channel whose append failed was judged against something
        that is not on disk: it is judged again, before all that came later."""
        outcomes = iter(results)
        again: list[_Entry] = []
        for at, (channel, message, reply) in enumerate(entries):
            stored = appends[at] is not None
            result = next(outcomes, None) if stored else None
            if isinstance(result, HubbubError):
                failed[channel] = result
                if isinstance(result, StaleOwner):
                    self._fenced(channel.partition)
            error = failed.get(channel) if failed else None
            if at not in judged:
                self._conclude(channel, message, reply, stored, error)
            elif error is not None and judged[at].error is not None:
                again.append((channel, message, reply))
            else:
                self._conclude_change(channel, message, reply, judged[at], error)
        for channel, message, reply in reversed(again):
            channel.queued_bytes += len(message.payload)
            channel.wait_first(message, reply)

    def _judge(self, channel: Channel, message: Message) -> Judged | None:
        """Of a document's channel: None where the message is to be stored as it is."""
        if change_of(message) is not None:
            return self._documents.judge(channel, message)
        return self._documents.refuse_put(channel, message)

    def _change_append(
        self, channel: Channel, message: Message, judged: Judged, heads: dict[Channel, int]
    ) -> Append | None:
        """With the message that tells of the change, where the rules want one."""
        if judged.append is None:
            return None
        rules, update = channel.rules, judged.update
        tells = update is not None and rules.store and rules.document_messages
        told = message_of(message, update if tells else None)
        if tells:
            heads[channel] += 1
            told.serial = heads[channel]
            judged.message = told
        append = self._append_of(channel, told)
        producer, sequence = self._row_of(channel, message)
        return msgspec.structs.replace(
            append, producer=producer, sequence=sequence, change=judged.append
        )

    def _append_of(self, channel: Channel, message: Message) -> Append:
        retained = message.retain and channel.must_retain(message)
        return Append(
            message,
            channel.epoch,
            channel.partition,
            self.terms.get(channel.partition, 0),
            self._retained.until(message) if retained else None,
            *self._row_of(channel, message),
            communication=message.communication,
        )

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
                self._stored_bytes.add(channel.hub, -len(message.payload))
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

    def _conclude_change(
        self,
        channel: Channel,
        message: Message,
        reply: PublishReply | None,
        judged: Judged,
        error: HubbubError | None,
    ) -> None:
        """Stored, then told, then answered."""
        refused = error or judged.error
        kept = len(judged.update.ops) if judged.update is not None and refused is None else 0
        self._stored_bytes.add(channel.hub, kept - len(message.payload))
        if refused is None:
            self._tell_change(channel, judged)
            if judged.message is not None:
                channel.head = judged.message.serial
                self._stored_bytes.add(channel.hub, len(judged.message.payload))
                self._deliver(channel, judged.message)
        if reply is not None:
            reply(PublishOutcome(error=refused, change=judged.outcome()))

    def _release(self, channels: list[Channel], failed: dict[Channel, HubbubError]) -> None:
        for channel in channels:
            self._ended(channel, channel not in failed)
            if channel.state is not State.READY:
                self._uncount_queue(channel)
            elif channel.queue:
                self._make_ready(channel)
            if channel.document is not None and channel not in failed:
                self._snapshots.save_if_due(channel)
