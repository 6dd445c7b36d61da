"""One bound over what many hold: who holds most loses first, and nobody else."""

from __future__ import annotations

import pytest

from hubbub.domain.holdings import FREE_BYTES, Holdings

pytestmark = pytest.mark.spec("SEC-01")

LIMIT = 1_600_000
GOAL = LIMIT - LIMIT // 16


class Held:
    """Holds bytes until it is told to give up."""

    def __init__(self, holdings: Holdings, address: str, size: int) -> None:
        self.given_up = False
        self._holdings = holdings
        self._address = address
        self.hold(size)

    def hold(self, size: int) -> None:
        self._holdings.hold(self, self._address, size)

    def give_up(self) -> None:
        self.given_up = True


class Leaving(Held):
    """Makes another one hold more when it gives up, as a session that leaves is announced."""

    listener: Held

    def give_up(self) -> None:
        super().give_up()
        self.listener.hold(400_000)


def test_up_to_the_bound_nobody_gives_up() -> None:
    holdings = Holdings(LIMIT)
    held = [Held(holdings, "one", LIMIT // 16) for _ in range(16)]
    assert holdings.total == LIMIT
    assert not any(each.given_up for each in held)


def test_the_largest_of_the_address_that_holds_most_gives_up_until_there_is_room() -> None:
    holdings = Holdings(LIMIT)
    victim = Held(holdings, "victim", 700_000)
    many = [Held(holdings, "greedy", 10_000 + number) for number in range(90)]
    assert not victim.given_up
    assert holdings.total <= GOAL
    gone = [number for number, each in enumerate(many) if each.given_up]
    assert gone == list(range(90 - holdings.ended, 90))
    assert holdings.total + 10_000 + gone[0] > GOAL  # no more than it takes


def test_an_address_loses_no_more_once_another_one_holds_more() -> None:
    holdings = Holdings(LIMIT)
    first = [Held(holdings, "first", 100_000) for _ in range(8)]
    second = [Held(holdings, "second", 100_000) for _ in range(9)]
    left = [sum(not each.given_up for each in held) for held in (first, second)]
    assert sorted(left) == [7, 8]


def test_what_is_small_does_not_count_and_what_is_released_is_forgotten() -> None:
    holdings = Holdings(LIMIT)
    held = Held(holdings, "one", FREE_BYTES)
    assert holdings.total == 0
    held.hold(FREE_BYTES + 1)
    assert holdings.total == FREE_BYTES + 1
    held.hold(10)
    assert holdings.total == 0
    held.hold(LIMIT)
    holdings.release(held)
    holdings.release(held)
    assert holdings.total == 0
    assert not held.given_up


def test_a_holder_may_change_its_address() -> None:
    """As a connection of a proxy, which brings requests of many clients."""
    holdings = Holdings(LIMIT)
    proxy = Held(holdings, "first", 900_000)
    holdings.hold(proxy, "second", 500_000)
    other = Held(holdings, "first", 1_200_000)
    assert other.given_up
    assert not proxy.given_up
    assert holdings.total == 500_000


def test_what_others_hold_because_one_gave_up_is_within_the_bound_too() -> None:
    holdings = Holdings(LIMIT)
    listener = Held(holdings, "listener", 10_000)
    leaving = [Leaving(holdings, "leaving", 0) for _ in range(8)]
    for each in leaving:
        each.listener = listener
        each.hold(300_000)
    assert holdings.total <= LIMIT
    assert any(each.given_up for each in leaving)
