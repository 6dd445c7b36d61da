"""Marks in streams that are cut anywhere."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.load.stamp import MARK, ChunkCounter, Template, json_payload

NOW = 1_700_000_000_000_000_000


def _feed(counter: ChunkCounter, pieces: list[bytes]) -> int:
    tail, marks = counter.start(), 0
    for piece in pieces:
        counter.room[: len(piece)] = piece
        marks += counter.take(tail, len(piece))
        tail = counter.tail()
    return marks


@given(st.integers(0, 20), st.lists(st.integers(0, 2_000)), st.integers(43, 100))
def test_every_mark_is_counted_once_wherever_the_stream_is_cut(
    messages: int, cuts: list[int], size: int
) -> None:
    stream = Template(json_payload(size)).fill(NOW) * messages
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(bounds)]

    assert _feed(ChunkCounter(), pieces) == messages


def test_first_and_last_stamp_of_a_piece_are_read() -> None:
    counter, template = ChunkCounter(), Template(json_payload(100))
    _feed(counter, [b"".join(template.fill(NOW + number) for number in range(5))])

    assert counter.first_and_last() == (NOW, NOW + 4)


def test_stamp_that_is_cut_off_is_not_read() -> None:
    counter = ChunkCounter()
    _feed(counter, [MARK + b"17000"])

    assert counter.first_and_last() == (0, 0)


@given(st.integers(43, 1_000))
def test_payload_is_json_of_the_size_asked_for(size: int) -> None:
    payload = Template(json_payload(size)).fill(NOW)

    assert len(payload) == size
    assert json.loads(payload)["m"] == f"{MARK.decode()}{NOW}"


def test_payload_too_small_for_its_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        json_payload(20)


def test_template_keeps_percent_signs_and_fills_the_index() -> None:
    assert Template(b"100% of @index@").fill(NOW, 7) == b"100% of 7"
