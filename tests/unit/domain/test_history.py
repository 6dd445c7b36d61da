"""The live history against a model that forgets nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.history import (
    MESSAGE_BYTES,
    PAGE_BYTES,
    RING_BYTES,
    HeldBytes,
    LiveHistory,
    PageRoom,
    Slice,
)
from hubbub.domain.messages import JSON, Message

START_TIME = 1000


def message(serial: int, published_at: int, size: int) -> Message:
    return Message(
        id=str(serial),
        hub="acme",
        channel="a",
        event="e",
        payload=b"x" * size,
        content_type=JSON,
        published_at=published_at,
        serial=serial,
    )


@st.composite
def histories(draw: st.DrawFn) -> tuple[LiveHistory, list[Message], int]:
    """A history after some messages, all those messages, and the head it began at. The clock may
    be set back between messages."""
    head = draw(st.integers(0, 5))
    max_count, max_bytes = draw(st.integers(1, 6)), draw(st.integers(1, 40))
    held = HeldBytes()
    history = LiveHistory(max_count, max_bytes, head, START_TIME, held)
    steps = st.tuples(st.integers(-3, 5), st.integers(0, 15))
    now, everything = START_TIME, []
    for number, (step, size) in enumerate(draw(st.lists(steps, max_size=12)), 1):
        now = max(now + step, 1)
        everything.append(message(head + number, now, size))
        history.append(everything[-1])
    kept = len(history)
    assert kept <= max_count
    payloads = sum(len(m.payload) for m in everything[len(everything) - kept :])
    assert payloads <= max_bytes
    ring = RING_BYTES if everything else 0
    assert held.bytes == payloads + kept * MESSAGE_BYTES + ring
    return history, everything, head


def kept_of(history: LiveHistory, everything: list[Message]) -> list[Message]:
    return everything[len(everything) - len(history) :] if len(history) else []


def serials(found: Slice) -> list[int]:
    return [each.serial for each in found.messages]


@pytest.mark.spec("LIVE-12", "LIVE-13")
@given(histories(), st.integers(0, 20), st.integers(1, 8))
def test_after_a_serial_comes_what_is_kept_and_completeness_is_true(
    made: tuple[LiveHistory, list[Message], int], serial: int, limit: int
) -> None:
    history, everything, head = made
    kept = kept_of(history, everything)
    expected = [m.serial for m in kept if m.serial > serial]
    found = history.after(serial, limit)
    assert serials(found) == expected[:limit]
    assert found.more == (len(expected) > limit)
    # Complete exactly if nothing after the serial is missing and the serial has been given out.
    missing = [m.serial for m in everything if m.serial > serial and m not in kept]
    known = head <= serial <= head + len(everything)
    assert found.complete == (known and not missing)


@pytest.mark.spec("LIVE-12", "LIVE-13")
@given(histories(), st.none() | st.integers(0, 20), st.integers(1, 8))
def test_before_a_serial_come_the_newest_and_completeness_is_never_claimed_wrongly(
    made: tuple[LiveHistory, list[Message], int], serial: int | None, limit: int
) -> None:
    history, everything, head = made
    kept = kept_of(history, everything)
    expected = [m.serial for m in kept if serial is None or m.serial < serial]
    found = history.before(serial, limit)
    assert serials(found) == expected[-limit:]
    assert found.more == (len(expected) > limit)
    last = head + len(everything)
    wanted = range(1, last + 1) if serial is None else range(1, min(serial - 1, last) + 1)
    if found.complete:
        assert serials(found) == list(wanted)[-limit:]


@pytest.mark.spec("LIVE-12", "LIVE-13")
@given(histories(), st.integers(990, 1040), st.integers(1, 8))
def test_after_a_time_completeness_means_that_nothing_newer_was_dropped(
    made: tuple[LiveHistory, list[Message], int], time: int, limit: int
) -> None:
    history, everything, _ = made
    kept = kept_of(history, everything)
    expected = [m.serial for m in kept if m.published_at > time]
    found = history.after_time(time, limit)
    assert serials(found) == expected[:limit]
    assert found.more == (len(expected) > limit)
    if found.complete:
        assert time >= START_TIME  # what was before the history began is unknown
        assert all(m in kept for m in everything if m.published_at > time)


@pytest.mark.spec("LIVE-12", "LIVE-13")
@given(histories(), st.integers(990, 1040), st.integers(1, 8))
def test_before_a_time_completeness_means_that_no_newer_one_is_missing(
    made: tuple[LiveHistory, list[Message], int], time: int, limit: int
) -> None:
    history, everything, head = made
    kept = kept_of(history, everything)
    expected = [m.serial for m in kept if m.published_at < time]
    found = history.before_time(time, limit)
    assert serials(found) == expected[-limit:]
    assert found.more == (len(expected) > limit)
    if found.complete and head == 0:
        true_answer = [m.serial for m in everything if m.published_at < time][-limit:]
        assert serials(found) == true_answer


@pytest.mark.spec("SEC-01", "LIVE-13")
@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 8), st.integers(1, 60))
def test_a_page_keeps_to_its_bounds_unless_a_single_message_is_larger(
    sizes: list[int], limit: int, most: int
) -> None:
    room = PageRoom(limit, most)
    taken: list[int] = []
    for size in sizes:
        if not room.take(size):
            assert len(taken) == limit or sum(taken) + size > most
            break
        taken.append(size)
    assert len(taken) <= limit
    assert sum(taken) <= most or len(taken) == 1
    assert bool(taken) == bool(sizes)


@pytest.mark.spec("SEC-01", "LIVE-13")
def test_pages_of_large_messages_are_short_complete_and_say_that_there_is_more() -> None:
    third = PAGE_BYTES // 3
    history = LiveHistory(100, 10 * PAGE_BYTES, head=0, now=START_TIME)
    for serial in range(1, 8):
        history.append(message(serial, START_TIME + serial, third))
    pages = {
        (1, 2, 3): [history.after(0, 100), history.after_time(START_TIME, 100)],
        (5, 6, 7): [history.before(None, 100), history.before_time(START_TIME + 8, 100)],
    }
    for expected, found in pages.items():
        for page in found:
            assert (tuple(serials(page)), page.complete, page.more) == (expected, True, True)
    assert serials(history.after(6, 100)) == [7]
    assert not history.after(6, 100).more
