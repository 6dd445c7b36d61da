"""Patterns that are subscribed to: what they may be, and what permission covers them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidName
from hubbub.domain.patterns import (
    PatternSet,
    check_pattern,
    covers,
    is_pattern,
    literal_start,
    matches,
)
from hubbub.domain.permissions import (
    ANONYMOUS,
    Grant,
    Identity,
    Level,
    Reader,
    may_read_pattern,
)
from hubbub.domain.rules import HubConfiguration, HubSettings, Rules

pytestmark = pytest.mark.spec("LIVE-19")

PATTERNS = st.text(alphabet="ab:*#", max_size=8)
NAMES = st.text(alphabet="ab:", max_size=8)


@given(PATTERNS, PATTERNS, NAMES)
def test_what_a_covered_pattern_matches_the_covering_one_matches(
    outer: str, inner: str, name: str
) -> None:
    if covers(outer, inner) and matches(inner, name):
        assert matches(outer, name)


@given(PATTERNS)
def test_a_pattern_covers_itself_and_everything_covers_it(pattern: str) -> None:
    assert covers(pattern, pattern)
    assert covers("*", pattern)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("room:*", "room:#", True),
        ("room:*", "room:a*", True),
        ("room:*", "room:#:b", True),
        ("room:#", "room:*", False),
        ("room:#", "room:a#", True),
        ("room:a*", "room:*", False),
        ("room:*", "*", False),
        ("room:*", "roo*", False),
        ("#", "a:b", False),
        ("a:b", "a:#", False),
    ],
)
def test_examples_of_what_covers_what(outer: str, inner: str, expected: bool) -> None:
    assert covers(outer, inner) is expected


@given(st.lists(PATTERNS, max_size=4), NAMES)
def test_a_set_that_is_compiled_once_matches_where_one_of_its_patterns_does(
    patterns: list[str], name: str
) -> None:
    assert PatternSet(patterns).matches(name) == any(matches(each, name) for each in patterns)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a" * 255 + "*", "the pattern 'aaaaaaaaaaaaaaaaaaaa'… has 256 characters; at most 255"),
        ("room:\n*", "contains '\\n'"),
        ("room:\ud800*", "control characters"),
    ],
)
def test_a_pattern_that_no_channel_can_match_is_refused_by_name(pattern: str, problem: str) -> None:
    with pytest.raises(InvalidName, match=re.escape(problem)):
        check_pattern(pattern)


def test_a_pattern_is_a_name_with_a_wildcard() -> None:
    assert is_pattern("room:*")
    assert is_pattern("#")
    assert not is_pattern("room:1")
    assert [literal_start(each) for each in ("room:*", "*", "a#b*", "a")] == ["room:", "", "a", "a"]
    assert check_pattern("room:*:#") == "room:*:#"


OPEN = Rules(public=True, allow_anonymous=True)
MEMBERS = Rules(public=True)
HUB = HubConfiguration(
    "acme",
    HubSettings(allow_anonymous=True, default_rules="closed"),
    {"open": OPEN, "members": MEMBERS, "closed": Rules()},
    {"room": "open", "club": "members"},
)
ANN = Identity("ann", grants=(Grant("room:*", publish=True), Grant("team:#", subscribe=True)))


@pytest.mark.parametrize(
    ("identity", "pattern", "expected"),
    [
        (ANONYMOUS, "room:*", True),
        (ANONYMOUS, "room:a#", True),
        (ANONYMOUS, "club:*", False),
        (ANONYMOUS, "*", False),
        (ANONYMOUS, "roo*", False),
        (Identity("bob"), "club:*", True),
        (Identity("bob"), "team:*", False),
        (ANN, "team:#", True),
        (ANN, "team:a#", True),
        (ANN, "team:*", False),
        (Identity("svc", Level.SERVICE), "*", True),
    ],
)
def test_a_pattern_needs_a_grant_that_covers_it_or_rules_that_open_what_it_names(
    identity: Identity, pattern: str, expected: bool
) -> None:
    assert may_read_pattern(Reader(identity), pattern, HUB) is expected


def test_nobody_subscribes_to_all_user_channels_by_the_hub_s_rules() -> None:
    hub = HubConfiguration(
        "acme",
        HubSettings(allow_anonymous=True, user_channel=True, default_rules="open"),
        {"open": OPEN},
    )
    assert may_read_pattern(Reader(Identity("bob")), "*", hub)  # each channel is asked for
    assert not may_read_pattern(Reader(Identity("bob")), "u:*", hub)


def test_a_hub_without_anonymous_access_has_no_patterns_for_them() -> None:
    hub = HubConfiguration("acme", HubSettings(default_rules="open"), {"open": OPEN})
    assert not may_read_pattern(Reader(ANONYMOUS), "room:*", hub)
    assert may_read_pattern(Reader(Identity("bob")), "room:*", hub)
