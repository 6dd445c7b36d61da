"""Patterns and decisions, against simpler descriptions of the same thing."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub.domain.permissions import (
    ANONYMOUS,
    Grant,
    Identity,
    Level,
    matches,
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


@pytest.mark.spec("LIVE-07", "OPS-03")
def test_no_pattern_takes_long() -> None:
    """What makes regular expressions explode stays cheap here."""
    started = time.perf_counter()
    assert not matches("*a" * 120 + "b", "a" * 255)
    assert not matches("*#" * 120 + ":", "a" * 255)
    assert time.perf_counter() - started < 1


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
