"""Patterns and decisions, against simpler descriptions of the same thing."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidToken
from hubbub.domain.patterns import matches, matches_any
from hubbub.domain.permissions import (
    ANONYMOUS,
    Grant,
    Identity,
    Level,
    may_publish,
    may_subscribe,
)
from hubbub.domain.rules import Rules

PATTERNS = st.text(alphabet="ab:*#", max_size=12)
NAMES = st.text(alphabet="ab:", max_size=12)


def as_regex(pattern: str) -> re.Pattern[str]:
    parts = {"*": ".*", "#": "[^:]+"}
    return re.compile("".join(parts.get(each, re.escape(each)) for each in pattern), re.DOTALL)


@pytest.mark.spec("LIVE-07")
@given(PATTERNS, NAMES)
@example("*", "")
@example("#", "")
@example("#:#", "a:b")
@example("a:*:b", "a:b")
def test_a_pattern_matches_as_its_regular_expression_does(pattern: str, name: str) -> None:
    assert matches(pattern, name) == (as_regex(pattern).fullmatch(name) is not None)


@pytest.mark.spec("LIVE-07")
@given(st.text(max_size=20).filter(lambda text: not set(text) & set("*#")), st.text(max_size=20))
def test_without_wildcards_only_the_very_name_matches(pattern: str, name: str) -> None:
    """Not another case, not another form of the same letters, not a regular expression."""
    assert matches(pattern, pattern)
    assert matches(pattern, name) == (pattern == name)


@pytest.mark.spec("LIVE-07")
@given(NAMES, NAMES)
def test_one_segment_never_reaches_over_a_separator(left: str, right: str) -> None:
    assert not matches("room:#", f"room:{left}:{right}")


@pytest.mark.spec("LIVE-07")
@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("room:*", "room:1", True),
        ("room:*", "room:", True),
        ("room:*", "room", False),
        ("room:*", "rooms:1", False),
        ("room:*", "Room:1", False),
        ("room:#", "room:1", True),
        ("room:#", "room:", False),
        ("room:#:in", "room:1:in", True),
        ("room:#:in", "room:1:2:in", False),
        ("*", "anything:at:all", True),
        ("#", "a:b", False),
        ("cart.*", "cart.add", True),
        (".", "a", False),
        ("room:[1]", "room:1", False),
        ("é", "e\u0301", False),
        ("", "", True),
    ],
)
def test_examples_of_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.spec("LIVE-07", "OPS-03", "SEC-01")
@pytest.mark.parametrize(
    ("piece", "name"),
    [("*", "a"), ("*a", "a"), ("*#", "a"), ("#", "a"), ("*a#", "ab"), ("a", "b"), ("*:", ":")],
)
def test_matching_takes_a_constant_number_of_steps_for_each_character(
    piece: str, name: str
) -> None:
    """Whatever the patterns are: what makes regular expressions explode stays cheap here. Twice
    the characters take twice the steps, and five hundred characters less than 20,000."""
    short = _steps((piece * (60 // len(piece)),) * 2, name * (120 // len(name)))
    long = _steps((piece * (120 // len(piece)),) * 2, name * (240 // len(name)))
    assert long <= 2 * short
    assert long < 20_000


def _steps(patterns: tuple[str, ...], name: str) -> int:
    """The operations of the interpreter that a match takes."""
    count = 0

    def trace(frame: FrameType, _event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        matches_any(patterns, name)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.spec("LIVE-07", "SEC-01")
@given(st.lists(PATTERNS, max_size=4).map(tuple), NAMES)
@example((), "")
@example(("", "a"), "")
@example(("a", "b"), "ab")
@example(("a#", "*:b"), "a:b")
def test_several_patterns_match_where_one_of_them_does(
    patterns: tuple[str, ...], name: str
) -> None:
    expected = any(as_regex(pattern).fullmatch(name) for pattern in patterns)
    assert matches_any(patterns, name) == expected


@pytest.mark.spec("SEC-01", "SEC-02")
@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"grants": (Grant("a", True),) * 101}, "101 patterns; at most 100"),
        ({"grants": (Grant("*" * 256, True),)}, "256 characters; at most 255"),
        ({"grants": (Grant("a" * 255, True),) * 33}, "8415 characters together; at most 8192"),
        ({"rpcs": ("cart.*",) * 101}, "101 patterns; at most 100"),
        ({"rpcs": ("*" * 256,)}, "256 characters; at most 255"),
        ({"user_id": ""}, "1 to 253 characters"),
        ({"user_id": "a" * 254}, "1 to 253 characters"),
        ({"user_id": "ann\r\nSet-Cookie: a=b"}, "without control characters"),
        ({"user_id": "ann\x9b31m"}, "without control characters"),
        ({"token_id": "t" * 254}, "1 to 253 characters"),
        ({"token_id": "\x00"}, "without control characters"),
    ],
)
def test_an_identity_without_bounds_does_not_come_into_being(
    claims: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidToken, match=message):
        Identity(**claims)


USERS = st.sampled_from(["ann", "bob", "a:b", "*"])
IDENTITIES = st.one_of(
    st.just(ANONYMOUS),
    st.builds(Identity, user_id=USERS, grants=st.lists(
        st.builds(Grant, PATTERNS, st.booleans(), st.booleans()), max_size=2).map(tuple)),
)  # fmt: skip
RULES = st.builds(
    Rules, public=st.booleans(), client_publish=st.booleans(), allow_anonymous=st.booleans()
)
CHANNELS = st.one_of(NAMES, USERS.map(lambda user: f"u:{user}"))


@pytest.mark.spec("LIVE-07", "OPS-02")
@given(CHANNELS, RULES, st.booleans())
def test_nobody_anonymous_gets_in_unless_the_rules_say_public_and_anonymous(
    channel: str, rules: Rules, user_channels: bool
) -> None:
    if may_subscribe(ANONYMOUS, channel, rules, user_channels):
        assert rules.public
        assert rules.allow_anonymous
    if may_publish(ANONYMOUS, channel, rules, user_channels):
        assert rules.public
        assert rules.allow_anonymous
        assert rules.client_publish


@pytest.mark.spec("LIVE-07")
@given(IDENTITIES, CHANNELS, RULES, st.booleans())
def test_a_client_gets_only_what_rules_grants_or_its_own_channel_give(
    identity: Identity, channel: str, rules: Rules, user_channels: bool
) -> None:
    own = user_channels and identity.user_id is not None and channel == f"u:{identity.user_id}"
    private = user_channels and channel.startswith("u:")
    opened = (
        rules.public and (rules.allow_anonymous or identity.user_id is not None) and not private
    )

    def granted(action: str) -> bool:
        return any(
            getattr(grant, action) and as_regex(grant.channel).fullmatch(channel)
            for grant in identity.grants
        )

    assert may_subscribe(identity, channel, rules, user_channels) == (
        own or opened or granted("subscribe")
    )
    assert may_publish(identity, channel, rules, user_channels) == (
        own or (opened and rules.client_publish) or granted("publish")
    )


@pytest.mark.spec("LIVE-07")
@given(CHANNELS, RULES)
def test_services_and_administrators_reach_every_channel_of_their_hub(
    channel: str, rules: Rules
) -> None:
    for level in (Level.SERVICE, Level.ADMIN):
        identity = Identity(user_id="svc", level=level)
        assert may_subscribe(identity, channel, rules, True)
        assert may_publish(identity, channel, rules, True)


@pytest.mark.spec("ADMIN-03")
@pytest.mark.parametrize("rules", [Rules(public=True, client_publish=True), Rules()])
def test_no_channel_is_open_to_a_viewer(rules: Rules) -> None:
    everything = (Grant("*", publish=True, subscribe=True),)
    viewer = Identity(user_id="vera", level=Level.VIEWER, grants=everything)
    assert not may_subscribe(viewer, "news", rules, user_channels=True)
    assert not may_publish(viewer, "news", rules, user_channels=True)
    assert not may_subscribe(viewer, "u:vera", rules, user_channels=True)
    assert viewer.authenticated
    assert not viewer.trusted
