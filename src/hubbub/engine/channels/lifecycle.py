"""The life cycle of channels at their owner: opened at their first use, loaded from disk, changed
with their rules, and closed when unused."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from itertools import islice

from hubbub.domain.errors import HUB_AWAY, HubbubError, Internal, QuotaExceeded, StaleOwner
from hubbub.domain.history import HeldBytes, LiveHistory
from hubbub.domain.names import dead_letters_of, partition_of
from hubbub.domain.rules import Rules
from hubbub.engine.channels.channel import Channel, State
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.channels.watching import Watching
from hubbub.engine.rooms import implementing
from hubbub.ports import randomness
from hubbub.ports.bus import Attachment
from hubbub.tasks import TaskSet

logger = logging.getLogger(__name__)


class Channels:
    """The open channels of one owner: opens, reads and closes them."""

    def __init__(
        self,
        parts: OwnerParts,
        retained: RetainedMessages,
        watching: Watching,
        rooms: Sequence[OwnerRoom],
    ) -> None:
        self._store = parts.store
        self._clock = parts.clock
        self._configuration_of = parts.configuration_of
        self._limits = parts.limits
        self._quota = parts.quota
        self._stored_bytes = parts.stored_bytes
        self._terms = parts.terms
        self.open = parts.channels
        """By hub and name."""
        self._announcements = parts.announcements
        self._retained = retained
        self._watching = watching
        self._keepers = [room for room in rooms if type(room).keeps is not OwnerRoom.keeps]
        self._room_closes = implementing(rooms, OwnerRoom.closed)
        self.counts: dict[str, int] = {}
        """Open channels by hub."""
        self._held: dict[str, HeldBytes] = {}
        """The memory of live histories, by hub."""
        self._loads = TaskSet()
        self._next_look = 0.0
        self._sizes: dict[Channel, int] = {}
        """Channels whose states take much memory, and how much; the last used are last."""
        self.state_bytes = 0

    def count(self, hub: str | None = None) -> int:
        return len(self.open) if hub is None else self.counts.get(hub, 0)

    def use(self, hub: str, name: str) -> Channel:
        """The channel, which may still have to be loaded (`ready`)."""
        channel = self.open.get((hub, name)) or self._open(hub, name)
        self.load(channel)
        return channel

    async def ready(self, channel: Channel) -> None:
        """Waits until epoch and head are known. Raises `StaleOwner` or `HubNotFound` if the channel
        was closed meanwhile, and errors of the store."""
        if channel.closed_by is not None:
            raise channel.closed_by
        if channel.state < State.READY:
            self.load(channel)  # a read may have failed before anyone waited
            await channel.read()

    async def settle(self) -> None:
        """Waits until no load is in progress."""
        await self._loads.settle()

    async def settle_so_far(self) -> None:
        await self._loads.settle_so_far()

    # -- beginning ------------------------------------------------------------------------------

    def _open(self, hub: str, name: str) -> Channel:
        configuration = self._configuration_of(hub)
        quota = configuration.settings.quotas.channels
        if quota and self.count(hub) >= self._quota(hub, quota):
            raise QuotaExceeded(
                f"hub {hub!r} already has {quota} channels in use, its quota; "
                f"{name!r} was not opened"
            )
        channel = Channel(hub, name, partition_of(hub, name), configuration.rules_for(name))
        channel.idle_since = self._clock.monotonic()
        self.open[hub, name] = channel
        self.counts[hub] = self.count(hub) + 1
        for room in self._keepers_of(name):
            channel.kept = True
            room.opened(channel)
        if not (channel.rules.store or channel.rules.retain or channel.kept):
            self._begin_in_memory(channel)
            channel.end_loading()
        self._watching.opened(channel)
        if channel.watchers and channel.state is State.READY:
            self._watching.tell(channel, self.attachment(channel))
        return channel

    def _keepers_of(self, name: str) -> list[OwnerRoom]:
        return [room for room in self._keepers if room.keeps(name)]

    def attachment(self, channel: Channel) -> Attachment:
        """The position and state that a node receives when it begins to follow the channel. The
        channel must have been read."""
        attachment = Attachment(
            channel.epoch, channel.head, self._retained.current(channel), opened=channel.opened
        )
        for state in channel.states:
            attachment = state.attach(attachment)
        return attachment

    def _begin_in_memory(self, channel: Channel) -> None:
        channel.begin_in_memory(randomness.token_hex(4))
        self._fit_history(channel)

    def _fit_history(self, channel: Channel) -> None:
        """Creates a live history if the rules ask for one and the store does not serve it."""
        if not channel.rules.keeps_live_history or not self._limits.live_history_messages:
            channel.end_history()
        elif channel.history is None:
            channel.history = LiveHistory(
                self._limits.live_history_messages,
                self._limits.live_history_bytes,
                channel.head,
                int(self._clock.now() * 1000),
                self._held.setdefault(channel.hub, HeldBytes()),
            )

    # -- reading from disk ----------------------------------------------------------------------

    def load(self, channel: Channel) -> None:
        """Loads an unread channel; concurrent callers wait for it."""
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
        except Exception:
            logger.exception("channel %r of hub %r cannot be read", channel.name, channel.hub)
            channel.fail_loading(
                Internal(
                    f"channel {channel.name!r} cannot be read: what is stored of it is damaged, or "
                    "the hub made a mistake; its log says which"
                )
            )
            return
        if channel.state is State.LOADING:
            channel.end_loading()
            channel.tell_stored()
            if channel.watchers:
                self._watching.tell(channel, self.attachment(channel))
            self._announcements.heads((channel,))
            channel.go_on()

    async def _read_state(self, channel: Channel) -> None:
        keepers = self._keepers_of(channel.name) if channel.kept else []
        if not any(room.replaces_messages for room in keepers):
            await self._read_head(channel)
        if channel.rules.retain:
            await self._retained.load(channel)
        for room in keepers:
            await room.load(channel)
        self._weigh(channel)
        if self._stored_bytes.must_count(channel):
            await self._stored_bytes.count(channel.hub)

    async def _read_head(self, channel: Channel) -> None:
        if channel.rules.store:
            head = await self._store.read_head(channel.hub, channel.name)
            if head is None:
                channel.stand_on_disk(randomness.token_hex(4), head=0, first=1)
            else:
                channel.stand_on_disk(head.epoch, head.head, head.first)
        elif channel.in_memory:
            self._fit_history(channel)  # it goes on as it was
        else:
            self._begin_in_memory(channel)

    def _reload(self, channel: Channel) -> None:
        channel.forget()
        self.load(channel)

    # -- changing -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Applies changed rules now, or when the append in progress has ended."""
        for channel in [c for c in self.open.values() if c.hub == hub]:
            if not channel.postpone_rules():
                self._apply_rules(channel)

    def channel_changed(self, hub: str, name: str) -> None:
        """Like `hub_changed`, for one channel and its dead letters."""
        while (channel := self.open.get((hub, name))) is not None:
            if not channel.postpone_rules():
                self._apply_rules(channel)
            name = dead_letters_of(name)

    def append_ended(self, channel: Channel, intact: bool) -> None:
        """An append of the channel has ended. If it is not `intact`, epoch and head must be read
        from the store again."""
        outdated = channel.end_append()
        channel.idle_since = self._clock.monotonic()
        if intact and channel.state is State.READY:
            channel.tell_stored()
        if channel.states:
            self._weigh(channel)
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
        if channel.history is not None and _opens_more(before, rules):
            channel.history.clear()
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
        """Closes channels that were not used for a while; returns their number. Called often, but
        scans all channels only from time to time."""
        now = self._clock.monotonic()
        if now < self._next_look:
            return 0
        self._next_look = now + idle_seconds / 10
        limit = now - idle_seconds
        idle = [c for c in self.open.values() if c.idle_since <= limit and c.idle]
        for channel in idle:
            self._close(channel, StaleOwner(f"channel {channel.name!r} is not in use here"))
        return len(idle)

    def bound_histories(self) -> None:
        """Called every second. Where live histories take too much memory together, those of the
        hubs with most of it lose their messages, of channels that were opened first before others,
        until a quarter is free."""
        most = self._limits.live_history_memory_bytes
        if not most or sum(held.bytes for held in self._held.values()) <= most:
            return
        level = _fair_level([held.bytes for held in self._held.values()], most * 3 // 4)
        for channel in self.open.values():
            if channel.history is not None and self._held[channel.hub].bytes > level:
                channel.history.clear()

    def _weigh(self, used: Channel) -> None:
        """The rooms' state of the channel was read or changed: unloads unused channels if the
        states of all together are too large."""
        size = sum(state.size for state in used.states)
        if not size or self.open.get((used.hub, used.name)) is not used:
            return
        self.state_bytes += size - self._sizes.pop(used, 0)
        self._sizes[used] = size
        if self.state_bytes > self._limits.document_memory_bytes:
            for channel in list(islice(self._sizes, 64)):
                if channel.idle and channel is not used:
                    self._close(channel, StaleOwner(f"{channel.name!r} is not in use here"))

    def release(self, partitions: Collection[int]) -> None:
        """Closes the channels of partitions that another node now owns."""
        for channel in [c for c in self.open.values() if c.partition in partitions]:
            self._close(
                channel,
                StaleOwner(
                    f"channel {channel.name!r} of hub {channel.hub!r} has moved to another node"
                ),
            )

    def _close(self, channel: Channel, error: HubbubError) -> None:
        del self.open[channel.hub, channel.name]
        self.state_bytes -= self._sizes.pop(channel, 0)
        self.counts[channel.hub] -= 1
        channel.end_history()
        if not self.counts[channel.hub]:
            del self.counts[channel.hub]
            self._held.pop(channel.hub, None)
        channel.close(error)
        for closed in self._room_closes:
            closed(channel)
        if channel.partition in self._terms:
            self._watching.closed(channel)


def _opens_more(before: Rules, after: Rules) -> bool:
    """Whether what was kept for clients that come back could now reach others."""
    return before.only_for_returning and (
        (after.public and not before.public)
        or (after.allow_anonymous and not before.allow_anonymous)
        or not after.only_for_returning
    )


def _fair_level(sizes: list[int], room: int) -> int:
    """How much each may have at most, so that all fit."""
    sharing = len(sizes)
    for size in sorted(sizes):
        if size * sharing > room:
            break
        room -= size
        sharing -= 1
    return room // max(1, sharing)
