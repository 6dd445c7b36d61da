"""The token bucket: never more than the rate and one burst, never stuck."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.limits import KeyedBuckets, TokenBucket, network_of

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


@pytest.mark.spec("SEC-01")
def test_a_refused_caller_that_waits_as_told_passes() -> None:
    bucket = TokenBucket(2, 4, 0.0)
    assert bucket.take(4, 0.0)
    assert not bucket.take(3, 0.5)
    passes = 0.5 + bucket.seconds_until(3)
    assert not bucket.take(3, passes - 0.1)
    assert bucket.take(3, passes + 1e-9)


@pytest.mark.spec("SEC-01")
@given(st.lists(st.integers(0, 40), max_size=300))
def test_keyed_buckets_never_hold_more_keys_than_they_may(keys: list[int]) -> None:
    table = KeyedBuckets(1, 1, 10)
    for key in keys:
        table.take(key, 1, 0.0)
        assert len(table) <= 10


@pytest.mark.spec("SEC-01")
def test_a_key_in_use_is_not_forgotten_however_many_others_come() -> None:
    table = KeyedBuckets(1, 3, 10)
    waits = []
    for stranger in range(100):
        waits.append(table.take("busy", 1, 0.0))
        table.take(stranger, 1, 0.0)
    assert waits[:3] == [0.0] * 3
    assert all(waits[3:])


@pytest.mark.spec("SEC-01")
@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("[2001:db8::1]", "2001:db8::/64"),
        ("not an address", "not an address"),
    ],
)
def test_ipv6_addresses_are_counted_by_their_network(address: str, network: str) -> None:
    assert network_of(address) == network
