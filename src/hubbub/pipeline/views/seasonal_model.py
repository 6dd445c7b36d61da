"""An explainable model of hourly load: level and trend, times hour of the day, times day of the
week, times hour of the week, times the deviation of the last day.

It is fitted at several origins: now, for the forecast, and at the start of each of the last days,
which it must not see, to measure its accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hubbub.pipeline.grouping import Integers, Reals

TRAINING_DAYS = 28
HELD_BACK_DAYS = 7
MIN_TRAINING_DAYS = 2
AHEAD_HOURS = 7 * 24
TREND_FROM_DAYS = 14
"""With a shorter history, a trend cannot be distinguished from a weekend."""

_TREND_WEIGHT = 7
_DAY_WEIGHT, _HOUR_WEIGHT = 2, 0.5
"""How many average hours are added to the observations (shrinkage), so that a single odd day does
not dominate."""
_LASTING = 0.8
"""The share of the last day's deviation that is expected for each further day."""
_MOST_OFF = 2.0
"""A day with a larger deviation, such as an outage, is ignored."""


def predicted(load: Integers, newest: int) -> Iterator[tuple[int, Integers, Reals]]:
    """`load` has a value for every hour up to `newest`, which is incomplete and ignored. Yields for
    each origin its age in days (0 for the forecast), the hours from it on, and their
    predictions."""
    days = len(load) // 24
    for days_before in range(min(HELD_BACK_DAYS, days - MIN_TRAINING_DAYS) + 1):
        known = min(TRAINING_DAYS, days - days_before)
        # Whole weeks where there are two or more: a trend over a week and a half would be that of
        # its weekends.
        used = known - known % 7 if known >= TREND_FROM_DAYS else known
        origin = newest - 24 * days_before
        end = len(load) - 24 * days_before
        asked = origin + np.arange(24 if days_before else AHEAD_HOURS)
        yield days_before, asked, _fitted(load[end - 24 * used : end], origin, asked)


def _fitted(values: Integers, origin: int, asked: Integers) -> Reals:
    """The residual of the level is explained by the hour of the day, then by the day of the week,
    then by the hour of the week; the residual of the last day by a current deviation that fades."""
    hours = origin - len(values) + np.arange(len(values))
    level = _Level(values, _block(hours, origin))
    rest = _divided(values, level.at(_block(hours, origin)))
    found = level.at(_block(asked, origin))
    for weight, places in ((None, _of_day), (_DAY_WEIGHT, _of_week), (_HOUR_WEIGHT, _of_both)):
        factor = _factor(places(hours), rest, weight)
        rest = _divided(rest, factor[places(hours)])
        asked_for = factor[places(asked)]
        found = found * np.where(np.isnan(asked_for), 1.0, asked_for)
    return found * (1 + (_off(rest[-24:], values[-24:]) - 1) * _LASTING ** ((asked - origin) // 24))


def _off(rest: Reals, values: Integers) -> float:
    """A day's deviation from the usual load: the mean residual, weighted by load."""
    expected = values / np.where(np.isnan(rest) | (rest == 0), 1.0, rest)
    off = float(values.sum() / expected.sum()) if expected.sum() else 1.0
    return off if 1 / _MOST_OFF <= off <= _MOST_OFF else 1.0


class _Level:
    """The mean with its trend; a longer history gives the trend more weight."""

    def __init__(self, values: Integers, block: Integers) -> None:
        self._mean = float(values.mean())
        self._middle = float(block.mean())
        days = len(values) // 24
        self._slope = 0.0
        if days >= TREND_FROM_DAYS:
            off = block - self._middle
            slope = float((off * (values - self._mean)).sum() / (off * off).sum())
            self._slope = slope * days / (days + _TREND_WEIGHT)

    def at(self, block: Integers) -> Reals:
        along = self._mean + self._slope * (block - self._middle)
        return np.asarray(np.maximum(along, self._mean * 0.1))


def _block(hours: Integers, origin: int) -> Integers:
    """The index of the 24-hour block, counted from the origin: 0 just before it, 1 from it on."""
    return (hours - origin) // 24 + 1


def _of_day(hours: Integers) -> Integers:
    return hours % 24


def _of_week(hours: Integers) -> Integers:
    """The hour of the week; 1 January 1970 was a Thursday."""
    return (hours // 24 + 3) % 7


def _of_both(hours: Integers) -> Integers:
    return _of_week(hours) * 24 + _of_day(hours)


def _factor(places: Integers, rest: Reals, weight: float | None) -> Reals:
    """The mean of each position, NaN if it has no values; with a weight, shrunk towards 1 by that
    many average hours."""
    known = ~np.isnan(rest)
    count = np.bincount(places[known], minlength=7 * 24)
    total = np.bincount(places[known], rest[known], minlength=7 * 24)
    if weight is not None:
        return np.asarray((total + weight) / (count + weight))
    return _divided(total, count)


def _divided(values: Reals | Integers, by: Reals | Integers) -> Reals:
    """NaN for a division by zero."""
    return np.asarray(values / np.where(by == 0, np.nan, by))
