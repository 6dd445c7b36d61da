"""How the event loop is shared between connections."""

from __future__ import annotations

import asyncio

import pytest

from harness.clock import FakeClock
from hubbub.gateways.turns import (
    LEAST_COST,
    SLICE_REQUESTS,
    TURN_COST,
    TURN_SECONDS,
    AddressUsage,
    Turns,
)

pytestmark = pytest.mark.spec("SEC-01", "OPS-03")


class Busy:
    """A connection that always has more requests, each of which takes so many seconds."""

    def __init__(self, turns: Turns, clock: FakeClock, peer: str, seconds: float) -> None:
        self.turns = turns
        self.clock = clock
        self.seconds = seconds
        self.address = turns.address_of(peer)
        self.usage = AddressUsage()
        self.served = 0
        turns.wait(self)

    def take_turn(self) -> None:
        requests = min(SLICE_REQUESTS, self.turns.left)
        self.served += requests
        self.clock.advance(requests * self.seconds)
        self.turns.charge(self, requests, 0)
        self.turns.wait(self)


async def served_in_a_turn(seconds: float, turns_before: int = 20) -> int:
    clock = FakeClock()
    turns = Turns(clock)
    connections = [Busy(turns, clock, f"192.0.2.{number}", seconds) for number in range(20)]
    for _ in range(turns_before):
        await asyncio.sleep(0)
    before = sum(each.served for each in connections)
    await asyncio.sleep(0)
    return sum(each.served for each in connections) - before


async def test_turns_are_kept_short_whatever_requests_cost() -> None:
    assert await served_in_a_turn(TURN_SECONDS / 1000) == TURN_COST
    assert await served_in_a_turn(TURN_SECONDS / 32) in range(16, 65)
    assert await served_in_a_turn(TURN_SECONDS) == LEAST_COST


async def test_turns_grow_again_when_requests_cost_less() -> None:
    clock = FakeClock()
    turns = Turns(clock)
    connections = [Busy(turns, clock, f"192.0.2.{number}", 1.0) for number in range(20)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert turns._cost == LEAST_COST
    for connection in connections:
        connection.seconds = 0.0
    for _ in range(10):
        await asyncio.sleep(0)
    assert turns._cost == TURN_COST


async def test_who_used_least_comes_first_by_address() -> None:
    clock = FakeClock()
    turns = Turns(clock)
    flood = [Busy(turns, clock, "192.0.2.1", TURN_SECONDS) for _ in range(100)]
    for _ in range(50):
        await asyncio.sleep(0)
    before = sum(each.served for each in flood)
    late = Busy(turns, clock, "192.0.2.2", TURN_SECONDS)
    await asyncio.sleep(0)
    assert late.served > 0
    assert sum(each.served for each in flood) - before < late.served + SLICE_REQUESTS
