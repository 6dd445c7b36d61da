"""The order and the bounds of the queue in front of a worker."""

from __future__ import annotations

import asyncio

import pytest

from hubbub.domain.errors import StoreUnavailable
from hubbub.storage.sql.fair_queue import FairQueue, QueuedCall, QueueLimits


def operation(name: str, weight: int = 1, size: int = 1) -> QueuedCall:
    future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    return QueuedCall(operation, (name,), weight, size, future)


def names(batch: list[QueuedCall]) -> list[str]:
    return [waiting.arguments[0] for waiting in batch]


async def test_a_single_write_goes_ahead_of_another_hubs_flood() -> None:
    queue = FairQueue(QueueLimits(batch_weight=4, turn_weight=2))
    for n in range(6):
        queue.put("loud", operation(f"loud{n}"))
    queue.put("quiet", operation("quiet"))
    assert names(queue.take_batch()) == ["loud0", "loud1", "quiet", "loud2", "loud3"]
    assert names(queue.take_batch()) == ["loud4", "loud5"]
    assert not queue


async def test_large_operations_use_up_a_turn_at_once() -> None:
    queue = FairQueue(QueueLimits(batch_weight=100, turn_weight=10))
    for n in range(3):
        queue.put("bulk", operation(f"bulk{n}", weight=40))
        queue.put("small", operation(f"small{n}"))
    assert names(queue.take_batch()) == ["bulk0", "small0", "small1", "small2", "bulk1"]
    assert names(queue.take_batch()) == ["bulk2"]


@pytest.mark.spec("SEC-01")
async def test_what_fills_a_batch_is_taken_alone_and_others_come_in_between() -> None:
    queue = FairQueue(QueueLimits(batch_weight=4, turn_weight=1))
    for n in range(3):
        queue.put("loud", operation(f"page{n}", weight=4))
    queue.put("quiet", operation("a"))
    queue.put("quiet", operation("b"))
    assert names(queue.take_batch()) == ["page0"]
    assert names(queue.take_batch()) == ["a"]
    assert names(queue.take_batch()) == ["page1"]
    assert names(queue.take_batch()) == ["b"]
    assert names(queue.take_batch()) == ["page2"]


async def test_a_batch_ends_where_its_bytes_are_full() -> None:
    queue = FairQueue(QueueLimits(batch_bytes=10))
    for n in range(3):
        queue.put("hub", operation(str(n), size=6))
    assert names(queue.take_batch()) == ["0", "1"]
    assert names(queue.take_batch()) == ["2"]


async def test_what_is_under_way_takes_up_room_until_it_is_released() -> None:
    queue = FairQueue(QueueLimits(pending_weight=2, lane_share=1))
    for n in range(2):
        queue.put("hub", operation(str(n)))
    (first, _) = queue.take_batch()
    with pytest.raises(StoreUnavailable, match="send more slowly"):
        queue.put("hub", operation("late"))
    queue.release(first)
    queue.put("hub", operation("in time"))
    assert names(queue.take_batch()) == ["in time"]
