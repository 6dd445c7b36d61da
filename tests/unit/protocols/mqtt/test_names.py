"""Topics, filters, and what they are in the hub."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.domain.errors import InvalidName, TooLarge
from hubbub.domain.patterns import PatternSet, is_pattern
from hubbub.protocols.mqtt.names import (
    channel_of,
    check_filter,
    check_topic,
    filter_problem,
    matches,
    topic_of,
)

pytestmark = pytest.mark.spec("MQTT-01")

_LEVELS = ("", "a", "b", "$x", "a:b")
_WANTED = (*_LEVELS, "+")


def reference(wanted: list[str], levels: list[str]) -> bool:
    """The rules of the specification (4.7), written down once more."""
    if levels[0].startswith("$") and wanted[0] in ("+", "#"):
        return False
    if wanted == ["#"]:
        return True
    if not wanted or not levels:
        return not levels and wanted in ([], ["#"])
    head = wanted[0] in ("+", levels[0])
    return head and _rest(wanted[1:], levels[1:])


def _rest(wanted: list[str], levels: list[str]) -> bool:
    if wanted[:1] == ["#"]:
        return True
    if not wanted or not levels:
        return not wanted and not levels
    return wanted[0] in ("+", levels[0]) and _rest(wanted[1:], levels[1:])


def _filters() -> list[str]:
    found = ["#"]
    for count in (1, 2, 3):
        for levels in itertools.product(_WANTED, repeat=count):
            found += ["/".join(levels), "/".join((*levels, "#"))]
    return [each for each in found if each]


def _topics() -> list[str]:
    found = itertools.chain.from_iterable(
        itertools.product(_LEVELS, repeat=count) for count in (1, 2, 3)
    )
    return ["/".join(levels) for levels in found if "/".join(levels)]


def test_filters_match_as_the_specification_says() -> None:
    pairs = list(itertools.product(_filters(), _topics()))
    assert len(pairs) > 5000
    for topic_filter, topic in pairs:
        expected = reference(topic_filter.split("/"), topic.split("/"))
        assert matches(topic_filter, topic) == expected, (topic_filter, topic)


def test_patterns_of_a_filter_match_its_channels_and_at_most_names_with_a_dollar_besides() -> None:
    """The connection leaves the latter out."""
    for topic_filter in _filters():
        names = check_filter(topic_filter)
        patterns = PatternSet(names)
        for topic in _topics():
            found = patterns.matches(channel_of(topic))
            if not topic.startswith("$"):
                assert found == matches(topic_filter, topic), (topic_filter, topic)
            elif matches(topic_filter, topic):
                assert found, (topic_filter, topic)


@given(st.text())
def test_a_topic_is_a_channel_and_back(topic: str) -> None:
    assert topic_of(channel_of(topic)) == topic
    assert channel_of(topic).count(":") == topic.count("/")


def test_a_filter_without_wildcards_is_a_channel_and_one_with_a_hash_is_two_names() -> None:
    assert check_filter("dev/00:1f") == ("dev:00/1f",)
    assert check_filter("plant/#") == ("plant", "plant:*")
    assert check_filter("#") == ("*",)
    (pattern,) = check_filter("plant/+/temp")
    assert is_pattern(pattern)
    assert PatternSet((pattern,)).matches("plant:7:temp")
    assert PatternSet((pattern,)).matches("plant::temp")
    assert not PatternSet((pattern,)).matches("plant:7:8:temp")


@pytest.mark.parametrize("topic", ["a*", "$SYS/x", "x" * 256])
def test_topics_that_no_client_publishes_to(topic: str) -> None:
    with pytest.raises(InvalidName):
        check_topic(topic)


def test_filters_are_bounded() -> None:
    with pytest.raises(TooLarge):
        check_filter("/".join("a" * 65))
    with pytest.raises(InvalidName):
        check_filter("x" * 256)
    with pytest.raises(InvalidName):
        check_filter("a*/#")
    assert filter_problem("a/#/b")
    assert filter_problem("a#")
    assert filter_problem("+a")
    assert filter_problem("+/a/#") is None


def test_a_grant_covers_the_pattern_of_a_filter() -> None:
    (pattern,) = check_filter("plant/+/temp")
    assert PatternSet(("plant:#:temp",)).matches(pattern)
    assert PatternSet(("plant:*",)).matches(pattern)
    assert not PatternSet(("plant:7:temp",)).matches(pattern)
