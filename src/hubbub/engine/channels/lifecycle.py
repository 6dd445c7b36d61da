"""The life of channels at their owner: opened by the first who uses them, read from disk where they
have something there, changed with their rules, and closed when nobody uses them any more."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection

from hubbub.domain.errors import HubbubError, HubNotFound, QuotaExceeded, StaleOwner
from hubbub.domain.history import LiveHistory
from hubbub.domain.names import partition_of
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.retained import RetainedMessages
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.directory import ConfigurationOf
from hubbub.engine.limits import EngineLimits
from hubbub.ports.clock import Clock
from hubbub.ports.store import Store


class Channels:
    """Those of one owner. `loaded` is called when it is known where a channel stands, `closed` when
    it is let go."""

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        configuration_of: ConfigurationOf,
        limits: EngineLimits,
        retained: RetainedMessages,
        stored_bytes: StoredBytes,
        loaded: Callable[[Channel], None],
        closed: Callable[[Channel], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._configuration_of = configuration_of
        self._limits = limits
        self._retained = retained
        self._stored_bytes = stored_bytes
        self._loaded = loaded
        self._closed = closed
        self.open: dict[tuple[str, str], Channel] = {}
        """By hub and name."""
        self._counts: dict[str, int] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._next_look = 0.0

    def count(self, hub: str | None = None) -> int:
        return len(self.open) if hub is None else self._counts.get(hub, 0)

    def use(self, hub: str, name: str) -> Channel:
        """The channel, which may still have to be read from disk (`ready`)."""
        channel = self.open.get((hub, name)) or self._open(hub, name)
        if not channel.loaded:
            self.load(channel)
        return channel

    async def ready(self, channel: Channel) -> None:
        """Wait until it is known where the channel stands. Raises `StaleOwner` where it was let go
        since it was found: nobody would read it any more."""
        if channel.released:
            raise moved(channel)
        if channel.loaded:
            return
        self.load(channel)  # it may have failed before anyone waited
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if channel.waiters is None:
            channel.waiters = []
        channel.waiters.append(waiter)
        await waiter

    async def settle(self) -> None:
        """Wait until nothing is being read."""
        while self._loads:
            await asyncio.gather(*self._loads)

    # -- beginning ------------------------------------------------------------------------------

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
        self.open[hub, name] = channel
        self._counts[hub] = self.count(hub) + 1
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

    # -- reading from disk ----------------------------------------------------------------------

    def load(self, channel: Channel) -> None:
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
            _wake(channel, error)
            return
        channel.loading = False
        if channel.released:
            return
        channel.loaded = True
        _wake(channel, None)
        self._loaded(channel)

    async def _read_state(self, channel: Channel) -> None:
        if channel.rules.store:
            channel.history = None
            head = await self._store.read_head(channel.hub, channel.name)
            channel.epoch = head.epoch if head else secrets.token_hex(4)
            channel.head = head.head if head else 0
            channel.first = head.first if head else 1
            channel.live = False
            if self._stored_bytes.must_count(channel):
                await self._stored_bytes.count(channel.hub)
        elif channel.live:
            self._fit_history(channel)  # it goes on as it was
        else:
            self._begin_live(channel)
        if channel.rules.retain:
            await self._retained.load(channel)

    def reload(self, channel: Channel) -> None:
        """Forget what follows from the disk, and read it again."""
        channel.loaded = False
        channel.producers = None
        self.load(channel)

    # -- changing -------------------------------------------------------------------------------

    def hub_changed(self, hub: str) -> None:
        """Apply changed rules at once, or as soon as no append is under way."""
        for channel in [c for c in self.open.values() if c.hub == hub]:
            if channel.flying:
                channel.stale = True
            else:
                self.apply_rules(channel)

    def apply_rules(self, channel: Channel) -> None:
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
        must_count = self._stored_bytes.must_count(channel)
        if rules.store != before.store or begins_to_retain or must_count:
            self.reload(channel)
        elif not channel.loading:
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
            self._remove(channel)
        return len(idle)

    def release(self, partitions: Collection[int]) -> None:
        """Another node owns these partitions now: let their channels go at once."""
        for channel in [c for c in self.open.values() if c.partition in partitions]:
            channel.released = True
            if channel.queue or channel.waiters:
                error = moved(channel)
                channel.fail_waiting(error)
                _wake(channel, error)
            self._remove(channel)

    def _abandon(self, channel: Channel, error: HubNotFound) -> None:
        """The channel's hub was deleted."""
        channel.fail_waiting(error)
        _wake(channel, error)
        self._remove(channel)

    def _remove(self, channel: Channel) -> None:
        del self.open[channel.hub, channel.name]
        self._closed(channel)
        self._counts[channel.hub] -= 1
        if not self._counts[channel.hub]:
            del self._counts[channel.hub]


def moved(channel: Channel) -> StaleOwner:
    return StaleOwner(f"channel {channel.name!r} of hub {channel.hub!r} has moved to another node")


def _wake(channel: Channel, error: HubbubError | None) -> None:
    waiters, channel.waiters = channel.waiters, None
    for waiter in waiters or ():
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)
