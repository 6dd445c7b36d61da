"""Lanes: numbered requests from one node to another, processed once and in order.

A lane has a sending and a receiving end. The sender numbers its requests and repeats each until it
is answered or given up. The receiver processes them by number and keeps its responses until the
sender has them, and so processes none twice. Every request carries the sender's floor: requests
below it need no response, and the receiver does not wait for those that the sender gave up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hubbub.cluster.datagrams import Call
from hubbub.domain.errors import HubbubError

WINDOW = 1024
"""Maximum number of requests in progress per lane, which bounds the stored responses."""


Conclude = Callable[[Any, HubbubError | None], None]
"""Receives the decoded response, or the error. Called exactly once."""


def awaited() -> tuple[asyncio.Future[Any], Conclude]:
    """A future for a response, and the callback that completes it."""
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
    """A request without a response."""

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
        """The lane's floor when the request was first sent."""
        self.delay = 0.0
        self.due_at = 0.0
        """When it is checked next."""
        self.sent = False
        """Whether it was sent to a known incarnation."""
        self.sent_at: float | None = None
        """The time of sending, if it was sent once; otherwise the round trip is unknown."""
        self.timer: asyncio.TimerHandle | None = None


class SendingLane:
    """The sending end: requests in progress, in order, and those that wait for the window."""

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
        """Numbers and returns the requests for which the window has room."""
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
    """The receiving end: the next expected number, and the stored responses."""

    __slots__ = ("_answers", "_early", "_expected", "refused")

    def __init__(self) -> None:
        self._expected = 1
        self._early: dict[int, tuple[Call, int]] = {}
        self._answers: dict[int, bytes] = {}
        self.refused = 0
        """The last number refused because another node owns the channel. Requests sent before the
        sender learned that must be refused as well, to keep the order."""

    def take(
        self, number: int, floor: int, call: Call, since: int = 0
    ) -> list[tuple[int, Call, int]]:
        """Accepts a request, perhaps a repeated one. Returns the requests whose turn it is, each
        with its number and its `since`."""
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
        """The stored response for a repeated request."""
        return self._answers.get(number)
