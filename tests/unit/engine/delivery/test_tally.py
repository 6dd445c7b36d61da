"""Tallies of deliveries: as exact as counting each one."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import FakeClock
from hubbub.domain.journal import DELIVERED, JournalEvent, PayloadRule, bucket_of, least_in
from hubbub.domain.messages import JSON, Message
from hubbub.engine.delivery.tally import Deliveries, Noted, Tally

pytestmark = pytest.mark.spec("PIPE-01")

NOW = 1_790_000_000_000_000


class Notebook:
    """A journal that remembers."""

    enabled = True

    def __init__(self) -> None:
        self.events: list[JournalEvent] = []
        self.flush: Callable[[bool], None] = lambda everything: None

    def record(self, event: JournalEvent) -> None:
        self.events.append(event)

    def published(self, message: Message, epoch: str, rule: PayloadRule) -> None:
        raise AssertionError("not told here")

    def add_source(self, flush: Callable[[bool], None]) -> None:
        self.flush = flush


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def deliveries(notebook: Notebook, clock: FakeClock) -> Deliveries:
    return Deliveries(notebook, clock)


def message(serial: int, taken_at: int, size: int = 10) -> Message:
    return Message(
        f"m{serial}", "acme", "news", "e", b"x" * size, JSON, taken_at // 1000, serial,
        taken_at=taken_at,
    )  # fmt: skip


def noted(tally: Tally, *messages: Message, epoch: str = "e1") -> Noted:
    found = Noted(epoch)
    for each in messages:
        tally.note(found, each)
    return found


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=60), st.integers(0, 2_000_000))
def test_latencies_are_those_of_each_message(ages: list[int], wait: int) -> None:
    found = Noted("e")
    found.times = [NOW - age for age in ages]
    now = NOW + wait
    least, greatest, total, squares, buckets = found.latencies(now)
    latencies = [age + wait for age in ages]
    assert (least, greatest, total) == (min(latencies), max(latencies), sum(latencies))
    assert squares == sum(latency * latency for latency in latencies)
    assert buckets == Counter(map(bucket_of, latencies))
    assert found.latencies(now) == (least, greatest, total, squares, buckets)


@given(st.integers(0, 10**12))
def test_a_bucket_holds_what_the_documentation_says(latency: int) -> None:
    bucket = bucket_of(latency)
    if latency >= 1:
        assert 2 ** (bucket / 8) <= latency * (1 + 1e-12)
        assert latency < 2 ** ((bucket + 1) / 8) * (1 + 1e-12)
    else:
        assert bucket == 0
    assert least_in(bucket) <= latency
    assert least_in(bucket) == (math.ceil(2 ** (bucket / 8)) if bucket else 0)


def test_one_event_tells_all_of_a_tick(
    deliveries: Deliveries, notebook: Notebook, clock: FakeClock
) -> None:
    now = deliveries.now()
    tally = deliveries.tally("acme", "news", "websocket")
    first = noted(tally, message(1, now - 1000), message(2, now - 500))
    tally.written(first, 100)
    tally.written(first, 28)  # the second slice of the same buffer
    tally.written(noted(tally, message(3, now - 250)), 128)
    notebook.flush(False)
    (event,) = notebook.events
    assert event.kind == DELIVERED
    assert (event.hub, event.channel, event.technology) == ("acme", "news", "websocket")
    assert (event.epoch, event.first_serial, event.serial) == ("e1", 1, 3)
    assert (event.messages, event.count, event.size) == (3, 384, 3840)
    assert (event.latency_min, event.latency_max) == (250, 1000)
    assert event.latency_sum == 128 * 1750
    assert event.latency_squares == 128 * (1000**2 + 500**2 + 250**2)
    assert event.latency_buckets == {bucket_of(age): 128 for age in (1000, 500, 250)}
    notebook.flush(False)
    assert len(notebook.events) == 1, "nothing new, nothing to tell"


@given(
    st.lists(st.integers(0, 300_000), min_size=1, max_size=20),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 200)), min_size=1, max_size=60),
)
def test_many_slices_of_a_buffer_are_counted_and_timed_to_a_sixteenth(
    ages: list[int], slices: list[tuple[int, int]]
) -> None:
    notebook, clock = Notebook(), FakeClock()
    deliveries = Deliveries(notebook, clock)
    tally = deliveries.tally("acme", "news", "websocket")
    begun = deliveries.now()
    buffer = noted(tally, *(message(number + 1, begun - age) for number, age in enumerate(ages)))
    latencies: Counter[int] = Counter()
    for wait, targets in slices:
        clock.advance(wait / 1e6)
        tally.written(buffer, targets)
        for age in ages:
            latencies[deliveries.now() - begun + age] += targets
    notebook.flush(True)
    (event,) = notebook.events
    assert (event.messages, event.count) == (len(ages), latencies.total())
    assert event.size == 10 * latencies.total()
    assert sum((event.latency_buckets or {}).values()) == latencies.total()
    exact = sum(latency * count for latency, count in latencies.items())
    assert event.latency_sum == pytest.approx(exact, rel=1 / 16, abs=latencies.total())
    assert event.latency_min == pytest.approx(min(latencies), rel=1 / 16, abs=1)
    assert event.latency_max == pytest.approx(max(latencies), rel=1 / 16, abs=1)


def test_a_message_in_two_encodings_is_one_message(
    deliveries: Deliveries, notebook: Notebook
) -> None:
    tally = deliveries.tally("acme", "news", "websocket")
    said = message(1, deliveries.now())
    for _ in range(2):  # JSON and protobuf
        tally.written(noted(tally, said), 10)
    notebook.flush(True)
    (event,) = notebook.events
    assert (event.messages, event.count) == (1, 20)


def test_a_new_epoch_begins_a_new_event(deliveries: Deliveries, notebook: Notebook) -> None:
    tally = deliveries.tally("acme", "news", "sse")
    tally.written(noted(tally, message(7, deliveries.now()), epoch="old"), 1)
    tally.written(noted(tally, message(1, deliveries.now()), epoch="new"), 1)
    notebook.flush(True)
    assert [(event.epoch, event.serial) for event in notebook.events] == [("old", 7), ("new", 1)]


def test_a_clock_that_was_set_back_shows_no_negative_latency(
    deliveries: Deliveries, notebook: Notebook
) -> None:
    tally = deliveries.tally("acme", "news", "sse")
    ahead = deliveries.now() + 5_000_000
    tally.written(noted(tally, message(1, ahead), message(2, ahead + 40)), 3)
    notebook.flush(True)
    (event,) = notebook.events
    assert event.latency_min == 0
    assert event.latency_buckets is not None
    assert sum(event.latency_buckets.values()) == 6


async def test_many_tallies_are_told_in_portions(
    deliveries: Deliveries, notebook: Notebook
) -> None:
    for number in range(1200):
        tally = deliveries.tally("acme", f"c{number}", "sse")
        tally.written(noted(tally, message(1, deliveries.now())), 1)
    notebook.flush(False)
    assert len(notebook.events) == 500
    while deliveries.active:
        await asyncio.sleep(0)
    assert len(notebook.events) == 1200
