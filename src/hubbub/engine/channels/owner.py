"""The owner of channels: takes publishes in, gives them an order, makes them durable if they must
be, and sends them to every node that has subscribers.

What it promises:
- all subscribers of a channel see one order, and serials show any gap;
- a stored message is on disk before anyone sees it or its publisher is told so;
- a publish waits for nothing but its own channel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from hubbub.domain.communication.requests import CommunicationRequest
from hubbub.domain.cursors import Cursor
from hubbub.domain.documents.changes import DocumentAnswer, DocumentQuery
from hubbub.domain.errors import HubbubError, StaleOwner
from hubbub.domain.history import HistoryQuery
from hubbub.domain.messages import Message
from hubbub.domain.names import COMMUNICATION_LOG, partition_of
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.notifications import NotificationAnswer, NotificationRequest
from hubbub.domain.threads import ThreadsFound, ThreadsQuery
from hubbub.domain.topics import (
    EraseMessages,
    FindPut,
    OpenProducer,
    SubscriptionKey,
    SubscriptionRequest,
    TopicAnswer,
    TopicRequest,
    WebhookRequest,
    channel_of,
)
from hubbub.engine.access.registry import AccessRegistry
from hubbub.engine.channels.announcements import Announcements, Emit
from hubbub.engine.channels.appends import Appender
from hubbub.engine.channels.attendance import Attendance
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.communication import Communicating, NoCommunication
from hubbub.engine.channels.erasing import Eraser
from hubbub.engine.channels.history import page_from_store
from hubbub.engine.channels.lifecycle import Channels
from hubbub.engine.channels.pushing import NoPush, PushSink
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.channels.threads import ThreadReader
from hubbub.engine.channels.watching import Watching
from hubbub.engine.channels.webhook_driving import NoWebhooks, WebhookDriving
from hubbub.engine.counters import TopicCounters
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.documents.journal import record_change
from hubbub.engine.documents.judge import DocumentJudge, Judged, only_removes
from hubbub.engine.documents.reader import DocumentReader
from hubbub.engine.documents.snapshots import Snapshots
from hubbub.engine.limits import EngineLimits
from hubbub.engine.notifications.journal import NotificationEvents
from hubbub.engine.notifications.owner import NotificationOwner
from hubbub.engine.topics.cursors import no_topic
from hubbub.engine.topics.durable import DurableSubscriptions
from hubbub.engine.topics.producers import Producers
from hubbub.engine.topics.receipts import Receipts
from hubbub.engine.tracing.storing import traced_append
from hubbub.ports.bus import (
    Attachment,
    DocumentChanged,
    Following,
    Matches,
    MessagePublished,
    PublishOutcome,
    PublishReply,
    Watch,
)
from hubbub.ports.clock import Clock
from hubbub.ports.journal import Journal
from hubbub.ports.spans import Spans
from hubbub.ports.storage import Store
from hubbub.ports.storage.messages import Deleted

_T = TypeVar("_T")
_R = TypeVar("_R")
Publish = Callable[[Message, PublishReply], None]


class ChannelOwner:
    """All channels that this node owns, on the event loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        configuration_of: ConfigurationOf,
        limits: EngineLimits,
        access: AccessRegistry,
        emit: Emit,
        publish: Publish,
        journal: Journal,
        spans: Spans | None = None,
    ) -> None:
        """`publish` reaches the owner of any channel, for what an owner has to say elsewhere.
        Without `spans` nothing is traced."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._configuration_of = configuration_of
        self._emit = emit
        self._announcements = Announcements(emit)
        self.terms: dict[int, int] = {}
        """Of the partitions that this node owns."""
        self.stored_bytes = StoredBytes(store, configuration_of)
        self._retained = RetainedMessages(store, clock, limits.retain_seconds, self.terms)
        self._eraser = Eraser(store, self.terms, self._retained)
        self._producers = Producers(store, self.terms, self._append_put, self._accept)
        self._snapshots = Snapshots(store, self.terms, self.stored_bytes)
        self._documents = DocumentReader(store)
        self._threads = ThreadReader(store, self.terms)
        self.counters: defaultdict[str, TopicCounters] = defaultdict(TopicCounters)
        """By hub."""
        receipts = Receipts(journal, clock)
        self.durable = DurableSubscriptions(
            store, clock, self.terms, publish, receipts, self.counters, access
        )
        self.notifications = NotificationOwner(
            store,
            clock,
            self.terms,
            limits,
            self.stored_bytes,
            emit,
            NotificationEvents(journal, clock),
        )
        self.channels = Channels(
            store=store,
            clock=clock,
            configuration_of=configuration_of,
            limits=limits,
            retained=self._retained,
            stored_bytes=self.stored_bytes,
            load_document=self._documents.load,
            opened=self._opened,
            loaded=self._loaded,
            closed=self._closed,
        )
        self._appender = Appender(
            append=store.append if spans is None else traced_append(spans, store.append),
            clock=clock,
            terms=self.terms,
            retained=self._retained,
            stored_bytes=self.stored_bytes,
            row_of=self._producers.row_of,
            deliver=self._deliver,
            accept_unstored=self._accept_unstored,
            documents=DocumentJudge(limits.documents),
            snapshots=self._snapshots,
            tell_change=self._tell_change,
            ended=self.channels.append_ended,
            fenced=lambda partition: self.fenced(partition),
        )
        self._open = self.channels.open
        self.watching = Watching(self._open, emit, clock)
        self.attendance = Attendance(self._open, self._announcements, self.watching, clock)
        self.webhooks: WebhookDriving = NoWebhooks()
        self.push: PushSink = NoPush()
        self.communication: Communicating = NoCommunication()
        self.fenced: Callable[[int], None] = lambda partition: None
        """Called where the store says that another node owns a partition."""
        self.detach = self.attendance.detach
        self.join = self.attendance.join
        self.leave = self.attendance.leave
        self.occupy = self.attendance.occupy
        self._announces = False

    def start(self, terms: Mapping[int, int], settle_seconds: float = 0.0) -> None:
        """Begin to own the partitions, each under its term. Where others owned them before, the
        followers have some seconds to tell who they are."""
        self.terms.update(terms)
        self.webhooks.owned(list(terms))
        self.communication.owned(list(terms))
        self.watching.took_over()
        if settle_seconds:
            self.attendance.settle(list(terms), settle_seconds)

    async def release(self, partitions: Collection[int]) -> None:
        """Another node owns these partitions now: let their channels go at once, and wait until
        nothing is under way. What was not done ends with `StaleOwner`: it took no effect."""
        self.webhooks.released(partitions)
        await self.communication.released(partitions)
        for partition in partitions:
            self.terms.pop(partition, None)
        self.channels.release(partitions)
        await self._appender.ended_so_far()

    async def stop(self) -> None:
        """Let what was accepted become durable and be answered."""
        await self.channels.settle()
        await self._producers.settle()
        await self.durable.settle()
        await self._appender.settle()
        await self._retained.settle()
        for channel in self._open.values():
            self._snapshots.save_now(channel)
        await self._snapshots.settle()

    async def settle_snapshots(self) -> None:
        """Wait until no snapshot of a document is under way."""
        await self._snapshots.settle()

    # -- requests -------------------------------------------------------------------------------

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        try:
            place = message.hub, message.channel
            channel = self._open.get(place) or self.channels.use(*place)
            if channel.state >= State.READY:
                self._accept(channel, message, reply)
            else:
                self.channels.load(channel)
                channel.wait(message, reply)
        except HubbubError as error:
            if reply is not None:
                reply(PublishOutcome(error=error))

    async def attach(self, node: str, hub: str, name: str) -> Attachment:
        channel = self.channels.use(hub, name)
        self.attendance.attach(node, channel)
        await self.channels.ready(channel)
        return self._state(channel)

    async def follow(
        self, node: str, followings: Sequence[Following]
    ) -> list[Attachment | HubbubError]:
        """What a node follows, all at once; each answer in its place."""
        answers: list[Attachment | HubbubError] = []
        channels: list[Channel | HubbubError] = []
        for following in followings:
            try:
                channel = self.channels.use(following.hub, following.channel)
            except HubbubError as error:
                channels.append(error)
                continue
            self.attendance.renew(node, channel, following)
            channels.append(channel)
        for each in channels:
            if isinstance(each, HubbubError):
                answers.append(each)
                continue
            try:
                if each.state < State.READY:
                    await self.channels.ready(each)
                answers.append(self._state(each))
            except HubbubError as error:
                answers.append(error)
        return answers

    def _state(self, channel: Channel) -> Attachment:
        held, document = channel.notifications, channel.document
        return Attachment(
            channel.epoch,
            channel.head,
            self._retained.current(channel),
            held.state if held is not None else None,
            document.stored if document is not None else None,
            channel.opened,
        )

    async def watch(self, node: str, watch: Watch) -> Matches:
        """The patterns of a node. Raises `TooManyMatches`."""
        return await self.watching.watch(node, watch)

    async def members(self, hub: str, name: str) -> tuple[Member, ...]:
        channel = self._open.get((hub, name))
        return channel.present() if channel is not None else ()

    async def occupancy(self, hub: str, name: str) -> int:
        channel = self._open.get((hub, name))
        return channel.occupancy() if channel is not None else 0

    async def history(self, query: HistoryQuery) -> HistoryPage:
        channel = self.channels.use(query.hub, query.channel)
        await self.channels.ready(channel)
        if query.conversation is not None:
            return await self._threads.messages(channel, query)
        if channel.rules.store:
            return await page_from_store(self._store, query, channel.epoch)
        return channel.page_from_live_history(query)

    async def threads(self, query: ThreadsQuery) -> ThreadsFound:
        """Raises `NotFound` where the channel does not store."""
        return await self._serve(query.hub, query.channel, self._threads.threads, query)

    async def document(self, query: DocumentQuery) -> DocumentAnswer:
        """Raises `NotFound`, `InvalidPatch`, `HistoryGone`."""
        return await self._serve(query.hub, query.channel, self._documents.answer, query)

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        """For a producer or a durable subscription. Raises `TopicNotFound` where the channel does
        not store."""
        hub, name = channel_of(request)
        if isinstance(request, FindPut):
            return await self._producers.find(self._open.get((hub, name)), request.message)
        if isinstance(request, EraseMessages):
            erased = await self._serve(hub, name, self._eraser.erase, request)
            if erased.count:
                self.webhooks.erased(hub, name)
            return erased
        if isinstance(request, WebhookRequest):
            return await self.webhooks.serve(request)
        if isinstance(request, CommunicationRequest):
            return await self.communication.serve(request)
        return await self._serve(hub, name, self._serve_topic, request)

    def _serve_topic(
        self, channel: Channel, request: SubscriptionRequest | OpenProducer
    ) -> Awaitable[TopicAnswer]:
        if not channel.rules.store:
            raise no_topic(channel.hub, channel.name)
        if isinstance(request, OpenProducer):
            return self._producers.open(channel, request.principal, request.producer)
        return self.durable.serve(channel, request)

    async def notification(self, request: NotificationRequest) -> NotificationAnswer:
        """What `NotificationOwner.serve` answers and raises."""
        return await self._serve(request.hub, request.channel, self.notifications.serve, request)

    async def expire_notifications(self) -> None:
        """Called from time to time. Raises `StoreUnavailable`."""
        await self.notifications.expire(lambda hub, name: self._open.get((hub, name)))

    async def _serve(
        self, hub: str, name: str, serve: Callable[[Channel, _R], Awaitable[_T]], request: _R
    ) -> _T:
        """`serve` is given the channel, read from disk, which stays open. If it moves to another
        node meanwhile, whatever fails fails with `StaleOwner`."""
        channel = self.channels.use(hub, name)
        channel.hold()
        try:
            if channel.state is not State.READY:
                await self.channels.ready(channel)
            return await serve(channel, request)
        except HubbubError as error:
            if channel.closed_by is not None:
                raise channel.closed_by from error
            if isinstance(error, StaleOwner):
                self.fenced(channel.partition)
            raise
        finally:
            channel.let_go(self._clock.monotonic())

    # -- the path of a message ------------------------------------------------------------------

    def _accept(self, channel: Channel, message: Message, reply: PublishReply | None) -> None:
        """Decide how durable the message must be, and deliver it once it is."""
        if message.stamp is not None:
            self._producers.put(channel, message, reply or _ignore)
        elif (channel.rules.store or channel.document) and channel.must_store(message):
            self._check_bytes(channel, message)
            self._appender.append(channel, message, reply)
        elif channel.queue or channel.state > State.READY:
            channel.wait(message, reply)  # behind the stored ones that came first
        else:
            self._accept_unstored(channel, message, reply)

    def _append_put(self, channel: Channel, message: Message, reply: PublishReply) -> None:
        self._check_bytes(channel, message)
        self._appender.append(channel, message, reply)

    def _check_bytes(self, channel: Channel, message: Message) -> None:
        """Raises `QuotaExceeded`, except for what only removes from a document."""
        if channel.document is None or not only_removes(message):
            self.stored_bytes.check(channel, len(message.payload))

    def _accept_unstored(
        self, channel: Channel, message: Message, reply: PublishReply | None
    ) -> None:
        message.store = False
        channel.number(message)
        self._deliver(channel, message)
        if message.retain and channel.must_retain(message):
            self._retained.save(channel, message, reply)
        elif reply is not None:
            reply(PublishOutcome(message.serial))

    def _deliver(self, channel: Channel, message: Message) -> None:
        """Show a message to everyone; it is as durable as it will be."""
        if self._journal.enabled:
            self._journal.published(message, channel.epoch, channel.rules.journal)
        if message.store and message.serial:
            if channel.cursors is not None:
                self.durable.delivered(channel, message)
            self.webhooks.delivered(message)
        if message.push:
            self._push(channel, message)
        if channel.history is not None:
            channel.history.append(message)
        if channel.nodes:
            event = MessagePublished(message, channel.epoch)
            if self._announces:
                self._announcements.spoken[channel] = None
            self._emit(channel.nodes, channel.hub, channel.name, event)
            if channel.watchers:
                channel.idle_since = self._clock.monotonic()
        else:
            channel.idle_since = self._clock.monotonic()

    def _push(self, channel: Channel, message: Message) -> None:
        """The options have done their part: nobody else sees them."""
        options, message.push_options = message.push_options, None
        if channel.rules.push:
            self.push.published(message, options)

    def _tell_change(self, channel: Channel, judged: Judged) -> None:
        """Show a change of the document to everyone; it is on disk."""
        assert channel.document is not None
        assert judged.state is not None
        channel.document.stored = judged.state
        if self._announces:
            self._announcements.spoken[channel] = None
        if judged.update is not None:
            size = judged.state.size
            record_change(self._journal, channel, judged.update, size)
            if channel.nodes:
                event = DocumentChanged(judged.update, size)
                self._emit(channel.nodes, channel.hub, channel.name, event)
        elif judged.append is not None and judged.append.deletes:
            self._announcements.head(channel)

    # -- the life of a channel ------------------------------------------------------------------

    def _opened(self, channel: Channel) -> None:
        self.watching.opened(channel)
        if channel.watchers and channel.state is State.READY:
            self.watching.tell(channel, self._state(channel))

    def _loaded(self, channel: Channel) -> None:
        """Epoch and head are known: publishes that waited for them go on."""
        if channel.watchers:
            self.watching.tell(channel, self._state(channel))
        self._announcements.heads((channel,))
        for message, reply in channel.take_queue():
            self.publish(message, reply)

    def _closed(self, channel: Channel) -> None:
        self.durable.forget(channel)
        if channel.partition in self.terms:
            self._snapshots.save_now(channel)
            self.watching.closed(channel)

    def cursor_in_memory(self, key: SubscriptionKey) -> tuple[Cursor, int] | None:
        """Where a durable subscription stands, and the head of its channel; None: only the disk
        knows."""
        channel = self._open.get((key.hub, key.channel))
        if channel is None or channel.state < State.READY or channel.cursors is None:
            return None
        subscription = channel.cursors.subscriptions.get((key.owner, key.name))
        return (subscription.cursor, channel.head) if subscription is not None else None

    def waiting_writes(self) -> int:
        """Messages that wait for the store, or are on their way to it."""
        return sum(len(channel.queue or ()) for channel in self._open.values())

    def reclaimed(self, hub: str, name: str, deleted: Deleted) -> None:
        """Retention has deleted messages of a channel, which may be open or not."""
        self.stored_bytes.add(hub, -deleted.stored_bytes)
        counters = self.counters[hub]
        counters.reclaimed += deleted.messages
        counters.reclaimed_bytes += deleted.stored_bytes
        channel = self._open.get((hub, name))
        if channel is not None:
            channel.first = deleted.first
            self.durable.lost_before(channel, deleted.first)

    # -- settings -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Apply changed rules to the hub's channels at once, or as soon as no append is under
        way."""
        self.webhooks.hub_changed(hub)
        self.push.hub_changed(hub)
        self.communication.hub_changed(hub)
        self.channels.hub_changed(hub)
        try:
            self._configuration_of(hub)
        except HubbubError:  # it was deleted, or the name stands for all hubs
            self.stored_bytes.forget(hub)
            self.counters.pop(hub, None)

    async def suspend_hub(self, hub: str) -> None:
        """The hub is away, and its writes are held: let go of all that is in memory of it, and
        wait until nothing of it is under way. What was not done has failed."""
        closing = [channel for channel in self._open.values() if channel.hub == hub]
        self.hub_changed(hub)
        await self._appender.ended_so_far()  # closes channels that waited for an append
        for part in (self.channels, self._producers, self.durable, self._retained, self._snapshots):
            await part.settle_so_far()
        await self.webhooks.settle_hub(hub)
        for channel in closing:
            await channel.let_go_by_all()

    async def resume_hub(self, hub: str) -> None:
        """The hub has come back as the store has it now. Raises `StoreUnavailable`."""
        self.hub_changed(hub)
        await self.webhooks.hub_resumed(hub)
        self.communication.owned([partition_of(hub, COMMUNICATION_LOG)])

    def channel_changed(self, hub: str, channel: str) -> None:
        """The same for what the owner of one channel decided about it, and for its dead letters."""
        self.channels.channel_changed(hub, channel)
        self.webhooks.hub_changed(hub)
        self.push.channel_changed(hub, channel)

    def announce_news(self) -> None:
        """Called every second where followers may miss what they are sent."""
        self._announces = True
        self._announcements.news(self._open.values())


def _ignore(_: PublishOutcome) -> None:
    """Nobody waits for it."""
