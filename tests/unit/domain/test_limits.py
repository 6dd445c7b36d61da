"""The token bucket: never more than the rate and one burst, never stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.limits import TokenBucket

REQUESTS = st.lists(st.tuples(st.floats(0, 2), st.integers(1, 5)), max_size=40)


@pytest.mark.spec("LIVE-16")
@given(st.integers(1, 20), st.integers(1, 40), REQUESTS)
def test_over_any_time_no_more_passes_than_rate_and_burst_allow(
    rate: int, burst: int, requests: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    now, passed, largest = 0.0, 0, 0
    for wait, amount in requests:
        now += wait
        if bucket.take(amount, now):
            passed += amount
            largest = max(largest, amount)
        assert passed <= max(burst, rate, largest) + rate * now + 1e-6


@pytest.mark.spec("LIVE-16")
@given(st.integers(1, 20), st.integers(1, 40), st.integers(1, 500))
def test_whoever_waits_long_enough_gets_through_whatever_the_amount(
    rate: int, burst: int, amount: int
) -> None:
    """A message to more subscribers than the quota's second holds must not be stuck for ever."""
    bucket = TokenBucket(rate, burst, 0.0)
    assert bucket.take(amount, 0.0)
    debt_seconds = (amount + max(burst, rate)) / rate
    assert bucket.take(amount, debt_seconds + 1)


@pytest.mark.spec("LIVE-16")
def test_a_large_amount_is_paid_for_afterwards() -> None:
    bucket = TokenBucket(10, 10, 0.0)
    assert bucket.take(100, 0.0)
    assert not bucket.take(1, 8.9)
    assert bucket.take(1, 9.2)


@pytest.mark.spec("LIVE-16")
def test_a_rate_of_zero_allows_everything() -> None:
    bucket = TokenBucket(0, 0, 0.0)
    assert all(bucket.take(10**9, 0.0) for _ in range(10))


@pytest.mark.spec("LIVE-16")
def test_a_clock_that_stands_or_runs_back_gives_nothing_away() -> None:
    bucket = TokenBucket(1, 2, 100.0)
    assert [bucket.take(1, now) for now in (100.0, 100.0, 100.0, 50.0)] == [
        True, True, False, False
    ]  # fmt: skip
