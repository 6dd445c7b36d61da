"""The journal of a node: collects events on the event loop, and writes them in a thread.

A message costs the hot path a few bytes in a buffer, another event an append to a list. Memory is
bounded: if the thread falls behind, telemetry is dropped and counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from hubbub.domain.errors import HubbubError
from hubbub.domain.journal import NODE_STARTED, PUBLISHED, TELEMETRY_LOST, JournalEvent, PayloadRule
from hubbub.domain.messages import Message
from hubbub.journal.exporting import Exporter, RuleOf
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import events_of, head_of
from hubbub.journal.runs import Gathered
from hubbub.journal.sealer import Sealer
from hubbub.journal.segments import END, ROTATE, EventBatch, SegmentOptions, SegmentThread
from hubbub.journal.streams import JournalStreams
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store

logger = logging.getLogger(__name__)

BATCH_EVENTS: Final = 2048
BATCH_BYTES: Final = 256 * 1024
FLUSH_SECONDS: Final = 0.2
TICK_SECONDS: Final = 1.0


class JournalWriter:
    """Implements `ports.journal.Journal`."""

    enabled = True

    def __init__(
        self,
        folder: JournalFolder,
        node: str,
        clock: Clock,
        store: Store,
        rule_of: RuleOf,
        options: SegmentOptions,
        max_buffered_bytes: int,
        sealer: Sealer | None = None,
    ) -> None:
        self._node = node
        self._clock = clock
        self._max_buffered_bytes = max_buffered_bytes
        self._gathered = Gathered(node)
        self._payload_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._sources: list[Callable[[bool], None]] = []
        self._sent_bytes = 0
        self._lost: dict[tuple[str, str], int] = {}
        """Lost events per (hub, reason), not yet journalled."""
        self._start: JournalEvent | None = None
        """Written with the first events: a node without events writes nothing."""
        self._waiting: dict[EventBatch, asyncio.Future[bool]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._sealer = sealer
        self.events = 0
        self.lost = 0
        self.exporter = Exporter(store, rule_of, self._write_stored)
        self.streams = JournalStreams(self._write_streams)
        self.thread = SegmentThread(
            folder,
            node,
            clock,
            options,
            synced=lambda batches: self._call(self._on_synced, batches),
            failed=lambda batch, reason: self._call(self._on_failed, batch, reason),
            asked=lambda: self._call(self._on_asked),
            closed=self._on_closed,
        )

    # -- what the engine calls ------------------------------------------------------------------

    def record(self, event: JournalEvent) -> None:
        self._gathered.record(event)
        if self._timer is None or self._gathered.count >= BATCH_EVENTS:
            self._look()

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        if message.store and not self.exporter.expects(message, epoch):
            return
        if rule == "off":
            return
        if rule == "payload":
            self._payload_bytes += len(message.payload)
        gathered = self._gathered
        gathered.published(message, epoch, rule)
        if self._timer is None or gathered.count >= BATCH_EVENTS:
            self._look()
        elif self._payload_bytes >= BATCH_BYTES:
            self.flush()

    def add_source(self, flush: Callable[[bool], None]) -> None:
        self._sources.append(flush)

    def _look(self) -> None:
        if self._gathered.count >= BATCH_EVENTS:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    # -- life -----------------------------------------------------------------------------------

    @property
    def buffered_bytes(self) -> int:
        """The bytes that wait to be written."""
        return self._sent_bytes - self.thread.taken_bytes

    def start(self) -> None:
        """Never fails: the thread handles an unwritable disk."""
        self._loop = asyncio.get_running_loop()
        self._start = JournalEvent(NODE_STARTED, int(self._clock.now() * 1e6), "")
        self.thread.start()
        self._ticking = self._loop.create_task(self._tick())

    async def stop(self) -> None:
        """Writes as much as the disk accepts, and closes the segment. Does nothing if the writer
        was never started."""
        if self._ticking is None:
            return
        self._ticking.cancel()
        await asyncio.wait([self._ticking])
        self._gather()
        self.thread.queue.put(END)
        await self._loop.run_in_executor(None, self.thread.join)
        await asyncio.sleep(0)  # what the thread said last is heard now
        try:
            await self.exporter.save()
        except HubbubError as error:
            logger.warning("the store's position of the journal cannot be read: %s", error)
        if self._sealer is not None:
            await self._loop.run_in_executor(None, self._sealer.stop)

    async def _tick(self) -> None:
        while True:
            for source in self._sources:
                source(False)
            try:
                await self.exporter.run()
            except HubbubError as error:
                logger.warning("stored messages wait for the journal: %s", error)
            except Exception:
                logger.exception("stored messages wait for the journal")
            await asyncio.sleep(TICK_SECONDS)

    def _gather(self) -> None:
        for source in self._sources:
            source(True)
        self.flush()

    # -- batches --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Passes the collected events to the thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        gathered, self._gathered = self._gathered, Gathered(self._node)
        self._payload_bytes = 0
        marks = self.exporter.take_marks()
        if not gathered.count and not marks:
            return
        if self.buffered_bytes > self._max_buffered_bytes:
            self.exporter.failed(marks)
            self._lose(gathered.body(), "overload")
            return
        for loss in self._losses():
            gathered.record(loss)
        if self._start is not None and gathered.count:
            gathered.record(self._start)
            self._start = None
        body = gathered.body()
        self._hand_over(EventBatch(head_of(body), body, gathered.count, marks))

    def _hand_over(self, batch: EventBatch) -> None:
        self._sent_bytes += len(batch.body)
        self.thread.queue.put(batch)

    async def _write_stored(
        self, messages: Sequence[Message], epoch: str, rule: PayloadRule
    ) -> bool:
        """Called by the exporter. It waits for each call before the next, so no bound is needed."""
        if rule == "off":
            return True
        gathered = Gathered(self._node)
        for message in messages:
            gathered.published(message, epoch, rule)
        return await self._write_through(gathered)

    async def _write_streams(self, events: Sequence[JournalEvent]) -> bool:
        gathered = Gathered(self._node)
        for event in events:
            gathered.record(event)
        return await self._write_through(gathered)

    async def _write_through(self, gathered: Gathered) -> bool:
        """Returns when the record is on disk, or False if it cannot be written."""
        body = gathered.body()
        batch = EventBatch(head_of(body), body, gathered.count, {}, urgent=True)
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[batch] = done
        self._hand_over(batch)
        return await done

    # -- losses ---------------------------------------------------------------------------------

    def _lose(self, body: bytes, reason: str) -> None:
        """Counts the events that are missing in the journal. Stored messages will be exported
        again; earlier losses are kept."""
        for event in events_of(body):
            if event.kind == PUBLISHED and event.stored:
                continue
            key, count = (event.hub, reason), 1
            if event.kind == TELEMETRY_LOST:
                key, count = (event.hub, event.reason or reason), event.count or 1
            else:
                self.lost += 1
            self._lost[key] = self._lost.get(key, 0) + count

    def _losses(self) -> list[JournalEvent]:
        """Events that report losses not yet journalled."""
        if not self._lost:
            return []
        lost, self._lost = self._lost, {}
        at = int(self._clock.now() * 1e6)
        return [
            JournalEvent(TELEMETRY_LOST, at, hub, count=count, reason=reason)
            for (hub, reason), count in lost.items()
        ]

    # -- from the thread ------------------------------------------------------------------------

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    def _on_synced(self, batches: list[EventBatch]) -> None:
        for batch in batches:
            self.events += batch.count
            self.exporter.synced(batch.marks)
            self._conclude(batch, True)

    def _on_failed(self, batch: EventBatch, reason: str) -> None:
        self.exporter.failed(batch.marks)
        if not self._conclude(batch, False):
            self._lose(batch.body, reason)

    def _conclude(self, batch: EventBatch, worked: bool) -> bool:
        """Returns whether a caller waited for the batch."""
        waiting = self._waiting.pop(batch, None) if batch.urgent else None
        if waiting is not None and not waiting.done():
            waiting.set_result(worked)
        return waiting is not None

    def _on_asked(self) -> None:
        """A reader requests all events recorded so far."""
        self._gather()
        self.thread.queue.put(ROTATE)

    def _on_closed(self) -> None:
        """Called on the thread of the writer when it has closed a segment."""
        if self._sealer is not None:
            self._sealer.start()
