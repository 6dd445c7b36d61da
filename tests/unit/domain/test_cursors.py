"""A durable subscription's place: what is done, what is held, what comes next."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.cursors import RESERVE_AHEAD, Cursor, CursorRecord, Ranges
from hubbub.domain.errors import BadRequest, Conflict
from hubbub.domain.topics import MAX_AHEAD, SubscriptionOptions

pytestmark = pytest.mark.spec("ONCE-03")


def cursor(floor: int = 0, reserved: int = 0, **options: object) -> Cursor:
    chosen = SubscriptionOptions(**options)  # type: ignore[arg-type]
    return Cursor(floor, CursorRecord(chosen, "e", 1, reserved))


def shared(floor: int = 0, **options: object) -> Cursor:
    return cursor(floor, 0, shared=True, lease_seconds=30, **options)


def serials(
    of: Cursor, head: int, limit: int = 100, consumer: str = "", now: float = 0
) -> list[int]:
    return [pick.serial for pick in of.pick(head, limit, consumer, now)]


def reloaded(of: Cursor) -> Cursor:
    blob = msgspec.msgpack.encode(of.record())
    return Cursor(of.floor, msgspec.msgpack.decode(blob, type=CursorRecord))


@given(st.lists(st.integers(1, 40)), st.integers(0, 41))
def test_ranges_hold_exactly_the_numbers_that_were_added(numbers: list[int], cut: int) -> None:
    ranges = Ranges()
    for number in numbers:
        ranges.add(number)
    wanted = set(numbers)
    assert {n for n in range(45) if n in ranges} == wanted
    assert ranges.total() == len(wanted)
    assert ranges.count_between(5, 20) == len([n for n in wanted if 5 <= n <= 20])
    pairs = list(ranges)
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(pairs))
    assert ranges.next_outside(cut) == next(n for n in range(cut, 99) if n not in wanted)
    ranges.drop_up_to(cut)
    assert {n for n in range(45) if n in ranges} == {n for n in wanted if n > cut}


def test_without_sharing_the_same_first_messages_come_until_they_are_acknowledged() -> None:
    place = cursor(floor=5)
    assert serials(place, 9, 2) == [6, 7]
    again = place.pick(9, 2, "", 0)
    assert [(p.serial, p.deliveries, p.redelivered) for p in again] == [(6, 2, True), (7, 2, True)]
    assert place.acknowledge_up_to(7, 9, "") == 2
    assert serials(place, 9) == [8, 9]
    assert place.acknowledge([9], 9) == 1
    assert place.floor == 7
    assert serials(place, 9) == [8]
    assert place.acknowledge([8], 9) == 1
    assert (place.floor, list(place.done), place.lag(9)) == (9, [], 0)
    assert place.redeliveries == 3


def test_the_next_messages_can_be_fetched_before_the_last_are_acknowledged() -> None:
    place = cursor(floor=2)
    assert serials(place, 9, 2) == [3, 4]
    picks = place.pick(9, 2, "", 0, after=4)
    assert [(p.serial, p.redelivered) for p in picks] == [(5, False), (6, False)]
    assert [p.serial for p in place.pick(9, 2, "", 0, after=1)] == [3, 4]
    assert place.acknowledge_up_to(4, 9, "") == 2
    assert [p.serial for p in place.pick(9, 9, "", 0, after=6)] == [7, 8, 9]
    assert place.pick(10**6, 9, "", 0, after=4 + MAX_AHEAD) == []


def test_what_is_acknowledged_twice_counts_once() -> None:
    place = cursor()
    assert place.acknowledge([2, 3], 5) == 2
    assert place.acknowledge([2], 5) == 0
    assert place.acknowledge_up_to(3, 5, "") == 1
    assert place.acknowledge([1], 5) == 0
    assert place.floor == 3


@pytest.mark.parametrize(("serial", "error"), [(0, BadRequest), (-4, BadRequest), (6, Conflict)])
def test_a_serial_that_was_never_given_out_is_refused(serial: int, error: type[Exception]) -> None:
    for place in (cursor(), shared()):
        with pytest.raises(error, match=str(serial)):
            place.acknowledge([serial, 1], 5)
        assert place.floor == 0
    with pytest.raises(Conflict):
        cursor().acknowledge_up_to(6, 5, "")


def test_a_shared_message_goes_to_one_consumer_and_comes_back_when_its_lease_runs_out() -> None:
    place = shared()
    assert serials(place, 4, 2, "a", now=0) == [1, 2]
    assert serials(place, 4, 5, "b", now=10) == [3, 4]
    assert serials(place, 4, 5, "c", now=11) == []
    place.acknowledge([1], 4)
    assert place.expire(29.9) is False
    assert place.expire(30) is True
    (pick,) = place.pick(4, 5, "c", now=30)
    assert (pick.serial, pick.deliveries, pick.redelivered) == (2, 2, True)
    assert place.acknowledge([2], 4) == 1, "also by the one who was too late"
    assert place.floor == 2
    assert place.expire(40) is True
    assert serials(place, 4, 5, "c", now=40) == [3, 4]


def test_up_to_on_a_shared_subscription_means_what_the_consumer_holds() -> None:
    place = shared()
    serials(place, 9, 2, "a")
    serials(place, 9, 2, "b")
    serials(place, 9, 2, "a")
    assert place.acknowledge_up_to(5, 9, "a") == 3
    assert sorted(place.leases) == [3, 4, 6]
    assert (place.floor, list(place.done)) == (2, [(5, 5)])


def test_what_a_consumer_gives_back_comes_first_again() -> None:
    place = shared()
    serials(place, 9, 3, "a")
    assert place.give_back([2], "b") is False, "only who holds it can"
    assert place.give_back([2, 99], "a") is True
    assert serials(place, 9, 2, "b") == [2, 4]


def test_no_more_is_handed_out_than_may_be_unacknowledged() -> None:
    place = shared(max_unacknowledged=3)
    assert serials(place, 9, 9, "a") == [1, 2, 3]
    assert serials(place, 9, 9, "b") == []
    place.acknowledge([2], 9)
    assert serials(place, 9, 9, "b") == [4]


def test_after_a_restart_everything_not_done_comes_again_and_says_so() -> None:
    for place in (cursor(), shared()):
        picks = place.pick(6, 4, "a", 0)
        assert place.must_reserve(picks)
        assert place.reserved == 4 + RESERVE_AHEAD
        assert not place.must_reserve(place.pick(6, 1, "a", 0))
        place.acknowledge([1, 3], 6)
        again = reloaded(place)
        assert [(p.serial, p.redelivered) for p in again.pick(6, 9, "a", 0)] == [
            (2, True),
            (4, True),
            (5, True),
            (6, True),
        ]
    fresh = cursor(floor=3)
    assert [p.redelivered for p in fresh.pick(5, 9, "", 0)] == [False, False]


def test_counts_of_repeated_messages_survive_a_restart() -> None:
    place = cursor(max_deliveries=3)
    for _ in range(3):
        picks = place.pick(2, 9, "", 0)
        assert place.worn_out(picks) == []
    place = reloaded(place)
    assert place.redeliveries == 4
    assert place.worn_out(place.pick(2, 9, "", 0)) == [1, 2]


def test_a_message_on_its_way_to_the_dead_letters_is_not_handed_out() -> None:
    for place in (cursor(), shared()):
        place.dead_lettering = 2
        assert serials(place, 3) == [1, 3]
        place.acknowledge([2], 3)
        assert place.dead_lettering == 0


def test_what_was_picked_but_not_handed_out_is_as_if_it_had_not_been() -> None:
    for place in (cursor(), shared()):
        picks = place.pick(3, 3, "a", 0)
        place.put_back([pick.serial for pick in picks[1:]])
        place.acknowledge([1], 3)
        again = place.pick(3, 3, "a", 0)
        assert [(p.serial, p.deliveries, p.redelivered) for p in again] == [
            (2, 1, False),
            (3, 1, False),
        ]


def test_messages_that_are_gone_are_passed_over_and_counted() -> None:
    place = cursor(floor=2)
    place.acknowledge([5], 9)
    assert place.lose_before(2) == 0
    assert place.lose_before(7) == 3
    assert (place.floor, place.missed, reloaded(place).missed) == (6, 3, 3)


@given(st.data())
def test_every_message_is_done_once_however_consumers_behave(data: st.DataObject) -> None:
    """Shared: consumers take, acknowledge, give back and die in any order, with restarts."""
    head = 30
    place = shared(max_unacknowledged=8)
    done: list[int] = []
    now = 0.0
    for _ in range(data.draw(st.integers(0, 60))):
        now += 7
        step = data.draw(st.sampled_from(["take", "ack", "ack", "back", "expire", "restart"]))
        held = sorted(place.leases)
        if step == "take":
            picked = serials(place, head, 3, data.draw(st.sampled_from("ab")), now)
            assert not set(picked) & (set(done) | set(held))
        elif step == "ack" and held:
            serial = data.draw(st.sampled_from(held))
            assert place.acknowledge([serial], head) == 1
            done.append(serial)
        elif step == "back" and held:
            serial = data.draw(st.sampled_from(held))
            place.give_back([serial], place.leases[serial].consumer)
        elif step == "expire":
            place.expire(now)
        elif step == "restart":
            place = reloaded(place)
        assert place.lag(head) == head - len(done)
    while place.lag(head):
        now += 100
        place.expire(now)
        picked = serials(place, head, 5, "c", now)
        assert place.acknowledge(picked, head) == len(picked)
        done.extend(picked)
    assert sorted(done) == list(range(1, head + 1))
    assert place.floor == head
