"""The notifications of a channel, as its owner knows them."""

from __future__ import annotations

import asyncio

import msgspec

from hubbub.domain.notifications import NotificationState
from hubbub.ports.storage.notifications import LoadedNotifications


class HeldNotifications:
    """No I/O. The notifications themselves are in the store only."""

    __slots__ = ("due_at", "lock", "state")

    def __init__(self, epoch: str) -> None:
        self.lock = asyncio.Lock()
        """One change at a time, from the disk to its announcement: followers hear of changes in
        the order of their revisions."""
        self.begin(epoch)

    def begin(self, epoch: str) -> None:
        """Nothing is there, or nothing is there any more."""
        self.state = NotificationState(epoch, 0, 0, 0, 0)
        self.due_at: int | None = None

    def load(self, loaded: LoadedNotifications | None) -> None:
        """What the store has; None: nothing was ever created."""
        if loaded is not None:
            self.state, self.due_at = msgspec.structs.astuple(loaded)

    def change(self, state: NotificationState, due_at: int) -> None:
        self.state, self.due_at = state, due_at

    def are_due(self, now: int) -> bool:
        """Whether a notification may have expired by `now` (ms)."""
        return self.due_at is not None and self.due_at <= now
