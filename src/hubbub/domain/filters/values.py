"""JSON values in filters: which are allowed, equality, and their cost in comparisons."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from hubbub.domain.errors import IncompleteFilter, InvalidFilter
from hubbub.domain.filters.view import ABSENT
from hubbub.domain.shown import shown

MAX_DEPTH: Final = 32
"""Nesting depth of conditions, objects and lists."""
MAX_CHECKS: Final = 500
"""The most comparisons that all filters of a session may cost per message."""
_NAMES_IN_A_CHECK: Final = 4
"""How many path steps cost as much as one comparison."""
_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**64 - 1

Test = Callable[[Any], bool]
"""Tests a value of the message, which may be `ABSENT`."""


def invalid(at: str, problem: str) -> InvalidFilter:
    error = InvalidFilter(f"{at} {problem}" if at else f"the filter {problem}")
    error.details["at"] = at
    return error


def missing(at: str, remedy: str) -> IncompleteFilter:
    error = IncompleteFilter(f"{at} is missing; {remedy}")
    error.details["at"] = at
    return error


def checks_of_path(keys: int) -> int:
    """The cost of reading a path and inspecting its value, in comparisons."""
    return 1 + max(0, keys - 1) // _NAMES_IN_A_CHECK


def check_cost(checks: int) -> None:
    """Raises `InvalidFilter`."""
    if checks > MAX_CHECKS:
        raise invalid("", f"makes {checks} comparisons; at most {MAX_CHECKS} are allowed")


def is_number(value: object) -> bool:
    """Whether the value is a number; booleans are not."""
    return type(value) is int or (type(value) is float and isfinite(value))


def checked_number(value: object, at: str) -> float:
    if not is_number(value):
        raise invalid(at, f"is {shown(value)}; give a number")
    assert isinstance(value, int | float)
    if not _SMALLEST <= value <= _LARGEST and type(value) is int:
        raise invalid(at, "has more than 64 bits; give a smaller number")
    return value


def checked_value(value: object, at: str, depth: int = 1) -> int:
    """Returns the number of values inside a JSON value. Raises `InvalidFilter`."""
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
    """JSON equality: a boolean equals no number, 1 equals 1.0, objects are equal regardless of
    member order."""
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
    """Returns a test for equality with the wanted value."""
    if isinstance(wanted, dict | list):
        return lambda value: same(wanted, value)
    if wanted is None or isinstance(wanted, bool):
        return lambda value: value is wanted
    if isinstance(wanted, str):
        return lambda value: bool(value == wanted)
    return lambda value: type(value) is not bool and bool(value == wanted)


def one_of(wanted: list[Any]) -> Test:
    """Returns a test for membership; its cost does not depend on the number of scalars."""
    texts = frozenset(each for each in wanted if isinstance(each, str))
    numbers = frozenset(each for each in wanted if is_number(each))
    named = {each for each in wanted if each is None or isinstance(each, bool)}
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
