"""What has not come out of libzmq yet is known to the byte, however the bytes come in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import Malformed
from hubbub.protocols.zeromq.zmtp import CURVE_OVERHEAD, FRAME_COST_BYTES, UnsettledFrames

pytestmark = pytest.mark.spec("SEC-01")

GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + bytes(52)
PING = b"\x04\x07\x04PING\x00\x0a"
MORE, LAST = 1, 0


def frame(size: int, flags: int = LAST) -> bytes:
    if size > 255:
        return bytes([flags | 2]) + size.to_bytes(8, "big") + bytes(size)
    return bytes([flags, size]) + bytes(size)


def cost(*sizes: int) -> int:
    return sum(sizes) + FRAME_COST_BYTES * len(sizes)


@given(
    st.lists(st.lists(st.sampled_from([0, 1, 200, 255, 256, 300]), min_size=1, max_size=4)),
    st.lists(st.integers(1, 50), min_size=1),
    st.sampled_from([0, CURVE_OVERHEAD]),
)
def test_what_was_handed_out_is_settled_and_nothing_else(
    messages: list[list[int]], steps: list[int], overhead: int
) -> None:
    data = GREETING
    for sizes in messages:
        data += PING + b"".join(frame(size + overhead, MORE) for size in sizes)
    frames = UnsettledFrames(overhead)
    position = 0
    while position < len(data):
        step = steps[position % len(steps)]
        frames.feed(data[position : position + step])
        position += step
    waiting = [[size + overhead for size in sizes] for sizes in messages]
    for sizes in messages:
        assert frames.held_bytes == sum(cost(*each) for each in waiting)
        frames.settle(sizes)
        waiting.pop(0)
    assert frames.held_bytes == 0


def test_a_frame_under_way_counts_with_what_has_come_of_it() -> None:
    frames = UnsettledFrames()
    frames.feed(GREETING + frame(1000)[:509])
    assert frames.held_bytes == 500


def test_heartbeats_do_not_add_up_but_commands_that_could_be_kept_do() -> None:
    frames = UnsettledFrames()
    frames.feed(GREETING + PING * 1000)
    assert frames.held_bytes == 0
    frames.feed(frame(50, 0x04 | MORE) + frame(5000, 0x04))
    assert frames.held_bytes == cost(50, 5000)


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1\r\n", b"\x01\x00 old", bytes(11)])
def test_what_is_not_zmtp_is_refused(greeting: bytes) -> None:
    with pytest.raises(Malformed):
        UnsettledFrames().feed(greeting + bytes(20))


@pytest.mark.spec("SEC-01")
def test_frames_are_counted_in_slices_of_so_many() -> None:
    """Empty frames take two bytes each: a read of the socket brings 100,000 of them."""
    frames, data = UnsettledFrames(), GREETING + frame(0, MORE) * 1000
    at = frames.feed(data, 0, 100)
    slices = 1
    while at < len(data):
        before = frames.held_bytes
        at = frames.feed(data, at, 100)
        slices += 1
        assert frames.held_bytes - before <= cost(0) * 100
    assert slices > 10
    assert frames.held_bytes == cost(0) * 1000
