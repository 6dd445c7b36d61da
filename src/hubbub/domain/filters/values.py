"""JSON values in filters: what is allowed, what is equal, and how many comparisons they cost."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from hubbub.domain.errors import IncompleteFilter, InvalidFilter
from hubbub.domain.filters.view import ABSENT
from hubbub.domain.shown import shown

MAX_DEPTH: Final = 32
"""Conditions, objects and lists inside each other."""
MAX_CHECKS: Final = 500
"""Comparisons that one message may cost a session: all of its filters together."""
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1

Test = Callable[[Any], bool]
"""Of a value of the message, which may be `ABSENT`."""


def invalid(at: str, problem: str) -> InvalidFilter:
    error = InvalidFilter(f"{at} {problem}" if at else f"the filter {problem}")
    error.details["at"] = at
    return error


def missing(at: str, remedy: str) -> IncompleteFilter:
    error = IncompleteFilter(f"{at} is missing; {remedy}")
    error.details["at"] = at
    return error


def is_number(value: object) -> bool:
    """Booleans are none."""
    return type(value) is int or (type(value) is float and isfinite(value))


def checked_number(value: object, at: str) -> float:
    if not is_number(value):
        raise invalid(at, f"is {shown(value)}; give a number")
    assert isinstance(value, int | float)
    if not _SMALLEST <= value <= _LARGEST and type(value) is int:
        raise invalid(at, "has more than 64 bits; give a smaller number")
    return value


def checked_value(value: object, at: str, depth: int = 1) -> int:
    """How many values there are in a JSON value. Raises `InvalidFilter`."""
    if value is None or isinstance(value, str | bool):
        return 1
    if isinstance(value, int | float):
        checked_number(value, at)
        return 1
    if depth > MAX_DEPTH:
        raise too_deep(at)
    if isinstance(value, list):
        return 1 + sum(checked_value(each, f"{at}[{n}]", depth + 1) for n, each in enumerate(value))
    if isinstance(value, dict):
        return 1 + sum(
            checked_value(each, f"{at}.{_name(key, at)}", depth + 1) for key, each in value.items()
        )
    raise invalid(at, f"is {shown(value)}; give a JSON value")


def _name(key: object, at: str) -> str:
    if not isinstance(key, str):
        raise invalid(at, f"has the name {shown(key)}; names are text")
    return key


def too_deep(at: str) -> InvalidFilter:
    error = InvalidFilter(f"the filter is nested deeper than {MAX_DEPTH} levels; make it flatter")
    error.details["at"] = at[:200]
    return error


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: a boolean equals no number, 1 equals 1.0, an object equals one with
    the same members in any order."""
    if type(one) is dict:
        return (
            type(other) is dict
            and len(one) == len(other)
            and all(same(each, other.get(name, ABSENT)) for name, each in one.items())
        )
    if type(one) is list:
        return type(other) is list and len(one) == len(other) and all(map(same, one, other))
    return (type(one) is bool) == (type(other) is bool) and bool(one == other)


def equals(wanted: Any) -> Test:
    """Whether a value is the wanted one."""
    if isinstance(wanted, dict | list):
        return lambda value: same(wanted, value)
    if wanted is None or isinstance(wanted, bool):
        return lambda value: value is wanted
    if isinstance(wanted, str):
        return lambda value: bool(value == wanted)
    return lambda value: type(value) is not bool and bool(value == wanted)


def one_of(wanted: list[Any]) -> Test:
    """Whether a value is among the wanted ones, in a time that does not depend on how many scalars
    there are."""
    texts = frozenset(each for each in wanted if isinstance(each, str))
    numbers = frozenset(each for each in wanted if is_number(each))
    named = [each for each in wanted if each is None or isinstance(each, bool)]
    composite = [each for each in wanted if isinstance(each, dict | list)]

    def test(value: Any) -> bool:
        kind = type(value)
        if kind is str:
            return value in texts
        if kind is int or kind is float:
            return value in numbers
        if kind is dict or kind is list:
            return any(same(each, value) for each in composite)
        return any(each is value for each in named)

    return test
