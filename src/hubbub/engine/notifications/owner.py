"""What the owner of a notification channel does: changes are on disk first, then told to all who
follow the channel, then answered."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.names import partition_of
from hubbub.domain.notifications import (
    Created,
    CreateNotifications,
    DeleteNotifications,
    DescribeNotifications,
    ForgetNotifications,
    Marked,
    MarkNotifications,
    NotificationAnswer,
    NotificationItem,
    NotificationRequest,
    NotificationResult,
    PageNotifications,
    StoredNotifications,
    taken_id,
)
from hubbub.engine.channels.announcements import Emit
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.stored_bytes import StoredBytes
from hubbub.engine.limits import EngineLimits
from hubbub.engine.notifications.held import HeldNotifications
from hubbub.engine.notifications.journal import NotificationEvents
from hubbub.ports.bus import NotificationsChanged, ReadMark
from hubbub.ports.clock import Clock
from hubbub.ports.storage.notifications import (
    ChangedNotifications,
    ChannelKey,
    NotificationBounds,
    NotificationStore,
    StoredCreation,
)

_DUE_CHANNELS = 500


class NotificationOwner:
    """For all channels of one owner. `terms` are those of its partitions."""

    def __init__(
        self,
        store: NotificationStore,
        clock: Clock,
        terms: Mapping[int, int],
        limits: EngineLimits,
        stored_bytes: StoredBytes,
        emit: Emit,
        events: NotificationEvents,
    ) -> None:
        self._store = store
        self._clock = clock
        self._terms = terms
        self._bounds = NotificationBounds(
            limits.notifications, int(limits.notification_seconds * 1000)
        )
        self._stored_bytes = stored_bytes
        self._emit = emit
        self._events = events

    async def serve(self, channel: Channel, request: NotificationRequest) -> NotificationAnswer:
        """The channel is read and stays open meanwhile. Raises `StaleOwner`, `QuotaExceeded` and
        `StoreUnavailable`; then nothing has changed."""
        held = _held(channel)
        if held.are_due(self._now()):
            async with held.lock:
                await self._expire(channel, held)
        if isinstance(request, DescribeNotifications):
            return held.state
        if isinstance(request, PageNotifications):
            found = await self._store.read_notifications(request)
            return found or StoredNotifications((), False, held.state)
        async with held.lock:
            return await self._change(channel, held, request)

    async def _change(
        self, channel: Channel, held: HeldNotifications, request: NotificationRequest
    ) -> NotificationAnswer:
        if isinstance(request, CreateNotifications):
            return await self._create(channel, held, request.items)
        if isinstance(request, MarkNotifications):
            return await self._mark(channel, held, request)
        if isinstance(request, DeleteNotifications):
            key, epoch = self._key(channel), held.state.epoch
            gone = await self._store.delete_notifications(key, epoch, request.which)
            self._gone(channel, held, gone)
            return _marked(gone)
        assert isinstance(request, ForgetNotifications)
        return await self._forget(channel, held)

    # -- creating -------------------------------------------------------------------------------

    async def _create(
        self, channel: Channel, held: HeldNotifications, items: Sequence[NotificationItem]
    ) -> Created:
        size = sum(len(item.payload) for item in items)
        self._stored_bytes.check(channel, size)
        self._stored_bytes.add(channel.hub, size)
        stayed = 0
        try:
            key, epoch, now = self._key(channel), held.state.epoch, self._now()
            created = await self._store.create_notifications(key, epoch, items, now, self._bounds)
            outcomes = list(zip(items, created.creations, strict=True))
            new = [item.at(told.timestamp) for item, told in outcomes if told.outcome == "created"]
            stayed = sum(len(each.payload) for each in new) - created.freed
        finally:
            self._stored_bytes.add(channel.hub, stayed - size)
        if new:
            held.change(created.state, created.due_at)
            self._tell(channel, NotificationsChanged(created.state, tuple(new)))
            self._events.created(channel, new)
        return Created(tuple(_result(*each) for each in outcomes), created.state)

    # -- marking and deleting -------------------------------------------------------------------

    async def _mark(
        self, channel: Channel, held: HeldNotifications, request: MarkNotifications
    ) -> Marked:
        key, now, which = self._key(channel), self._now(), request.which
        if which.all:
            which = msgspec.structs.replace(which, all=False, up_to=held.state.newest)
        read_at = now if request.read else None
        marked = await self._store.mark_notifications(
            key, held.state.epoch, which, read_at, request.by
        )
        if marked.changed:
            held.change(marked.state, marked.due_at)
            mark = None
            if request.read:
                ids = tuple(each for each, _ in marked.changed) if which.ids else ()
                mark = ReadMark(now, ids, which.up_to, request.by)
                self._events.read(channel, marked.changed, now, request.by)
            self._tell(channel, NotificationsChanged(marked.state, read=mark))
        return _marked(marked)

    def _gone(self, channel: Channel, held: HeldNotifications, gone: ChangedNotifications) -> None:
        if gone.changed:
            self._stored_bytes.add(channel.hub, -gone.freed)
            held.change(gone.state, gone.due_at)
            self._tell(channel, NotificationsChanged(gone.state))
        else:
            held.due_at = gone.due_at

    async def _forget(self, channel: Channel, held: HeldNotifications) -> int:
        there = held.state.total
        freed = await self._store.forget_notifications(self._key(channel))
        self._stored_bytes.add(channel.hub, -freed)
        held.begin(new_epoch())
        self._tell(channel, NotificationsChanged(held.state))
        return there

    # -- expiry ---------------------------------------------------------------------------------

    async def _expire(self, channel: Channel, held: HeldNotifications) -> None:
        if held.are_due(self._now()):  # nobody else has looked meanwhile
            key, epoch = self._key(channel), held.state.epoch
            self._gone(
                channel, held, await self._store.expire_notifications(key, epoch, self._now())
            )

    async def expire(self, use: Callable[[str, str], Channel | None]) -> None:
        """Delete what has expired, also of channels that nobody has open. `use` answers a channel
        that is open. Raises `StoreUnavailable`."""
        after = "", ""
        while True:
            due = await self._store.read_due_notifications(self._now(), after, _DUE_CHANNELS)
            for hub, name in due:
                if self._terms.get(partition_of(hub, name)) is not None:
                    await self._expire_one(hub, name, use(hub, name))
            if len(due) < _DUE_CHANNELS:
                return
            after = due[-1]

    async def _expire_one(self, hub: str, name: str, channel: Channel | None) -> None:
        if channel is not None and channel.notifications is not None:
            held = channel.notifications
            async with held.lock:
                held.due_at = held.due_at or 0
                await self._expire(channel, held)
            return
        partition = partition_of(hub, name)
        key = ChannelKey(hub, name, partition, self._terms.get(partition, 0))
        gone = await self._store.expire_notifications(key, "", self._now())
        self._stored_bytes.add(hub, -gone.freed)

    # -- telling --------------------------------------------------------------------------------

    def _tell(self, channel: Channel, event: NotificationsChanged) -> None:
        if channel.nodes:
            self._emit(channel.nodes, channel.hub, channel.name, event)

    def _key(self, channel: Channel) -> ChannelKey:
        term = self._terms.get(channel.partition, 0)
        return ChannelKey(channel.hub, channel.name, channel.partition, term)

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def new_epoch() -> str:
    return secrets.token_hex(4)


def _held(channel: Channel) -> HeldNotifications:
    assert channel.notifications is not None
    return channel.notifications


def _marked(changed: ChangedNotifications) -> Marked:
    return Marked(len(changed.changed), changed.unknown, changed.state)


def _result(item: NotificationItem, told: StoredCreation) -> NotificationResult:
    error: HubbubError | None = taken_id(item.id or "") if told.outcome == "conflict" else None
    return NotificationResult(item.id, told.timestamp, told.outcome == "duplicate", error)
