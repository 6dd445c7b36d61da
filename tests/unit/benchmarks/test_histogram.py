"""Latencies kept as counts."""

import math

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.load.histogram import Histogram

values = st.lists(st.integers(0, 10**11), min_size=1)


def _filled(recorded: list[int]) -> Histogram:
    histogram = Histogram()
    for value in recorded:
        histogram.record(value)
    return histogram


@given(values, st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_percentile_is_within_two_percent_of_the_exact_one(
    recorded: list[int], share: float
) -> None:
    exact = sorted(recorded)[math.ceil(share * len(recorded)) - 1]

    assert abs(_filled(recorded).percentile(share) - exact) <= exact * 0.02


@given(values, values)
def test_merged_histograms_equal_one_that_saw_everything(one: list[int], two: list[int]) -> None:
    merged, whole = _filled(one), _filled(one + two)
    merged.merge(_filled(two))

    assert merged.total == whole.total
    assert merged.maximum == whole.maximum
    assert merged.percentile(0.9) == whole.percentile(0.9)


def test_nothing_recorded_has_no_percentile() -> None:
    assert Histogram().percentile(0.99) == 0


def test_a_value_can_stand_for_many() -> None:
    histogram = Histogram()
    histogram.record(10, times=99)
    histogram.record(1_000)

    assert histogram.percentile(0.99) == 10
    assert histogram.total == 100


def test_clocks_that_disagree_count_as_zero() -> None:
    histogram = Histogram()
    histogram.record(-5)

    assert histogram.percentile(0.5) == 0
