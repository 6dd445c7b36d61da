"""Topics and channels, topic filters and patterns.

A topic is a channel with `/` and `:` swapped, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub.domain.errors import InvalidName, TooLarge
from hubbub.domain.names import MAX_NAME_CHARS
from hubbub.domain.patterns import LEVEL

MAX_LEVELS = 64
SHARED = "$share/"
_SWAPPED = str.maketrans("/:", ":/")


def channel_of(topic: str) -> str:
    return topic.translate(_SWAPPED)


topic_of = channel_of
"""The translation is its own inverse."""


def is_visible(channel: str) -> bool:
    """Whether the channel has a topic: `+` is a wildcard there."""
    return "+" not in channel


def check_topic(topic: str) -> str:
    """The channel of a topic to publish to. Raises `InvalidName`."""
    if len(topic) > MAX_NAME_CHARS:
        raise InvalidName(
            f"the topic {topic[:20]!r}… has {len(topic)} characters; give 1 to {MAX_NAME_CHARS}"
        )
    if "*" in topic:
        raise InvalidName(f"the topic {topic!r} has a '*', which no channel has")
    if topic.startswith("$"):
        raise InvalidName(f"the topic {topic!r} begins with '$': clients do not publish there")
    return channel_of(topic)


def filter_problem(topic_filter: str) -> str | None:
    """Why the text is no topic filter; None if it is one."""
    if not topic_filter:
        return "a topic filter is empty"
    levels = topic_filter.split("/")
    for number, level in enumerate(levels, 1):
        if "#" in level and (level != "#" or number < len(levels)):
            return f"the topic filter {topic_filter[:40]!r} has a '#' that is not its last level"
        if "+" in level and level != "+":
            return f"the topic filter {topic_filter[:40]!r} has a '+' beside other characters"
    return None


def check_filter(topic_filter: str) -> tuple[str, ...]:
    """The channels and patterns that the filter stands for. Raises `InvalidName`, `TooLarge`."""
    if topic_filter.count("/") >= MAX_LEVELS:
        raise TooLarge(f"a topic filter has at most {MAX_LEVELS} levels")
    if len(topic_filter) > MAX_NAME_CHARS:
        raise InvalidName(
            f"the topic filter {topic_filter[:20]!r}… has {len(topic_filter)} characters; give 1 "
            f"to {MAX_NAME_CHARS}"
        )
    if "*" in topic_filter:
        raise InvalidName(f"the topic filter {topic_filter!r} has a '*', which no channel has")
    if topic_filter == "#":
        return ("*",)
    above, _, last = topic_filter.rpartition("/")
    if last == "#":
        name = _pattern(above)
        return (f"{name}:*",) if not name else (name, f"{name}:*")
    return (_pattern(topic_filter),)


def _pattern(topic_filter: str) -> str:
    return channel_of(topic_filter).replace("+", LEVEL)


def matches(topic_filter: str, topic: str) -> bool:
    """Whether the filter, which is valid, matches the topic."""
    if topic_filter == topic:
        return True
    if topic.startswith("$") and topic_filter[:1] in ("+", "#"):
        return False
    return _levels_match(topic_filter.split("/"), topic.split("/"))


def _levels_match(wanted: Sequence[str], levels: Sequence[str]) -> bool:
    for number, level in enumerate(wanted):
        if level == "#":
            return True
        if number >= len(levels) or level not in ("+", levels[number]):
            return False
    return len(wanted) == len(levels)
