"""Lanes: numbered requests from one node to another, taken up once and in order.

A lane has one sending and one receiving end. The sender numbers its requests and sends each again
until it is answered or given up; the receiver takes them up by number, keeps its answers until the
sender has them, and so never takes one up twice. The sender's floor rides on every request: what is
below it needs no answer any more, and where the sender gave something up, nobody waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hubbub.cluster.datagrams import Call
from hubbub.domain.errors import HubbubError

WINDOW = 1024
"""Requests of a lane that may be under way at once; it bounds what the receiver keeps."""

Conclude = Callable[[Any, HubbubError | None], None]
"""Takes the decoded answer, or the error. Called exactly once."""


def awaited() -> tuple[asyncio.Future[Any], Conclude]:
    """A future for an answer, and what to call with it."""
    answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def conclude(value: Any, error: HubbubError | None) -> None:
        if answered.done():
            return
        if error is None:
            answered.set_result(value)
        else:
            answered.set_exception(error)

    return answered, conclude


class Pending:
    """A request that has no answer yet."""

    __slots__ = (
        "call",
        "conclude",
        "deadline",
        "delay",
        "due_at",
        "kind",
        "lane",
        "number",
        "sent",
        "sent_at",
        "since",
        "timer",
    )

    def __init__(
        self, lane: SendingLane, call: Call, kind: Any, conclude: Conclude, deadline: float
    ) -> None:
        self.lane = lane
        self.call = call
        self.kind = kind
        self.conclude = conclude
        self.deadline = deadline
        self.number = 0
        self.since = 0
        """The lane's floor when it was sent for the first time."""
        self.delay = 0.0
        self.due_at = 0.0
        """When it is looked after next."""
        self.sent = False
        """Whether it went to an incarnation that would take it up."""
        self.sent_at: float | None = None
        """When it was sent, if it was so once: else nobody knows which of them was answered."""
        self.timer: asyncio.TimerHandle | None = None


class SendingLane:
    """The sending end: what is under way, in order, and what waits for a place."""

    __slots__ = ("_next", "id", "node", "under_way", "waiting")

    def __init__(self, node: str, lane_id: int) -> None:
        self.node = node
        self.id = lane_id
        self.under_way: dict[int, Pending] = {}
        self.waiting: deque[Pending] = deque()
        self._next = 1

    @property
    def floor(self) -> int:
        return next(iter(self.under_way), self._next)

    def add(self, pending: Pending) -> None:
        self.waiting.append(pending)

    def start(self) -> Iterator[Pending]:
        """Give numbers to those that there is room for."""
        while self.waiting and self._next - self.floor < WINDOW:
            pending = self.waiting.popleft()
            pending.number = self._next
            self._next += 1
            self.under_way[pending.number] = pending
            pending.since = self.floor
            yield pending

    def remove(self, pending: Pending) -> None:
        if pending.number:
            self.under_way.pop(pending.number, None)
        else:
            self.waiting.remove(pending)


class ReceivingLane:
    """The receiving end: the number that must come next, and the answers so far."""

    __slots__ = ("_answers", "_early", "_expected", "refused")

    def __init__(self) -> None:
        self._expected = 1
        self._early: dict[int, tuple[Call, int]] = {}
        self._answers: dict[int, bytes] = {}
        self.refused = 0
        """The last number that was refused since the channel is elsewhere. What its sender sent
        before it knew must be refused too, or it would overtake."""

    def take(
        self, number: int, floor: int, call: Call, since: int = 0
    ) -> list[tuple[int, Call, int]]:
        """A request has come, perhaps again. Answers those whose turn it is now, each with its
        number and what the floor was when it was made."""
        if floor > self._expected:
            self._expected = floor
            self._early = {n: early for n, early in self._early.items() if n >= floor}
        for answered in [n for n in self._answers if n < floor]:
            del self._answers[answered]
        if self._expected <= number < self._expected + WINDOW:
            self._early[number] = (call, since)
        ready: list[tuple[int, Call, int]] = []
        while self._expected in self._early:
            ready.append((self._expected, *self._early.pop(self._expected)))
            self._expected += 1
        return ready

    def answer(self, number: int, data: bytes) -> None:
        self._answers[number] = data

    def answer_to(self, number: int) -> bytes | None:
        """What was answered before, for a request that comes again."""
        return self._answers.get(number)
