"""A bounded queue of operations that serves hubs round-robin.

Operations wait in lanes, one per hub. A batch takes from the lanes in turn, so that one hub's flood
cannot delay another hub's write, and no hub may fill more than its share of the queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hubbub.domain.audit import AuditEntry
from hubbub.domain.errors import StoreUnavailable


class Bound(msgspec.Struct, frozen=True, array_like=True):
    """An operation that would bring a hub above this size is rolled back."""

    hub: str
    most: int


class QueueLimits(msgspec.Struct, frozen=True):
    """`weight` counts messages; other operations weigh 1. `pending` includes operations in
    progress."""

    batch_weight: int = 2000
    batch_bytes: int = 4 * 1024 * 1024
    turn_weight: int = 64
    pending_weight: int = 200_000
    pending_bytes: int = 128 * 1024 * 1024
    lane_share: float = 0.5
    batches_under_way: int = 2


@dataclass(slots=True, eq=False)
class QueuedCall:
    """An operation, and the future of its caller."""

    method: Callable[..., Any]
    arguments: Sequence[Any]
    weight: int
    size: int
    future: asyncio.Future[Any]
    bound: Bound | None = None
    audit: AuditEntry | None = None


@dataclass(slots=True, eq=False)
class _Lane:
    waiting: deque[QueuedCall] = field(default_factory=deque)
    weight: int = 0
    size: int = 0


class FairQueue:
    """A lane exists only while operations wait in it. Taken operations count as pending until
    `release`."""

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._lane_weight = int(limits.pending_weight * limits.lane_share)
        self._lane_bytes = int(limits.pending_bytes * limits.lane_share)
        self._lanes: dict[str, _Lane] = {}
        self.pending_weight = 0
        self.pending_bytes = 0

    def __bool__(self) -> bool:
        """Whether any operation waits."""
        return bool(self._lanes)

    def put(self, lane_name: str, waiting: QueuedCall) -> None:
        """Raises `StoreUnavailable` if the queue or the lane is full."""
        lane = self._lanes.get(lane_name)
        if lane is None:
            lane = _Lane()
        limits = self._limits
        if (
            self.pending_weight >= limits.pending_weight
            or self.pending_bytes >= limits.pending_bytes
            or lane.weight >= self._lane_weight
            or lane.size >= self._lane_bytes
        ):
            raise StoreUnavailable(
                f"the store is behind: {lane.weight} messages of this hub wait; send more slowly",
                f"the store is behind: {self.pending_weight} messages wait, {lane.weight} of them"
                f" in hub {lane_name!r}; send more slowly",
            )
        self.pending_weight += waiting.weight
        self.pending_bytes += waiting.size
        lane.weight += waiting.weight
        lane.size += waiting.size
        lane.waiting.append(waiting)
        self._lanes[lane_name] = lane

    def take_batch(self) -> list[QueuedCall]:
        """Fills a batch round-robin. A lane that was served moves to the end. A lane whose next
        operation is too heavy for the rest of the batch is first in the next one, so that a heavy
        operation does not delay earlier ones."""
        limits = self._limits
        batch: list[QueuedCall] = []
        weight = size = 0
        while self._lanes and weight < limits.batch_weight and size < limits.batch_bytes:
            name = next(iter(self._lanes))
            if batch and weight + self._lanes[name].waiting[0].weight > limits.batch_weight:
                break
            lane = self._lanes.pop(name)
            turn = limits.turn_weight
            while lane.waiting and turn > 0 and size < limits.batch_bytes:
                waiting = lane.waiting.popleft()
                batch.append(waiting)
                turn -= waiting.weight
                weight += waiting.weight
                size += waiting.size
                lane.weight -= waiting.weight
                lane.size -= waiting.size
            if lane.waiting:
                self._lanes[name] = lane
        return batch

    def release(self, waiting: QueuedCall) -> None:
        self.pending_weight -= waiting.weight
        self.pending_bytes -= waiting.size
