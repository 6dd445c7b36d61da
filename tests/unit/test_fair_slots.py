"""Fair shares of slots, and of the places in front of them."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from hubbub.domain.errors import Overloaded
from hubbub.fair_slots import FairPlaces, FairSlots


async def test_a_tenant_waits_for_itself_and_not_for_another() -> None:
    slots = FairSlots(4)
    await slots.take("many")
    await slots.take("many")
    waiting = asyncio.create_task(slots.take("many"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert slots.try_take("other")
    slots.give_back("many")
    await waiting
    assert slots.taken == 3


async def test_a_tenant_with_its_share_of_the_places_is_refused_and_another_is_not() -> None:
    places = FairPlaces(2, 6, "questions")
    done = asyncio.Event()

    async def ask(tenant: str) -> None:
        async with places.slot(tenant):
            await done.wait()

    asking = [asyncio.create_task(ask("many")) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sum(task.done() for task in asking) == 16
    async with places.slot("other"):
        with pytest.raises(Overloaded, match="too many questions at once"):
            async with places.slot("many"):
                pass
    done.set()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert results.count(None) == 4
    assert places._places.taken == 0
    assert places._slots.taken == 0


async def test_who_leaves_the_queue_gives_its_place_back() -> None:
    places = FairPlaces(2, 2, "questions")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(places.slot("one"))
        waiting = asyncio.create_task(stack.enter_async_context(places.slot("one")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert places._places.taken == 1
    async with places.slot("one"), places.slot("other"):
        pass
