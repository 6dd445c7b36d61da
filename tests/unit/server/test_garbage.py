"""When the garbage collector looks at everything."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from hubbub.server import garbage
from hubbub.server.garbage import LEAST_GROWTH, NEVER, GarbageCollection


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The generations that were looked at."""
    monkeypatch.setattr(garbage, "LOOK_SECONDS", 0.001)
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


async def test_everything_is_looked_at_when_the_memory_in_use_has_doubled_and_that_is_announced(
    collections: list[int],
) -> None:
    allocated = 1_000_000
    looked = asyncio.Event()
    announced: list[tuple[bool, int]] = []

    def count() -> int:
        looked.set()
        return allocated

    collection = GarbageCollection(
        lambda begins: announced.append((begins, len(collections))), count
    )
    former = gc.get_threshold()
    collection.start()
    try:
        assert gc.get_threshold()[2] == NEVER, "not by itself"
        at_start = len(collections)
        Cycle()
        allocated = 2_000_000
        looked.clear()
        await looked.wait()
        assert not announced
        allocated = 2_000_001
        async with asyncio.timeout(5):
            while len(announced) < 2:
                await asyncio.sleep(0.001)
        (begins, before), (goes_on, after) = announced
        assert (begins, goes_on) == (True, False)
        assert 2 not in collections[at_start:before]
        assert 2 in collections[before:after]
        assert not any(isinstance(each, Cycle) for each in gc.get_objects())
        looked.clear()
        allocated = 4_000_002
        await looked.wait()
        assert len(announced) == 2, "the next time at the double of what it is now"
    finally:
        collection.stop()
    assert gc.get_threshold() == former
    assert gc.get_freeze_count() == 0


async def test_a_small_process_grows_by_more_than_itself_first(collections: list[int]) -> None:
    allocated = 10
    looked, announced = asyncio.Event(), asyncio.Event()

    def count() -> int:
        looked.set()
        return allocated

    collection = GarbageCollection(lambda _: announced.set(), count)
    collection.start()
    try:
        allocated = LEAST_GROWTH + 10
        looked.clear()
        await looked.wait()
        assert not announced.is_set(), "it has doubled many times, and is still small"
        allocated = LEAST_GROWTH + 11
        async with asyncio.timeout(5):
            await announced.wait()
    finally:
        collection.stop()
