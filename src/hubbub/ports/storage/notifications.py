"""Notifications of channels and their read state. Times are milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from hubbub.domain.notifications import (
    NotificationItem,
    NotificationState,
    PageNotifications,
    Selection,
    StoredNotifications,
)
from hubbub.ports.storage.audited import Audited


class ChannelKey(msgspec.Struct, frozen=True):
    """A channel, and the term in which the writer owns its partition."""

    hub: str
    channel: str
    partition: int
    term: int


class NotificationBounds(msgspec.Struct, frozen=True):
    """Retention of a channel: the oldest notifications beyond `most` are deleted, and all that are
    older than `age_ms`."""

    most: int
    age_ms: int


class StoredCreation(msgspec.Struct, frozen=True):
    """The result of creating an item, and its timestamp; 0 for a conflict."""

    outcome: Literal["created", "duplicate", "conflict"]
    timestamp: int = 0


class CreatedNotifications(msgspec.Struct, frozen=True):
    """`freed`: bytes of the notifications deleted to make room."""

    creations: tuple[StoredCreation, ...]
    state: NotificationState
    freed: int
    due_at: int


class ChangedNotifications(msgspec.Struct, frozen=True):
    """Id and timestamp of each changed or deleted notification; unknown ids; freed bytes."""

    changed: tuple[tuple[str, int], ...]
    unknown: tuple[str, ...]
    state: NotificationState
    freed: int = 0
    due_at: int = 0

    def __bool__(self) -> bool:
        """Whether anything changed."""
        return bool(self.changed)


class LoadedNotifications(msgspec.Struct, frozen=True):
    state: NotificationState
    due_at: int
    """The earliest time at which a notification of the channel may expire."""


class NotificationStore(Audited, Protocol):
    """A write raises `StaleOwner` under an outdated term. A new channel gets the `epoch` that the
    caller passes."""

    async def read_notification_state(
        self, hub: str, channel: str
    ) -> LoadedNotifications | None: ...

    async def create_notifications(
        self,
        key: ChannelKey,
        epoch: str,
        items: Sequence[NotificationItem],
        now: int,
        bounds: NotificationBounds,
    ) -> CreatedNotifications:
        """All items have ids. Timestamps are greater than the channel's last one and at least
        `now`."""

    async def mark_notifications(
        self, key: ChannelKey, epoch: str, which: Selection, read_at: int | None, by: str | None
    ) -> ChangedNotifications:
        """Marks notifications as read at `read_at`, or as unread (None). Those already in that
        state do not change. The revision rises if any changed."""

    async def delete_notifications(
        self, key: ChannelKey, epoch: str, which: Selection
    ) -> ChangedNotifications: ...

    async def expire_notifications(
        self, key: ChannelKey, epoch: str, now: int
    ) -> ChangedNotifications: ...

    async def forget_notifications(self, key: ChannelKey) -> int:
        """Deletes the channel with all notifications. Returns the freed bytes."""

    async def anonymise_notifications(self, hub: str, user_id: str) -> int:
        """Removes a user's id from all notifications of the hub that the user wrote or read.
        Returns how many."""

    async def read_notifications(self, query: PageNotifications) -> StoredNotifications | None:
        """None if nothing was ever created. A page may be shorter than its limit, like pages of
        messages."""

    async def read_due_notifications(
        self, now: int, after: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        """Hub and name of channels with expired notifications, in order, after `after`."""
