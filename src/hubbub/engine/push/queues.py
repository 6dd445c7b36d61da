"""What waits to be pushed, by hub, and within it by service: state only, driven by `driver`."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from hubbub.domain.push.content import PushNote
from hubbub.domain.push.tokens import PushToken
from hubbub.engine.outgoing import Destination
from hubbub.engine.push.audience import Pushed
from hubbub.engine.push.sending import Attempt, Content

MOST_WAITING_BYTES = 16 * 1024 * 1024
"""Of a hub's messages that wait; a message is a few hundred bytes with its text."""
MOST_ERASED = 1000
"""Users that a hub remembers as erased while something waits."""
_AT_ONCE = 100
"""Messages of one channel that share a question for its users."""


@dataclass(slots=True, eq=False)
class Delivery:
    """One message to one device."""

    token: PushToken
    content: Content
    checked: int = 0
    """How often the hub's settings or revocations had changed when it was found that the device may
    be told."""
    attempts: int = 0
    renewed: bool = False
    answer: asyncio.Future[Attempt] | None = None
    """Of a test: it is tried once, and somebody waits for what becomes of it."""


@dataclass(slots=True, eq=False)
class Lane:
    """The deliveries of a hub to one service, in order. One that is tried again comes last."""

    destination: Destination
    queue: deque[Delivery] = field(default_factory=deque)
    running: int = 0
    held: int = 0
    """Those in the queue, under way, or waiting to be tried again."""


@dataclass(slots=True, eq=False)
class HubQueue:
    waiting: deque[Pushed] = field(default_factory=deque)
    waiting_bytes: int = 0
    lanes: dict[str, Lane] = field(default_factory=dict)
    held: int = 0
    """Deliveries of all lanes."""
    room: asyncio.Event = field(default_factory=asyncio.Event)
    spreading: bool = False
    erased: dict[str, int] = field(default_factory=dict)
    """Users that were erased while something waited, and when, in milliseconds since 1970: the
    latest `MOST_ERASED` of them, the oldest first."""
    void_until: int = -1
    """When the last user that is no longer among them was erased. What was made before that and
    still waits is not sent, whoever it is for."""

    def offer(self, pushed: Pushed, most: int) -> bool:
        """Whether there was room for it."""
        size = pushed.note.size
        if len(self.waiting) >= most or self.waiting_bytes + size > MOST_WAITING_BYTES:
            return False
        self.waiting.append(pushed)
        self.waiting_bytes += size
        return True

    def take(self) -> list[Pushed]:
        """The next, and those behind it that go to the same users."""
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
        """What no device was found for yet."""
        self.waiting.clear()
        self.waiting_bytes = 0

    def erase(self, user_id: str, now: int) -> None:
        self.erased.pop(user_id, None)
        self.erased[user_id] = now
        if len(self.erased) > MOST_ERASED:
            oldest = self.erased.pop(next(iter(self.erased)))
            self.void_until = max(self.void_until, oldest)  # the clock may have been set back

    def is_erased(self, token: PushToken, note: PushNote) -> bool:
        """Whether the device's user, or the publisher, was erased after the note was made."""
        users = (token.user_id, note.publisher)
        return any(
            note.published_at <= self.erased.get(user or "", self.void_until) for user in users
        )

    def release(self, lane: Lane) -> None:
        """A delivery is done with."""
        lane.held -= 1
        self.held -= 1
        self.room.set()
        if not lane.held:
            self.lanes.pop(lane.destination.name, None)
