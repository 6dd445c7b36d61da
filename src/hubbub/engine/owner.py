"""The owner of channels: takes publishes in, gives them an order, makes them durable if they must
be, and sends them to every node that has subscribers.

This is the one place where a channel changes. What it promises:
- all subscribers of a channel see one order, and serials show any gap;
- a stored message is on disk before anyone sees it or its publisher is told so;
- a publish waits for nothing but its own channel.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping

from hubbub.domain.errors import HubbubError, HubNotFound, QuotaExceeded, StaleOwner
from hubbub.domain.history import HistoryQuery, LiveHistory
from hubbub.domain.messages import Message
from hubbub.domain.names import partition_of
from hubbub.domain.notices import HistoryPage, Member
from hubbub.domain.rules import HubConfiguration
from hubbub.domain.topics import (
    FindPut,
    OpenProducer,
    SubscriptionKey,
    TopicAnswer,
    TopicRequest,
    WebhookRequest,
    channel_of,
)
from hubbub.engine.announcements import Announcements, Emit
from hubbub.engine.appends import Appender
from hubbub.engine.attendance import Attendance
from hubbub.engine.channel import Channel
from hubbub.engine.counters import TopicCounters
from hubbub.engine.durable import DurableSubscriptions
from hubbub.engine.limits import EngineLimits
from hubbub.engine.pages import page_from_store
from hubbub.engine.places import no_topic
from hubbub.engine.producers import Producers
from hubbub.engine.pushes import NoPushes, Pushes
from hubbub.engine.receipts import Receipts
from hubbub.engine.retained import RetainedMessages
from hubbub.ports.bus import Attachment, Following, Published, PublishOutcome, PublishReply
from hubbub.ports.clock import Clock
from hubbub.ports.journal import NO_JOURNAL, Journal
from hubbub.ports.store import Deleted, Store

Publish = Callable[[Message, PublishReply], None]
ConfigurationOf = Callable[[str], HubConfiguration]
"""The current settings of a hub."""


class ChannelOwner:
    """All channels that this node owns, on the event loop's thread."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        configuration_of: ConfigurationOf,
        limits: EngineLimits,
        emit: Emit,
        publish: Publish,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        """`publish` reaches the owner of any channel, for what an owner has to say elsewhere."""
        self._store = store
        self._journal = journal
        self._clock = clock
        self._configuration_of = configuration_of
        self._limits = limits
        self._emit = emit
        self._channels: dict[tuple[str, str], Channel] = {}
        self._channels_of: dict[str, int] = {}
        self._announcements = Announcements(emit)
        self.attendance = Attendance(self._channels, self._announcements, clock)
        self.terms: dict[int, int] = {}
        """Of the partitions that this node owns."""
        self._retained = RetainedMessages(store, clock, limits.retain_seconds, self.terms)
        self._producers = Producers(store, self.terms, self._append_put)
        self.counters: defaultdict[str, TopicCounters] = defaultdict(TopicCounters)
        """By hub."""
        receipts = Receipts(journal, clock)
        self.durable = DurableSubscriptions(
            store, clock, self.terms, publish, receipts, self.counters
        )
        self._appender = Appender(
            store=store,
            clock=clock,
            terms=self.terms,
            retained=self._retained,
            row_of=self._producers.row_of,
            deliver=self._deliver,
            accept_unstored=self._accept_unstored,
            landed=self._landed,
            fenced=lambda partition: self.fenced(partition),
        )
        self.pushes: Pushes = NoPushes()
        """Who sends the channels' messages to webhooks."""
        self.fenced: Callable[[int], None] = lambda partition: None
        """Called where the store says that another node owns a partition."""
        self.detach = self.attendance.detach
        self.join = self.attendance.join
        self.leave = self.attendance.leave
        self.occupy = self.attendance.occupy
        self._loads: set[asyncio.Task[None]] = set()
        self._next_look = 0.0
        self._announces = False

    def start(self, terms: Mapping[int, int], settle_seconds: float = 0.0) -> None:
        """Begin to own the partitions, each under its term. Where others owned them before, the
        followers have some seconds to tell who they are."""
        self.terms.update(terms)
        self.pushes.owned(list(terms))
        if settle_seconds:
            self.attendance.settle(list(terms), settle_seconds)

    async def release(self, partitions: Collection[int]) -> None:
        """Another node owns these partitions now: let their channels go at once, and wait until
        nothing is under way. What was not done ends with `StaleOwner`: it took no effect."""
        self.pushes.released(partitions)
        for partition in partitions:
            self.terms.pop(partition, None)
        for channel in [c for c in self._channels.values() if c.partition in partitions]:
            channel.released = True
            error = _moved(channel)
            channel.fail_waiting(error)
            self._wake(channel, error)
            self._remove(channel)
        await self._appender.landed_so_far()

    async def stop(self) -> None:
        """Let what was accepted become durable and be answered."""
        while self._loads:
            await asyncio.gather(*self._loads)
        await self._producers.settle()
        await self.durable.settle()
        await self._appender.settle()
        await self._retained.settle()

    def count(self, hub: str | None = None) -> int:
        return len(self._channels) if hub is None else self._channels_of.get(hub, 0)

    def names(self, hub: str) -> list[str]:
        return [name for of_hub, name in self._channels if of_hub == hub]

    # -- requests -------------------------------------------------------------------------------

    def publish(self, message: Message, reply: PublishReply | None) -> None:
        try:
            channel = self._channels.get((message.hub, message.channel)) or self._open(
                message.hub, message.channel
            )
            if channel.loaded:
                self._accept(channel, message, reply)
            else:
                self._load(channel)
                channel.wait(message, reply)
        except HubbubError as error:
            if reply is not None:
                reply(PublishOutcome(error=error))

    async def attach(self, node: str, hub: str, name: str) -> Attachment:
        channel = self._channel(hub, name)
        self.attendance.attach(node, channel)
        await self._loaded(channel)
        return Attachment(channel.epoch, channel.head, self._retained.current(channel))

    async def follow(self, node: str, following: Following) -> Attachment:
        channel = self._channel(following.hub, following.channel)
        self.attendance.renew(node, channel, following.members, following.count)
        await self._loaded(channel)
        return Attachment(channel.epoch, channel.head, self._retained.current(channel))

    async def members(self, hub: str, name: str) -> tuple[Member, ...]:
        channel = self._channels.get((hub, name))
        return channel.present() if channel is not None else ()

    async def occupancy(self, hub: str, name: str) -> int:
        channel = self._channels.get((hub, name))
        return channel.occupancy() if channel is not None else 0

    async def history(self, query: HistoryQuery) -> HistoryPage:
        channel = self._channel(query.hub, query.channel)
        await self._loaded(channel)
        if channel.rules.store:
            return await page_from_store(self._store, query, channel.epoch)
        return channel.page_from_live_history(query)

    async def topic(self, request: TopicRequest) -> TopicAnswer:
        """For a producer or a durable subscription. Raises `TopicNotFound` where the channel does
        not store."""
        if isinstance(request, WebhookRequest):
            return await self.pushes.serve(request)
        hub, name = channel_of(request)
        if isinstance(request, FindPut):
            return await self._producers.find(self._channels.get((hub, name)), request.message)
        channel = self._channel(hub, name)
        channel.busy += 1
        try:
            await self._loaded(channel)
            if not channel.rules.store:
                raise no_topic(hub, name)
            if isinstance(request, OpenProducer):
                return await self._producers.open(channel, request.principal, request.producer)
            return await self.durable.serve(channel, request)
        except HubbubError as error:
            if isinstance(error, StaleOwner) and not channel.released:
                self.fenced(channel.partition)
            raise (_moved(channel) if channel.released else error) from error
        finally:
            channel.busy -= 1
            channel.idle_since = self._clock.monotonic()

    # -- the path of a message ------------------------------------------------------------------

    def _accept(self, channel: Channel, message: Message, reply: PublishReply | None) -> None:
        """Decide how durable the message must be, and deliver it once it is."""
        if message.stamp is not None:
            self._producers.put(channel, message, reply or _ignore)
        elif channel.must_store(message):
            self._check_stored_quota(channel, message)
            self._appender.append(channel, message, reply)
        elif channel.queue or channel.flying:
            channel.wait(message, reply)  # behind the stored ones that came first
        else:
            self._accept_unstored(channel, message, reply)

    def _append_put(self, channel: Channel, message: Message, reply: PublishReply) -> None:
        self._check_stored_quota(channel, message)
        self._appender.append(channel, message, reply)

    def _accept_unstored(
        self, channel: Channel, message: Message, reply: PublishReply | None
    ) -> None:
        message.store = False
        channel.number(message)
        self._deliver(channel, message)
        if channel.must_retain(message):
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
            self.pushes.delivered(message)
        if channel.history is not None:
            channel.history.append(message)
        if channel.nodes:
            event = Published(message, channel.epoch)
            if self._announces:
                self._announcements.spoken[channel] = None
            self._emit(channel.nodes, channel.hub, channel.name, event)
        else:
            channel.idle_since = self._clock.monotonic()

    def _check_stored_quota(self, channel: Channel, message: Message) -> None:
        quota = self._configuration_of(channel.hub).settings.quotas.stored_bytes
        used = self._appender.stored_bytes.get(channel.hub, 0)
        if quota and used + len(message.payload) > quota:
            raise QuotaExceeded(
                f"hub {channel.hub!r} has used up its quota of {quota} stored bytes; "
                "shorten its retention or raise the quota"
            )

    def _must_count_stored(self, channel: Channel) -> bool:
        """Whether there is a quota and nobody knows yet how much of it is used."""
        quota = self._configuration_of(channel.hub).settings.quotas.stored_bytes
        counted = channel.hub in self._appender.stored_bytes
        return bool(quota) and channel.rules.store and not counted

    # -- the life of a channel ------------------------------------------------------------------

    def _channel(self, hub: str, name: str) -> Channel:
        channel = self._channels.get((hub, name)) or self._open(hub, name)
        if not channel.loaded:
            self._load(channel)
        return channel

    def _open(self, hub: str, name: str) -> Channel:
        configuration = self._configuration_of(hub)
        quota = configuration.settings.quotas.channels
        if quota and self.count(hub) >= quota:
            raise QuotaExceeded(
                f"hub {hub!r} already has {quota} channels in use, its quota; "
                f"{name!r} was not opened"
            )
        channel = Channel(hub, name, partition_of(hub, name), configuration.rules_for(name))
        channel.idle_since = self._clock.monotonic()
        self._channels[hub, name] = channel
        self._channels_of[hub] = self.count(hub) + 1
        if not (channel.rules.store or channel.rules.retain):
            self._begin_live(channel)
            channel.loaded = True
        return channel

    def _begin_live(self, channel: Channel) -> None:
        """A live-only channel counts from one, under an epoch that nobody has seen before."""
        channel.epoch = secrets.token_hex(4)
        channel.head = 0
        channel.live = True
        channel.history = None
        self._fit_history(channel)

    def _fit_history(self, channel: Channel) -> None:
        """Have a live history where the rules want one and the store does not serve already."""
        wanted = channel.rules.live_history and not channel.rules.store
        if not wanted or not self._limits.live_history_messages:
            channel.history = None
        elif channel.history is None:
            channel.history = LiveHistory(
                self._limits.live_history_messages,
                self._limits.live_history_bytes,
                channel.head,
                int(self._clock.now() * 1000),
            )

    def _load(self, channel: Channel) -> None:
        """Read where the channel stands; those who need it wait until then."""
        if not channel.loading:
            channel.loading = True
            task = asyncio.get_running_loop().create_task(self._load_now(channel))
            self._loads.add(task)
            task.add_done_callback(self._loads.discard)

    async def _load_now(self, channel: Channel) -> None:
        try:
            rules = None
            # They may change while the store is asked.
            while rules != channel.rules and not channel.released:
                rules = channel.rules
                await self._read_state(channel)
        except HubbubError as error:
            channel.loading = False
            channel.fail_waiting(error)
            self._wake(channel, error)
            return
        channel.loading = False
        if channel.released:
            return
        channel.loaded = True
        self._wake(channel, None)
        self._announcements.heads((channel,))
        waiting, channel.queue = channel.queue, None
        for message, reply in waiting or ():
            self.publish(message, reply)

    async def _read_state(self, channel: Channel) -> None:
        if channel.rules.store:
            channel.history = None
            head = await self._store.read_head(channel.hub, channel.name)
            channel.epoch = head.epoch if head else secrets.token_hex(4)
            channel.head = head.head if head else 0
            channel.first = head.first if head else 1
            channel.live = False
            if self._must_count_stored(channel):
                stored = await self._store.stored_bytes(channel.hub)
                self._appender.stored_bytes.setdefault(channel.hub, stored)
        elif channel.live:
            self._fit_history(channel)  # it goes on as it was
        else:
            self._begin_live(channel)
        if channel.rules.retain:
            await self._retained.load(channel)

    async def _loaded(self, channel: Channel) -> None:
        if channel.loaded:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if channel.waiters is None:
            channel.waiters = []
        channel.waiters.append(waiter)
        await waiter

    @staticmethod
    def _wake(channel: Channel, error: HubbubError | None) -> None:
        waiters, channel.waiters = channel.waiters, None
        for waiter in waiters or ():
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    def _landed(self, channel: Channel, intact: bool) -> None:
        """An append has ended. After a failed one, or under new rules, begin again from disk."""
        if channel.released:
            channel.fail_waiting(_moved(channel))
        elif channel.stale:
            channel.stale = False
            self._apply_rules(channel)
        elif not intact:
            self._reload(channel)

    def _reload(self, channel: Channel) -> None:
        """Forget what follows from the disk, and read it again."""
        channel.loaded = False
        channel.producers = None
        self._load(channel)

    def close_idle(self, idle_seconds: float) -> int:
        """Let go of channels that nobody has used for so long. Answers how many went. Called often;
        looks at all channels only now and then."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return 0
        self._next_look = now + idle_seconds / 10
        limit = now - idle_seconds
        idle = [c for c in self._channels.values() if c.idle_since <= limit and c.idle]
        for channel in idle:
            self._remove(channel)
        return len(idle)

    def _remove(self, channel: Channel) -> None:
        del self._channels[channel.hub, channel.name]
        self.durable.forget(channel)
        self._channels_of[channel.hub] -= 1
        if not self._channels_of[channel.hub]:
            del self._channels_of[channel.hub]

    def lag_in_memory(self, key: SubscriptionKey) -> int | None:
        """What a durable subscription has not acknowledged; None: only the disk knows."""
        channel = self._channels.get((key.hub, key.channel))
        if channel is None or not channel.loaded or channel.cursors is None:
            return None
        place = channel.cursors.places.get((key.owner, key.name))
        return place.cursor.lag(channel.head) if place is not None else None

    def reclaimed(self, hub: str, name: str, deleted: Deleted) -> None:
        """Retention has deleted messages of a channel, which may be open or not."""
        self._appender.give_back(hub, deleted.stored_bytes)
        counters = self.counters[hub]
        counters.reclaimed += deleted.messages
        counters.reclaimed_bytes += deleted.stored_bytes
        channel = self._channels.get((hub, name))
        if channel is not None:
            channel.first = deleted.first
            self.durable.lost_before(channel, deleted.first)

    # -- settings -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Apply changed rules to the hub's channels at once, or as soon as no append is under
        way."""
        self.pushes.hub_changed(hub)
        for channel in [c for c in self._channels.values() if c.hub == hub]:
            if channel.flying:
                channel.stale = True
            else:
                self._apply_rules(channel)

    def _apply_rules(self, channel: Channel) -> None:
        before = channel.rules
        try:
            rules = self._configuration_of(channel.hub).rules_for(channel.name)
        except HubNotFound as error:
            self._abandon(channel, error)
            return
        channel.rules = rules
        if not rules.presence:
            channel.members = channel.joined = channel.left = None
        if not rules.occupancy:
            channel.counts = None
        begins_to_retain = rules.retain and not before.retain
        if rules.store != before.store or begins_to_retain or self._must_count_stored(channel):
            self._reload(channel)
        elif not channel.loading:
            self._fit_history(channel)

    def _abandon(self, channel: Channel, error: HubNotFound) -> None:
        """The channel's hub was deleted."""
        channel.fail_waiting(error)
        self._wake(channel, error)
        self._remove(channel)
        self._appender.stored_bytes.pop(channel.hub, None)
        self.counters.pop(channel.hub, None)

    def announce_news(self) -> None:
        """Called every second where followers may miss what they are sent."""
        self._announces = True
        self._announcements.news()

    def announce_heads(self) -> None:
        self._announcements.heads(list(self._channels.values()))


def _moved(channel: Channel) -> StaleOwner:
    return StaleOwner(f"channel {channel.name!r} of hub {channel.hub!r} has moved to another node")


def _ignore(_: PublishOutcome) -> None:
    """Nobody waits for it."""
