"""Fan-out: in slices, in turns between hubs, and to exactly those who were there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from unittest.mock import Mock

import pytest

from harness.clock import FakeClock
from harness.engine import NoticeEncoder
from hubbub.domain.errors import HubbubError
from hubbub.domain.rules import HubConfiguration
from hubbub.engine.counters import HubCounters
from hubbub.engine.delivery.fanout import (
    CONGESTED_BYTES,
    LEAST_WRITES,
    PATIENCE_RESTS,
    RESTING_BYTES,
    SLICE_BYTES,
    SLICE_SECONDS,
    SLICE_WRITES,
    DeliveryQueue,
    Fanout,
    Group,
)
from hubbub.engine.delivery.feed import Feed
from hubbub.engine.delivery.feed_part import RoomFeeds
from hubbub.engine.hub import Hub
from hubbub.ports.connection import Connection
from hubbub.ports.encoding import Encoder

pytestmark = pytest.mark.spec("LIVE-16")


class Bytes(NoticeEncoder):
    """Units are what they are."""

    def pack(self, units: Sequence[bytes]) -> bytes:
        return b"".join(units)


class Ear:
    """A connection that notes down what it is sent."""

    one_way = False
    technology = "test"
    rid = None
    behind = False
    buffered = 0
    full = False
    fd = -1

    def __init__(self, name: str = "") -> None:
        self.encoder: Encoder = Bytes()
        self.name = name
        self.heard = b""
        self.writes = 0
        self.reading = True

    def encoder_in(self, channel: str) -> Encoder:
        return self.encoder

    def send(self, data: bytes) -> None:
        self.heard += data
        self.writes += 1

    def block(self, data: bytes, sent: int) -> None:
        raise AssertionError("nothing was written to a descriptor")

    def lose(self) -> None:
        raise AssertionError("nothing was written to a descriptor")

    def disconnect(self, error: HubbubError) -> None: ...

    def close(self) -> None: ...

    async def drain(self) -> None: ...

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Wire:
    """A transmitter that notes down whom it served, slice by slice."""

    def __init__(self) -> None:
        self.slices: list[list[Connection]] = []
        self.broken: Connection | None = None

    def __call__(self, connections: Sequence[Connection], data: bytes) -> None:
        self.slices.append(list(connections))
        if self.broken in connections:
            self.broken = None
            raise RuntimeError("a fault of the hub itself")
        for connection in connections:
            connection.send(data)


def group_of(ears: Sequence[Ear], delivery_queue: DeliveryQueue | None = None) -> Group:
    group = Group(Bytes(), delivery_queue or DeliveryQueue(HubCounters()))
    for ear in ears:
        group.add(ear)
    return group


async def turn() -> None:
    """One turn of the event loop."""
    await asyncio.sleep(0)


async def test_what_is_said_in_one_turn_is_written_once() -> None:
    wire = Wire()
    fanout, ears = Fanout(wire, FakeClock()), [Ear(), Ear()]
    group = group_of(ears)
    for unit in (b"a", b"b", b"c"):
        fanout.send(group, unit)
    assert ears[0].heard == b""
    await turn()
    assert [(ear.heard, ear.writes) for ear in ears] == [(b"abc", 1)] * 2
    assert group.delivery_queue.counters.messages_out == 6
    assert group.delivery_queue.counters.bytes_out == 6


async def test_a_large_audience_is_served_in_slices_over_several_turns() -> None:
    wire = Wire()
    fanout, ears = Fanout(wire, FakeClock()), [Ear() for _ in range(2 * SLICE_WRITES + 10)]
    fanout.send(group_of(ears), b"hello")
    await turn()
    assert 0 < sum(ear.writes for ear in ears) <= SLICE_WRITES
    for _ in range(5):
        await turn()
    assert all(ear.heard == b"hello" for ear in ears)
    assert max(len(each) for each in wire.slices) <= SLICE_WRITES


async def test_large_messages_make_smaller_slices() -> None:
    wire = Wire()
    fanout, ears = Fanout(wire, FakeClock()), [Ear() for _ in range(50)]
    fanout.send(group_of(ears), b"x" * 200_000)
    await turn()
    assert sum(ear.writes for ear in ears) < 50
    for _ in range(60):
        await turn()
    assert all(ear.writes == 1 for ear in ears)


@pytest.mark.spec("SEC-05")
async def test_writes_that_take_long_make_smaller_slices_until_they_are_fast_again() -> None:
    clock, wire = FakeClock(), Wire()
    seconds_a_write = SLICE_SECONDS / 10

    def transmit(connections: Sequence[Connection], data: bytes) -> None:
        wire(connections, data)
        clock.advance(len(connections) * seconds_a_write)

    fanout = Fanout(transmit, clock)
    fanout.send(group_of([Ear() for _ in range(20 * SLICE_WRITES)]), b"hello")
    for _ in range(10):
        await turn()
    assert len(wire.slices[0]) == SLICE_WRITES
    assert len(wire.slices[-1]) == LEAST_WRITES
    seconds_a_write = 0.0
    for _ in range(10):
        await turn()
    assert len(wire.slices[-1]) == SLICE_WRITES


async def test_a_hub_with_a_large_audience_does_not_make_another_wait() -> None:
    wire = Wire()
    fanout = Fanout(wire, FakeClock())
    crowd, few = [Ear() for _ in range(20 * SLICE_WRITES)], [Ear()]
    loud, quiet = group_of(crowd), group_of(few)
    fanout.send(loud, b"loud")
    await turn()
    fanout.send(quiet, b"quiet")
    await turn()
    await turn()
    assert few[0].heard == b"quiet"
    assert sum(ear.writes for ear in crowd) <= 3 * SLICE_WRITES


async def test_a_small_audience_behind_a_large_one_is_served_within_two_turns() -> None:
    fanout = Fanout(Wire(), FakeClock())
    crowd, few = [Ear() for _ in range(20 * SLICE_WRITES)], [Ear() for _ in range(10)]
    data = b"x" * (SLICE_BYTES // SLICE_WRITES + 100)  # of which a slice leaves room for one write
    fanout.send(group_of(crowd), data)
    fanout.send(group_of(few), b"quiet")
    await turn()
    await turn()
    assert [ear.heard for ear in few] == [b"quiet"] * len(few)


async def test_hubs_take_turns_whatever_the_number_of_their_channels() -> None:
    wire = Wire()
    fanout = Fanout(wire, FakeClock())
    busy = DeliveryQueue(HubCounters())
    many = [group_of([Ear("busy") for _ in range(SLICE_WRITES)], busy) for _ in range(10)]
    other = group_of([Ear("other") for _ in range(SLICE_WRITES)])
    for group in many:
        fanout.send(group, b"x")
    fanout.send(other, b"y")
    for _ in range(3):
        await turn()
    assert all(ear.heard == b"y" for ear in other.connections)  # type: ignore[attr-defined]


async def test_who_joins_in_the_middle_gets_only_what_is_said_after() -> None:
    fanout = Fanout(Wire(), FakeClock())
    early, late = [Ear() for _ in range(SLICE_WRITES + 5)], Ear()
    group = group_of(early)
    fanout.send(group, b"1")
    await turn()
    fanout.send(group, b"2")
    group.add(late)
    fanout.send(group, b"3")
    for _ in range(8):
        await turn()
    assert all(ear.heard == b"123" for ear in early)
    assert late.heard == b"3"


async def test_who_leaves_in_the_middle_gets_nothing_more_and_the_others_everything() -> None:
    fanout = Fanout(Wire(), FakeClock())
    ears = [Ear() for _ in range(SLICE_WRITES + 5)]
    group = group_of(ears)
    fanout.send(group, b"1")
    await turn()
    leaving = ears[-1]
    assert leaving.heard == b""
    group.remove(leaving)
    fanout.send(group, b"2")
    for _ in range(5):
        await turn()
    assert leaving.heard == b""
    assert all(ear.heard == b"12" for ear in ears[:-1])


async def test_who_leaves_and_comes_back_in_the_middle_begins_anew() -> None:
    fanout = Fanout(Wire(), FakeClock())
    ears = [Ear() for _ in range(SLICE_WRITES + 5)]
    group = group_of(ears)
    fanout.send(group, b"1")
    await turn()
    group.remove(ears[-1])
    group.add(ears[-1])
    fanout.send(group, b"2")
    for _ in range(5):
        await turn()
    assert ears[-1].heard == b"2"
    assert all(ear.heard == b"12" for ear in ears[:-1])


async def test_publishers_wait_while_much_is_unwritten_and_go_on_after() -> None:
    fanout, publisher = Fanout(Wire(), FakeClock()), Ear()
    group = group_of([Ear() for _ in range(10)])
    fanout.send(group, b"x")
    assert group not in group.delivery_queue.congested
    for _ in range(3):
        fanout.send(group, b"x" * CONGESTED_BYTES)
    assert group in group.delivery_queue.congested
    group.hold_back(publisher)
    group.hold_back(publisher)
    assert not publisher.reading
    for _ in range(50):
        await turn()
    assert publisher.reading
    assert group not in group.delivery_queue.congested


async def test_a_group_that_loses_all_its_subscribers_lets_publishers_go_on() -> None:
    fanout, publisher, ear = Fanout(Wire(), FakeClock()), Ear(), Ear()
    group = group_of([ear])
    fanout.send(group, b"x" * (CONGESTED_BYTES + 1))
    group.hold_back(publisher)
    group.remove(ear)
    for _ in range(5):
        await turn()
    assert publisher.reading
    assert ear.heard == b""


async def test_what_is_said_while_others_are_resumed_is_written_too() -> None:
    """Whoever may go on may publish at once, in the middle of a turn."""
    fanout = Fanout(Wire(), FakeClock())
    ear, other_ear, delivery_queue = Ear(), Ear(), DeliveryQueue(HubCounters())
    group, other = group_of([ear], delivery_queue), group_of([other_ear], delivery_queue)

    class Eager(Ear):
        def resume_reading(self) -> None:
            for _ in range(2):
                fanout.send(other, b"!")
            fanout.send(group, b"?")

    fanout.send(group, b"x" * (CONGESTED_BYTES + 1))
    group.hold_back(Eager())
    for _ in range(10):
        await turn()
    assert other_ear.heard == b"!!"
    assert ear.heard.endswith(b"?")
    fanout.send(group, b".")
    await turn()
    assert ear.heard.endswith(b"?.")


async def test_a_fault_in_one_group_does_not_silence_the_others() -> None:
    wire = Wire()
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    fanout = Fanout(wire, FakeClock())
    bad, good, neighbour = Ear(), Ear(), Ear()
    delivery_queue = DeliveryQueue(HubCounters())
    wire.broken = bad
    for ear, box in ((bad, delivery_queue), (neighbour, delivery_queue), (good, None)):
        fanout.send(group_of([ear], box), b"x")
    for _ in range(4):
        await turn()
    assert good.heard == neighbour.heard == b"x"
    assert len(faults) == 1


def ears_of(count: int, *, slow: int) -> list[Ear]:
    """The slow ones subscribed first."""
    ears = [Ear() for _ in range(count)]
    for ear in ears[:slow]:
        ear.behind = True
    return ears


@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize(("count", "slow", "rests"), [(1000, 32, False), (1000, 900, True)])
def test_a_group_rests_when_most_of_all_its_subscribers_are_behind_not_the_first(
    count: int, slow: int, rests: bool
) -> None:
    group = group_of(ears_of(count, slow=slow))
    group.put(b"x" * RESTING_BYTES)
    assert group.needs_rest() is rests


@pytest.mark.spec("SEC-01")
def test_a_majority_that_never_catches_up_is_waited_for_once() -> None:
    ears = ears_of(31, slow=17)
    group, wire = group_of(ears), Wire()

    def rests() -> int:
        group.put(b"x" * RESTING_BYTES)
        count = 0
        while group.needs_rest():
            count += 1
        while group.waits:
            group.write(wire, SLICE_WRITES)
        return count

    assert [rests(), rests(), rests()] == [PATIENCE_RESTS, 0, 0]
    ears[0].behind = ears[1].behind = False
    assert rests() == 0
    ears[0].behind = ears[1].behind = True
    assert rests() == PATIENCE_RESTS


@pytest.mark.spec("SEC-01")
def test_a_resting_group_writes_what_gathers_beyond_twice_the_congestion() -> None:
    group = group_of(ears_of(10, slow=10))
    group.put(b"x" * CONGESTED_BYTES)
    assert group.needs_rest()
    group.put(b"x" * (CONGESTED_BYTES + 1))
    assert not group.needs_rest()


@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize(("slow", "reading"), [(20, True), (600, False)])
async def test_a_publisher_waits_when_most_of_a_channel_is_behind_not_one_encoding_of_it(
    slow: int, reading: bool
) -> None:
    """Slow readers that all take another encoding than the others are a group of their own."""
    hub = Hub(HubConfiguration("acme"), HubCounters(), 0.0)
    feed = Feed(hub, "news", Mock(), Fanout(Wire(), FakeClock()), FakeClock(), Mock(), RoomFeeds())
    common, rare = Bytes(), Bytes()
    for ear in ears_of(1000, slow=slow):
        ear.encoder = rare if ear.behind else common
        feed.add(Mock(screen=Mock(return_value=None)), ear)
    group = feed.groups[rare]
    while not group.congested:
        group.put(b"x" * RESTING_BYTES)
    publisher = Ear()
    feed.hold_back(publisher)
    assert publisher.reading is reading


async def test_a_single_message_to_few_is_written_in_the_turn_in_which_it_came() -> None:
    clock = FakeClock()
    fanout, ears = Fanout(Wire(), clock), [Ear() for _ in range(LEAST_WRITES)]
    group = group_of(ears)
    assert fanout.begin(clock.monotonic())
    fanout.send(group, b"a")
    fanout.finish()
    assert {ear.heard for ear in ears} == {b"a"}
    assert group.delivery_queue.counters.messages_out == len(ears)
    await turn()
    assert {ear.writes for ear in ears} == {1}


async def test_messages_that_come_close_together_are_packed_together() -> None:
    clock, ear = FakeClock(), Ear()
    fanout, group = Fanout(Wire(), clock), group_of([ear])
    for number, unit in enumerate((b"a", b"b", b"c")):
        assert fanout.begin(clock.monotonic()) is (number == 0)
        fanout.send(group, unit)
        fanout.finish()
    await turn()
    assert (ear.heard, ear.writes) == (b"abc", 2)
    clock.advance(0.001)
    assert fanout.begin(clock.monotonic())


@pytest.mark.parametrize("many", [True, False], ids=["many subscribers", "many bytes"])
async def test_what_is_not_little_waits_for_its_turn(many: bool) -> None:
    clock = FakeClock()
    fanout, ears = Fanout(Wire(), clock), [Ear() for _ in range(LEAST_WRITES + many)]
    unit = b"a" if many else b"a" * SLICE_BYTES
    assert fanout.begin(clock.monotonic())
    fanout.send(group_of(ears), unit)
    fanout.finish()
    assert not any(ear.writes for ear in ears)
    for _ in range(LEAST_WRITES):
        await turn()
    assert all(ear.heard == unit for ear in ears)


async def test_who_joins_while_a_message_is_handled_does_not_get_it() -> None:
    clock, ear, late = FakeClock(), Ear(), Ear()
    fanout, group = Fanout(Wire(), clock), group_of([ear])
    assert fanout.begin(clock.monotonic())
    fanout.send(group, b"a")
    group.add(late)
    fanout.send(group, b"b")
    fanout.finish()
    await turn()
    await turn()
    assert (ear.heard, late.heard) == (b"ab", b"b")
