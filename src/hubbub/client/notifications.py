"""A client's view of a notification channel: new and unread notifications, and marking them as
read."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from hubbub.client.connection.supervisor import Supervisor
from hubbub.client.messages import Message, decode_data
from hubbub.client.subscription import ChannelEvent, Subscription
from hubbub.domain import notices, notifications
from hubbub.domain.notifications import NotificationState
from hubbub.domain.requests import MarkNotifications, NotificationQuery, NotificationStateQuery


class Notification(notifications.Notification, frozen=True, gc=False):
    """`timestamp`, `expires_at` and `read_at` are milliseconds since 1970."""

    @property
    def data(self) -> Any:
        """The payload decoded by its content type: a JSON value, a text, or bytes."""
        return decode_data(self.payload, self.content_type)

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.timestamp / 1000, UTC)


class NotificationPage(msgspec.Struct, frozen=True):
    """Newest first, or in ascending order after a timestamp; `more`: another page follows in the
    same direction."""

    notifications: tuple[Notification, ...]
    more: bool
    state: NotificationState


class Notifications:
    """Created by `Client.notifications`. Iterate over it for new notifications, each once, also
    across lost connections. `state` and `unread` reflect changes by any session."""

    def __init__(
        self,
        supervisor: Supervisor,
        channel: str,
        subscribe: Callable[[str], Subscription],
        since: int | None,
    ) -> None:
        self.channel = channel
        self._supervisor = supervisor
        self._subscribe = subscribe
        self._subscription: Subscription | None = None
        self._events: AsyncIterator[Message | ChannelEvent] | None = None
        self._new: deque[Notification] = deque()
        self._reached = since
        """The timestamp up to which all notifications were received."""
        self._revision = -1
        self._seen = 0
        """The newest timestamp returned to the application."""

    async def __aenter__(self) -> Notifications:
        await self._started()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stops following the channel."""
        if self._subscription is not None:
            await self._subscription.unsubscribe()

    async def _started(self) -> Subscription:
        if self._subscription is None:
            self._subscription = self._subscribe(self.channel)
        return await self._subscription

    # -- numbers and pages ----------------------------------------------------------------------

    @property
    def state(self) -> NotificationState | None:
        """The channel's counters, as last received from the hub; None before that."""
        found = self._subscription and self._subscription.notifications.get(self.channel)
        return found or None

    @property
    def unread(self) -> int:
        return self.state.unread if self.state is not None else 0

    async def count(self) -> NotificationState:
        """Requests the channel's current counters."""
        request = NotificationStateQuery(self.channel)
        return (await self._supervisor.call(request, notices.NotificationInfo)).state

    async def page(
        self,
        *,
        unread: bool = False,
        after: int | None = None,
        before: int | None = None,
        limit: int = 0,
    ) -> NotificationPage:
        """The newest notifications, or those before or after a timestamp; at most 1,000."""
        request = NotificationQuery(self.channel, unread, after, before, limit)
        found = await self._supervisor.call(request, notices.NotificationPage)
        page = tuple(map(_notification, found.notifications))
        self._seen = max([self._seen, *(each.timestamp for each in page)])
        return NotificationPage(page, found.more, found.state)

    # -- marks ----------------------------------------------------------------------------------

    async def mark_read(self, *ids: str) -> notices.NotificationsMarked:
        """Marks notifications for all who share the channel; returns how many changed, how many are
        unread, and the unknown ids."""
        return await self._mark(MarkNotifications(self.channel, ids))

    async def mark_seen(self) -> notices.NotificationsMarked:
        """Marks everything up to the newest notification that this object returned as read: later
        ones stay unread."""
        return await self._mark(MarkNotifications(self.channel, up_to=self._seen))

    async def _mark(self, request: MarkNotifications) -> notices.NotificationsMarked:
        return await self._supervisor.call(request, notices.NotificationsMarked)

    # -- what is new ----------------------------------------------------------------------------

    def __aiter__(self) -> Notifications:
        return self

    async def __anext__(self) -> Notification:
        if self._events is None:
            self._events = (await self._started()).events()
        while not self._new:
            await self._take(await anext(self._events))
        found = self._new.popleft()
        self._seen = max(self._seen, found.timestamp)
        return found

    async def _take(self, event: Message | ChannelEvent) -> None:
        """Queues new notifications; if events are missing, fetches them."""
        if isinstance(event, notices.NotificationNew):
            if self._reached is not None and event.revision == self._revision + 1:
                self._queue(event.notification)
                self._revision = event.revision
        elif isinstance(event, notices.NotificationRead):
            if event.revision == self._revision + 1:
                self._revision = event.revision
        elif isinstance(event, notices.NotificationInfo):
            if self._reached is None:
                self._reached = event.state.newest
            elif event.state.newest > self._reached:
                await self._fetch(self._reached)
            self._revision = event.state.revision

    async def _fetch(self, after: int) -> None:
        more = True
        while more:
            request = NotificationQuery(self.channel, after=after)
            page = await self._supervisor.call(request, notices.NotificationPage)
            for each in page.notifications:
                self._queue(each)
                after = each.timestamp
            more = page.more and bool(page.notifications)

    def _queue(self, found: notifications.Notification) -> None:
        if found.timestamp > (self._reached or 0):
            self._reached = found.timestamp
            self._new.append(_notification(found))


def _notification(found: notifications.Notification) -> Notification:
    return Notification(*msgspec.structs.astuple(found))
