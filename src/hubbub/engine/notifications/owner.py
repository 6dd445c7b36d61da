"""Notification channels at their owner: a change is first stored, then announced to followers of
the channel, then acknowledged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hubbub.domain.errors import HubbubError
from hubbub.domain.names import ChannelKind, kind_of, partition_of
from hubbub.domain.notifications import (
    Created,
    CreateNotifications,
    DeleteNotifications,
    DescribeNotifications,
    ForgetNotifications,
    MarkResult,
    NotificationAnswer,
    NotificationItem,
    NotificationOwnerRequest,
    NotificationResult,
    NotificationsChanged,
    PageNotifications,
    ReadMark,
    SetReadMarks,
    StoredNotifications,
    taken_id,
)
from hubbub.engine.channels.channel import Channel
from hubbub.engine.channels.parts import OwnerParts
from hubbub.engine.channels.rooms import OwnerRoom
from hubbub.engine.notifications.held import HeldNotifications
from hubbub.engine.notifications.journal import NotificationEvents
from hubbub.ports import randomness
from hubbub.ports.journal import Journal
from hubbub.ports.storage.notifications import (
    ChangedNotifications,
    ChannelKey,
    NotificationBounds,
    NotificationStore,
    StoredCreation,
)

_DUE_CHANNELS = 500


class NotificationOwner(OwnerRoom):
    """The notifications in the channels of one owner."""

    replaces_messages = True

    def __init__(
        self,
        parts: OwnerParts,
        journal: Journal,
    ) -> None:
        limits = parts.limits
        self._store: NotificationStore = parts.store
        self._clock = parts.clock
        self._terms = parts.terms
        self._bounds = NotificationBounds(
            limits.notifications, int(limits.notification_seconds * 1000)
        )
        self._stored_bytes = parts.stored_bytes
        self._channels = parts.channels
        self._announcements = parts.announcements
        self._events = NotificationEvents(journal, parts.clock)
        self.channel_requests = dict.fromkeys(NotificationOwnerRequest.__args__, self._serve)

    def keeps(self, channel: str) -> bool:
        return kind_of(channel) is ChannelKind.NOTIFICATION

    def opened(self, channel: Channel) -> None:
        channel.put_state(HeldNotifications(new_epoch()))

    async def load(self, channel: Channel) -> None:
        held = _held(channel)
        held.load(await self._store.read_notification_state(channel.hub, channel.name))
        channel.stand_on_disk(held.state.epoch, head=0, first=1)

    async def _serve(
        self, channel: Channel, request: NotificationOwnerRequest
    ) -> NotificationAnswer:
        """Raises `StaleOwner`, `QuotaExceeded` and `StoreUnavailable` before anything has
        changed."""
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
        self, channel: Channel, held: HeldNotifications, request: NotificationOwnerRequest
    ) -> NotificationAnswer:
        if isinstance(request, CreateNotifications):
            return await self._create(channel, held, request.items)
        if isinstance(request, SetReadMarks):
            return await self._mark(channel, held, request)
        if isinstance(request, DeleteNotifications):
            key, epoch = self._key(channel), held.state.epoch
            store = self._store.audited(request.audit)
            gone = await store.delete_notifications(key, epoch, request.which)
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
        self, channel: Channel, held: HeldNotifications, request: SetReadMarks
    ) -> MarkResult:
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

    async def expire(self) -> None:
        """Deletes expired notifications, also in channels that are not open."""
        after = "", ""
        while True:
            due = await self._store.read_due_notifications(self._now(), after, _DUE_CHANNELS)
            for hub, name in due:
                if self._terms.get(partition_of(hub, name)) is not None:
                    await self._expire_one(hub, name)
            if len(due) < _DUE_CHANNELS:
                return
            after = due[-1]

    async def _expire_one(self, hub: str, name: str) -> None:
        channel = self._channels.get((hub, name))
        if channel is not None:
            held = _held(channel)
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
        self._announcements.tell(channel, event)

    def _key(self, channel: Channel) -> ChannelKey:
        return ChannelKey(channel.hub, channel.name, channel.partition, self._terms.of(channel))

    def _now(self) -> int:
        return int(self._clock.now() * 1000)


def new_epoch() -> str:
    return randomness.token_hex(4)


def _held(channel: Channel) -> HeldNotifications:
    held = channel.state_of(HeldNotifications)
    assert held is not None
    return held


def _marked(changed: ChangedNotifications) -> MarkResult:
    return MarkResult(len(changed.changed), changed.unknown, changed.state)


def _result(item: NotificationItem, told: StoredCreation) -> NotificationResult:
    error: HubbubError | None = taken_id(item.id or "") if told.outcome == "conflict" else None
    return NotificationResult(item.id, told.timestamp, told.outcome == "duplicate", error)
