"""Patterns for names: `*` stands for anything, `#` for one segment between ':' separators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

MAX_PATTERNS = 100
MAX_PATTERN_CHARS = 255
MAX_PATTERN_CHARS_TOGETHER = 8192


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


def matches_any(patterns: tuple[str, ...], name: str) -> bool:
    """Whether one of the patterns matches the whole name.

    All patterns are one automaton, whose states are the bits of an integer: a bit for each prefix
    of a pattern, set if the name read so far can be that prefix. Each character of the patterns,
    and then of the name, takes a constant number of operations, whatever the patterns are.
    """
    after = dict.fromkeys(name, 0)  # where a character of the name may lead to
    starts = loops = segments = ends = 0
    bit = 1
    for pattern in patterns:
        starts |= bit
        for symbol in pattern:
            if symbol == "*":
                loops |= bit
                continue
            bit <<= 1
            if symbol == "#":
                segments |= bit
            elif symbol in after:
                after[symbol] |= bit
        ends |= bit
        bit <<= 1
    stays = loops | segments
    states = starts
    for character in name:
        if character == ":":
            states = states << 1 & after[character] | states & loops
        else:
            states = states << 1 & (after[character] | segments) | states & stays
        if not states:
            return False
    return bool(states & ends)


@lru_cache(maxsize=65536)
def matches(pattern: str, name: str) -> bool:
    return matches_any((pattern,), name)
