"""Queues of pushes by hub and service: state only, processed by `driver`."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from hubbub.domain.push.content import PushNote
from hubbub.domain.push.tokens import PushToken
from hubbub.engine.outward.gate import Destination
from hubbub.engine.push.audience import PendingPush
from hubbub.engine.push.sending import Attempt, Content

MOST_WAITING_BYTES = 16 * 1024 * 1024
"""Maximum size of a hub's pending pushes; a push takes a few hundred bytes and its text."""
MOST_ERASED = 1000
"""Maximum number of erased users that a hub remembers while pushes are pending."""
_AT_ONCE = 100
"""Messages of one channel for which the audience is determined once."""


@dataclass(slots=True, eq=False)
class PushDelivery:
    """One message to one device."""

    token: PushToken
    content: Content
    checked: int = 0
    """The number of changes of settings or revocations at the time of the last access check."""
    attempts: int = 0
    answer: asyncio.Future[Attempt] | None = None
    """Set for a test: the delivery is attempted once, and a caller waits for the result."""


@dataclass(slots=True, eq=False)
class ServiceQueue:
    """The deliveries of a hub to one service, in order; a retry goes to the end."""

    destination: Destination
    queue: deque[PushDelivery] = field(default_factory=deque)
    running: int = 0
    held: int = 0
    """Deliveries that are queued, in progress, or waiting for a retry."""


@dataclass(slots=True, eq=False)
class HubQueue:
    waiting: deque[PendingPush] = field(default_factory=deque)
    waiting_bytes: int = 0
    lanes: dict[str, ServiceQueue] = field(default_factory=dict)
    held: int = 0
    """Deliveries in all service queues."""
    room: asyncio.Event = field(default_factory=asyncio.Event)
    spreading: bool = False
    erased: dict[str, int] = field(default_factory=dict)
    """Users erased while pushes were pending, with the time in milliseconds since 1970: the latest
    `MOST_ERASED`, oldest first."""
    void_until: int = -1
    """When the last user that no longer fits in `erased` was erased. Older pending pushes are
    dropped, whoever they are for."""

    def offer(self, pushed: PendingPush, most: int) -> bool:
        """Adds a push if there is room, and returns whether there was."""
        size = pushed.note.size
        if len(self.waiting) >= most or self.waiting_bytes + size > MOST_WAITING_BYTES:
            return False
        self.waiting.append(pushed)
        self.waiting_bytes += size
        return True

    def take(self) -> list[PendingPush]:
        """Removes and returns the next push and those after it with the same audience."""
        taken = [self.waiting.popleft()]
        first = taken[0]
        while (
            self.waiting
            and len(taken) < _AT_ONCE
            and first.users is None
            and self.waiting[0].users is None
            and self.waiting[0].note.channel == first.note.channel
        ):
            taken.append(self.waiting.popleft())
        self.waiting_bytes -= sum(each.note.size for each in taken)
        return taken

    def drop_waiting(self) -> None:
        """Drops the pushes for which no devices were read yet."""
        self.waiting.clear()
        self.waiting_bytes = 0

    def erase(self, user_id: str, now: int) -> None:
        self.erased.pop(user_id, None)
        self.erased[user_id] = now
        if len(self.erased) > MOST_ERASED:
            oldest = self.erased.pop(next(iter(self.erased)))
            self.void_until = max(self.void_until, oldest)  # the clock may have been set back

    def is_erased(self, token: PushToken, note: PushNote) -> bool:
        """Whether the device's user, or the publisher, was erased after the push was created."""
        users = (token.user_id, note.publisher)
        return any(
            note.published_at <= self.erased.get(user or "", self.void_until) for user in users
        )

    def release(self, lane: ServiceQueue) -> None:
        """A delivery ended."""
        lane.held -= 1
        self.held -= 1
        self.room.set()
        if not lane.held:
            self.lanes.pop(lane.destination.name, None)
