"""The state of a channel's notifications at its owner."""

from __future__ import annotations

import asyncio

import msgspec

from hubbub.domain.notifications import NotificationState
from hubbub.engine.room_state import RoomState
from hubbub.ports.bus import Attachment
from hubbub.ports.storage.notifications import LoadedNotifications


class HeldNotifications(RoomState):
    """No I/O. The notifications themselves are only in the store."""

    __slots__ = ("due_at", "lock", "state")

    def __init__(self, epoch: str) -> None:
        self.lock = asyncio.Lock()
        """Serialises changes from the write to the announcement: followers receive changes in the
        order of their revisions."""
        self.begin(epoch)

    def begin(self, epoch: str) -> None:
        """The channel has no notifications, or none any more."""
        self.state = NotificationState(epoch, 0, 0, 0, 0)
        self.due_at: int | None = None

    def load(self, loaded: LoadedNotifications | None) -> None:
        """Applies the stored state; None: none was ever created."""
        if loaded is not None:
            self.state, self.due_at = msgspec.structs.astuple(loaded)

    def change(self, state: NotificationState, due_at: int) -> None:
        self.state, self.due_at = state, due_at

    def attach(self, attachment: Attachment) -> Attachment:
        return msgspec.structs.replace(attachment, notifications=self.state)

    def are_due(self, now: int) -> bool:
        """Whether a notification may have expired by `now` (ms)."""
        return self.due_at is not None and self.due_at <= now
