"""Shares of a quota: all nodes together keep to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.quota_shares import IDLE_PART, count_limit, rate_share

pytestmark = pytest.mark.spec("SEC-05")


def without(figures: list[int], index: int) -> list[int]:
    return figures[:index] + figures[index + 1 :]


@given(st.integers(1, 10_000), st.lists(st.integers(0, 2000), min_size=1, max_size=8))
def test_limits_of_all_nodes_add_up_to_the_quota(quota: int, used: list[int]) -> None:
    limits = [
        count_limit(quota, own, without(used, index), index) for index, own in enumerate(used)
    ]
    assert sum(limits) == max(quota, sum(used))
    assert all(limit >= own for limit, own in zip(limits, used, strict=True))


@given(st.integers(2, 1000), st.integers(1, 8))
def test_a_node_that_is_alone_in_using_a_quota_gets_all_of_it(quota: int, idle: int) -> None:
    used = 0
    for turn in range(40 * idle):
        used = count_limit(quota, used, [0] * idle, turn % (idle + 1))
    assert used == quota


@given(st.integers(1, 10_000), st.lists(st.integers(0, 2000), min_size=1, max_size=8))
def test_rates_of_all_nodes_add_up_to_the_quota(quota: int, asked: list[int]) -> None:
    shares = [
        rate_share(quota, own, [float(each) for each in without(asked, index)])
        for index, own in enumerate(asked)
    ]
    assert sum(shares) == pytest.approx(quota)
    assert min(shares) >= quota * IDLE_PART / len(asked) * 0.999


@given(st.data(), st.integers(0, 60), st.integers(1, 4))
def test_nodes_never_have_more_than_the_quota_together(
    data: st.DataObject, quota: int, nodes: int
) -> None:
    """They report in turns or all at once, and take and give back as they like."""
    used, limits = [0] * nodes, [0] * nodes
    for turn in range(data.draw(st.integers(1, 20))):
        together = data.draw(st.booleans())
        heard = list(limits)
        for index in range(nodes):
            others = without(heard if together else limits, index)
            limits[index] = count_limit(quota, used[index], others, (index + turn) % nodes)
        used = [data.draw(st.integers(0, limit)) for limit in limits]
        assert sum(limits) <= quota
