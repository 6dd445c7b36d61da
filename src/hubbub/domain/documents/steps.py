"""Long computations in steps: the caller decides what runs between two steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

_T = TypeVar("_T")

Steps = Generator[None, None, _T]
"""Yields after each step and returns the result."""

STEP = 2048
"""Values visited in one step: about a millisecond."""


def finish(steps: Steps[_T]) -> _T:
    """Runs all steps and returns the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: _T = end.value
            return result


def begun(steps: Steps[_T]) -> Steps[_T]:
    """Returns the same computation with its first step done."""
    try:
        next(steps)
    except StopIteration as end:
        return _ended(end.value)
    return steps


def _ended(result: _T) -> Steps[_T]:
    return result
    yield
