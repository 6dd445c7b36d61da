"""The life of channels at their owner: opened by the first who uses them, read from disk where they
have something there, changed with their rules, and closed when nobody uses them any more."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection
from itertools import islice

from hubbub.domain.errors import HUB_AWAY, HubbubError, QuotaExceeded, StaleOwner
from hubbub.domain.history import LiveHistory
from hubbub.domain.names import DEAD_LETTER_SUFFIX, ChannelKind, is_document, kind_of, partition_of
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.limits import EngineLimits
from hubbub.engine.notifications.held import HeldNotifications
from hubbub.ports.clock import Clock
from hubbub.ports.storage import Store
from hubbub.tasks import TaskSet


class Channels:
    """Those of one owner. `opened` is called when a channel comes into memory, `loaded` when it was
    read and it is known where it stands, `closed` when it is let go."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        configuration_of: ConfigurationOf,
        limits: EngineLimits,
        retained: RetainedMessages,
        stored_bytes: StoredBytes,
        load_document: Callable[[Channel], Awaitable[None]],
        opened: Callable[[Channel], None],
        loaded: Callable[[Channel], None],
        closed: Callable[[Channel], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._configuration_of = configuration_of
        self._limits = limits
        self._retained = retained
        self._stored_bytes = stored_bytes
        self._load_document = load_document
        self._opened = opened
        self._loaded = loaded
        self._closed = closed
        self.open: dict[tuple[str, str], Channel] = {}
        """By hub and name."""
        self.limit_of: Callable[[str, int], int] = lambda hub, quota: quota
        """How many channels of a hub with this quota may be open here."""
        self.counts: dict[str, int] = {}
        """By hub."""
        self._loads = TaskSet()
        self._next_look = 0.0
        self._documents: dict[Channel, int] = {}
        """Channels with a document in memory and its bytes; the last used are last."""
        self.document_bytes = 0

    def count(self, hub: str | None = None) -> int:
        return len(self.open) if hub is None else self.counts.get(hub, 0)

    def use(self, hub: str, name: str) -> Channel:
        """The channel, which may still have to be read from disk (`ready`)."""
        channel = self.open.get((hub, name)) or self._open(hub, name)
        self.load(channel)
        return channel

    async def ready(self, channel: Channel) -> None:
        """Wait until epoch and head of the channel are known. Raises `StaleOwner` or `HubNotFound`
        where the channel was closed since it was found, and what kept the store from reading."""
        if channel.closed_by is not None:
            raise channel.closed_by
        if channel.state < State.READY:
            self.load(channel)  # a read may have failed before anyone waited
            await channel.read()

    async def settle(self) -> None:
        """Wait until nothing is being read."""
        await self._loads.settle()

    async def settle_so_far(self) -> None:
        await self._loads.settle_so_far()

    # -- beginning ------------------------------------------------------------------------------

    def _open(self, hub: str, name: str) -> Channel:
        configuration = self._configuration_of(hub)
        quota = configuration.settings.quotas.channels
        if quota and self.count(hub) >= self.limit_of(hub, quota):
            raise QuotaExceeded(
                f"hub {hub!r} already has {quota} channels in use, its quota; "
                f"{name!r} was not opened"
            )
        channel = Channel(hub, name, partition_of(hub, name), configuration.rules_for(name))
        channel.idle_since = self._clock.monotonic()
        self.open[hub, name] = channel
        self.counts[hub] = self.count(hub) + 1
        if kind_of(name) is ChannelKind.NOTIFICATION:
            channel.notifications = HeldNotifications(secrets.token_hex(4))
        elif not (channel.rules.store or channel.rules.retain or is_document(name)):
            self._begin_in_memory(channel)
            channel.end_loading()
        self._opened(channel)
        return channel

    def _begin_in_memory(self, channel: Channel) -> None:
        channel.begin_in_memory(secrets.token_hex(4))
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

    # -- reading from disk ----------------------------------------------------------------------

    def load(self, channel: Channel) -> None:
        """Read a channel of which nothing is known; those who need it wait until then."""
        if channel.begin_loading():
            self._loads.start(self._load_now(channel))

    async def _load_now(self, channel: Channel) -> None:
        try:
            rules = None
            # They may change while the store is asked.
            while rules != channel.rules and channel.state is State.LOADING:
                rules = channel.rules
                await self._read_state(channel)
        except HubbubError as error:
            channel.fail_loading(error)
            return
        if channel.state is State.LOADING:
            channel.end_loading()
            channel.tell_stored()
            self._loaded(channel)

    async def _read_state(self, channel: Channel) -> None:
        if channel.notifications is not None:
            stored = await self._store.read_notification_state(channel.hub, channel.name)
            channel.notifications.load(stored)
            channel.stand_on_disk(channel.notifications.state.epoch, head=0, first=1)
        elif channel.rules.store:
            head = await self._store.read_head(channel.hub, channel.name)
            if head is None:
                channel.stand_on_disk(secrets.token_hex(4), head=0, first=1)
            else:
                channel.stand_on_disk(head.epoch, head.head, head.first)
        elif channel.in_memory:
            self._fit_history(channel)  # it goes on as it was
        else:
            self._begin_in_memory(channel)
        if self._stored_bytes.must_count(channel):
            await self._stored_bytes.count(channel.hub)
        if channel.rules.retain:
            await self._retained.load(channel)
        if is_document(channel.name):
            await self._load_document(channel)
            self._count_document(channel)
        if self._stored_bytes.must_count(channel):
            await self._stored_bytes.count(channel.hub)

    def _reload(self, channel: Channel) -> None:
        channel.forget()
        self.load(channel)

    # -- changing -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Apply changed rules at once, or as soon as no append is under way."""
        for channel in [c for c in self.open.values() if c.hub == hub]:
            if not channel.postpone_rules():
                self._apply_rules(channel)

    def channel_changed(self, hub: str, name: str) -> None:
        """The same for one channel and its dead letters."""
        while (channel := self.open.get((hub, name))) is not None:
            if not channel.postpone_rules():
                self._apply_rules(channel)
            name += DEAD_LETTER_SUFFIX

    def append_ended(self, channel: Channel, intact: bool) -> None:
        """Not intact: epoch and head have to be read from the store again."""
        outdated = channel.end_append()
        channel.idle_since = self._clock.monotonic()
        if intact and channel.state is State.READY:
            channel.tell_stored()
        self._count_document(channel)
        if channel.closed_by is not None:
            channel.close(channel.closed_by)  # publishes that came while the append was under way
        elif outdated:
            self._apply_rules(channel)
        elif not intact:
            self._reload(channel)

    def _apply_rules(self, channel: Channel) -> None:
        before = channel.rules
        try:
            rules = self._configuration_of(channel.hub).rules_for(channel.name)
        except HUB_AWAY as error:
            self._close(channel, error)
            return
        channel.rules = rules
        if not rules.presence:
            channel.members = channel.joined = channel.left = None
        if not rules.occupancy:
            channel.counts = None
        begins_to_retain = rules.retain and not before.retain
        must_count = self._stored_bytes.must_count(channel)
        if rules.store != before.store or begins_to_retain or must_count:
            self._reload(channel)
        elif channel.state >= State.READY:
            self._fit_history(channel)

    # -- ending ---------------------------------------------------------------------------------

    def close_idle(self, idle_seconds: float) -> int:
        """Let go of channels that nobody has used for so long. Answers how many went. Called often;
        looks at all channels only now and then."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return 0
        self._next_look = now + idle_seconds / 10
        limit = now - idle_seconds
        idle = [c for c in self.open.values() if c.idle_since <= limit and c.idle]
        for channel in idle:
            self._close(channel, StaleOwner(f"channel {channel.name!r} is not in use here"))
        return len(idle)

    def _count_document(self, used: Channel) -> None:
        """The channel's document was read or changed: let go of others that are not in use, where
        all together are too large."""
        if used.document is None or self.open.get((used.hub, used.name)) is not used:
            return
        size = used.document.document.size
        self.document_bytes += size - self._documents.pop(used, 0)
        self._documents[used] = size
        if self.document_bytes > self._limits.document_memory_bytes:
            for channel in list(islice(self._documents, 64)):
                if channel.idle and channel is not used:
                    self._close(channel, StaleOwner(f"{channel.name!r} is not in use here"))

    def release(self, partitions: Collection[int]) -> None:
        """Another node owns these partitions now: let their channels go at once."""
        for channel in [c for c in self.open.values() if c.partition in partitions]:
            self._close(
                channel,
                StaleOwner(
                    f"channel {channel.name!r} of hub {channel.hub!r} has moved to another node"
                ),
            )

    def _close(self, channel: Channel, error: HubbubError) -> None:
        del self.open[channel.hub, channel.name]
        self.document_bytes -= self._documents.pop(channel, 0)
        self.counts[channel.hub] -= 1
        if not self.counts[channel.hub]:
            del self.counts[channel.hub]
        channel.close(error)
        self._closed(channel)
