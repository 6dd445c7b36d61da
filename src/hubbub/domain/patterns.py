"""Patterns for names: `*` matches any text, `#` matches one segment between ':' separators, and
`LEVEL` one that may be empty."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from hubbub.domain.errors import InvalidName
from hubbub.domain.names import check_name

MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 255
MAX_PATTERN_CHARS_TOGETHER = 8192

LEVEL = "\x1f"
"""A segment that may be empty, as devices mean it by `+`. No name has this character."""

_WILDCARD = re.compile("[*#\x1f]")


def patterns_problem(patterns: Sequence[str]) -> str | None:
    """The first problem of a list of patterns from outside; None where it is valid."""
    if len(patterns) > MAX_PATTERNS:
        return f"has {len(patterns)} patterns; at most {MAX_PATTERNS} are allowed"
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_CHARS:
            return (
                f"has the pattern {pattern[:20]!r} with {len(pattern)} characters; "
                f"at most {MAX_PATTERN_CHARS} are allowed"
            )
    together = sum(map(len, patterns))
    if together > MAX_PATTERN_CHARS_TOGETHER:
        return (
            f"has patterns of {together} characters together; "
            f"at most {MAX_PATTERN_CHARS_TOGETHER} are allowed"
        )
    return None


class PatternSet:
    """Patterns that are matched together.

    They form one automaton whose states are the bits of an integer: one bit per prefix of a
    pattern, set if the name read so far matches that prefix. Each character of the patterns, and of
    each name, costs a constant number of operations, whatever the patterns are.
    """

    __slots__ = ("_after", "_ends", "_loops", "_segments", "_starts", "_stays", "patterns")

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        after: dict[str, int] = {}  # where a character may lead to
        starts = loops = levels = segments = ends = 0
        bit = 1
        for pattern in patterns:
            starts |= bit
            for symbol in pattern:
                if symbol == "*":
                    loops |= bit
                    continue
                if symbol == LEVEL:
                    levels |= bit
                    continue
                bit <<= 1
                if symbol == "#":
                    segments |= bit
                else:
                    after[symbol] = after.get(symbol, 0) | bit
            ends |= bit
            bit <<= 1
        self._after = after
        self._starts, self._loops, self._segments, self._ends = starts, loops, segments, ends
        self._stays = loops | levels | segments

    def matches(self, name: str) -> bool:
        """Whether a pattern matches the whole name. If the name itself is a pattern: whether one
        pattern certainly matches all names that it matches (its `*` is only matched by a `*`)."""
        states, loops, segments = self._starts, self._loops, self._segments
        stays, after = self._stays, self._after
        for character in name:
            following = after.get(character, 0)
            if character in ":*":
                states = states << 1 & following | states & loops
            else:
                states = states << 1 & (following | segments) | states & stays
            if not states:
                return False
        return bool(states & self._ends)


def matches_any(patterns: tuple[str, ...], name: str) -> bool:
    """Whether one of the patterns matches the whole name."""
    return PatternSet(patterns).matches(name)


@lru_cache(maxsize=65536)
def matches(pattern: str, name: str) -> bool:
    return matches_any((pattern,), name)


def covers(outer: str, inner: str) -> bool:
    """Whether the outer pattern certainly matches every name that the inner one matches."""
    return matches_any((outer,), inner)


def is_pattern(name: str) -> bool:
    """Whether a channel's name is a pattern: names contain no wildcards."""
    return "*" in name or "#" in name or LEVEL in name


def literal_start(pattern: str) -> str:
    """The common prefix of all matching names."""
    return _WILDCARD.split(pattern, maxsplit=1)[0]


def check_pattern(pattern: str) -> str:
    """Return the pattern if channels can match it. Raises `InvalidName`."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InvalidName(
            f"the pattern {pattern[:20]!r}… has {len(pattern)} characters; "
            f"at most {MAX_PATTERN_CHARS} are allowed"
        )
    check_name(_WILDCARD.sub("_", pattern), "pattern")
    return pattern
