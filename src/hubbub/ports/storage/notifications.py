"""Notifications of channels, and what is read of them. Times are milliseconds since 1970."""

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


class ChannelKey(msgspec.Struct, frozen=True):
    """A channel, and the term under which the writer owns its partition."""

    hub: str
    channel: str
    partition: int
    term: int


class NotificationBounds(msgspec.Struct, frozen=True):
    """Beyond `most` notifications of a channel the oldest go; none stays for longer than
    `age_ms`."""

    most: int
    age_ms: int


class StoredCreation(msgspec.Struct, frozen=True):
    """What became of an item, and its timestamp; 0 for a conflict."""

    outcome: Literal["created", "duplicate", "conflict"]
    timestamp: int = 0


class CreatedNotifications(msgspec.Struct, frozen=True):
    """`freed` are the bytes of those that had to go."""

    creations: tuple[StoredCreation, ...]
    state: NotificationState
    freed: int
    due_at: int


class ChangedNotifications(msgspec.Struct, frozen=True):
    """Id and timestamp of each notification that is another now, or is gone; ids that are not
    there; the bytes that were freed."""

    changed: tuple[tuple[str, int], ...]
    unknown: tuple[str, ...]
    state: NotificationState
    freed: int = 0
    due_at: int = 0


class LoadedNotifications(msgspec.Struct, frozen=True):
    state: NotificationState
    due_at: int
    """No notification of the channel expires before."""


class NotificationStore(Protocol):
    """A write raises `StaleOwner` under an old term. A channel that is not there yet has the
    `epoch` that the caller gives."""

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
        """All items have ids. Timestamps follow `now` and the last one of the channel."""

    async def mark_notifications(
        self, key: ChannelKey, epoch: str, which: Selection, read_at: int | None, by: str | None
    ) -> ChangedNotifications:
        """As read at this time, or as unread (None). Those that are so already do not change. The
        revision rises where any did."""

    async def delete_notifications(
        self, key: ChannelKey, epoch: str, which: Selection
    ) -> ChangedNotifications: ...

    async def expire_notifications(
        self, key: ChannelKey, epoch: str, now: int
    ) -> ChangedNotifications: ...

    async def forget_notifications(self, key: ChannelKey) -> int:
        """Delete the channel with all notifications. Answers the bytes that were freed."""

    async def anonymise_notifications(self, hub: str, user_id: str) -> int:
        """Take a user's id off all notifications of the hub that the user wrote or read. Answers
        how many they were."""

    async def read_notifications(self, query: PageNotifications) -> StoredNotifications | None:
        """None where nothing was ever created. A page may be shorter than its limit, as pages of
        messages are."""

    async def read_due_notifications(
        self, now: int, after: tuple[str, str], limit: int
    ) -> list[tuple[str, str]]:
        """Hub and name of channels with expired notifications, in order, those behind `after`."""
