"""Which of a channel's oldest messages may go, whatever the rules and the subscriptions."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.retention import StoredRange, first_to_keep
from hubbub.domain.rules import Rules

pytestmark = pytest.mark.spec("ONCE-03")

SERIALS = st.integers(0, 30)
RULES = st.builds(
    Rules,
    store=st.just(True),
    max_stored_messages=st.integers(0, 30),
    reclaim_acknowledged=st.booleans(),
    drop_unread=st.booleans(),
)


@st.composite
def holdings(draw: st.DrawFn) -> StoredRange:
    first = draw(st.integers(1, 20))
    return StoredRange(
        first=first,
        head=draw(st.integers(first - 1, 30)),
        by_age=draw(SERIALS),
        by_bytes=draw(SERIALS),
        floor=draw(st.none() | SERIALS),
        exported=draw(st.none() | SERIALS),
    )


@given(RULES, holdings())
def test_nothing_that_somebody_still_has_to_get_goes_unless_the_rules_say_so(
    rules: Rules, held: StoredRange
) -> None:
    first = first_to_keep(rules, held)
    assert held.first <= first <= held.head + 1
    gone = range(held.first, first)
    if held.exported is not None:
        assert all(serial <= held.exported for serial in gone)
    if held.floor is not None and not rules.drop_unread:
        assert all(serial <= held.floor for serial in gone)


@given(RULES, holdings())
def test_what_is_kept_is_within_the_limits_or_somebody_needs_it(
    rules: Rules, held: StoredRange
) -> None:
    first = first_to_keep(rules, held)
    by_count = held.head - rules.max_stored_messages + 1 if rules.max_stored_messages else 0
    beyond = max(held.by_age, held.by_bytes, by_count)
    for serial in range(first, held.head + 1):
        not_exported = held.exported is not None and serial > held.exported
        unread = held.floor is not None and serial > held.floor
        reclaimable = rules.reclaim_acknowledged and held.floor is not None and not unread
        if not not_exported:
            assert not reclaimable
            assert serial >= beyond or (unread and not rules.drop_unread)
        else:
            break


@pytest.mark.parametrize(
    ("rules", "held", "first"),
    [
        (Rules(), StoredRange(1, 9), 1),
        (Rules(max_stored_messages=3), StoredRange(1, 9), 7),
        (Rules(max_stored_messages=20), StoredRange(1, 9), 1),
        (Rules(max_stored_messages=3), StoredRange(1, 9, floor=2), 3),
        (Rules(max_stored_messages=3, drop_unread=True), StoredRange(1, 9, floor=2), 7),
        (Rules(), StoredRange(2, 9, by_age=5, by_bytes=4), 5),
        (Rules(reclaim_acknowledged=True), StoredRange(1, 9), 1),
        (Rules(reclaim_acknowledged=True), StoredRange(1, 9, floor=4), 5),
        (Rules(reclaim_acknowledged=True), StoredRange(1, 9, floor=99), 10),
        (Rules(reclaim_acknowledged=True), StoredRange(1, 9, floor=4, exported=2), 3),
        (Rules(max_stored_messages=3, drop_unread=True), StoredRange(1, 9, exported=0), 1),
    ],
)
def test_examples(rules: Rules, held: StoredRange, first: int) -> None:
    assert first_to_keep(rules, held) == first


def test_rules_without_a_limit_or_without_storing_reclaim_nothing() -> None:
    assert not Rules(store=True, drop_unread=True).reclaims
    assert not Rules(max_age_seconds=1).reclaims
    for limit in ("max_age_seconds", "max_stored_messages", "max_stored_bytes"):
        assert msgspec.structs.replace(Rules(store=True), **{limit: 1}).reclaims
    assert Rules(store=True, reclaim_acknowledged=True).reclaims
