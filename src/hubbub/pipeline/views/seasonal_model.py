"""A model of hourly load that can be explained: level and trend, times hour of the day, times day
of the week, times hour of the week, times how the last day was against that.

It is fitted at several moments, the origins: now, for what is to come, and at the start of each of
the last days, which it must not see, to find out how good it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hubbub.pipeline.grouping import Integers, Reals

TRAINING_DAYS = 28
HELD_BACK_DAYS = 7
MIN_TRAINING_DAYS = 2
AHEAD_HOURS = 7 * 24
TREND_FROM_DAYS = 14
"""With less, a trend cannot be told from a weekend."""

_TREND_WEIGHT = 7
_DAY_WEIGHT, _HOUR_WEIGHT = 2, 0.5
"""How many hours as usual are assumed beside those that were seen, so that a single odd day does
not make a rule."""
_LASTING = 0.8
"""How much of what the last day was off is expected of the next day, and of each day after it."""
_MOST_OFF = 2.0
"""A day that was further off, a day without service for example, tells nothing of the next one."""


def predicted(load: Integers, newest: int) -> Iterator[tuple[int, Integers, Reals]]:
    """`load` has a value for every hour up to `newest`, which is still under way and is not looked
    at. Answers for each origin how many days before now it is (0 for what is to come), the hours
    from it on, and what is predicted for them."""
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
    """What the level leaves is explained by the hour of the day; what that leaves, by the day of
    the week; what that leaves, by the hour of the week; and what the last day leaves, by what is
    special these days, which fades."""
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
    """How a day was against what is usual: the mean of what is left, weighted by what came."""
    expected = values / np.where(np.isnan(rest) | (rest == 0), 1.0, rest)
    off = float(values.sum() / expected.sum()) if expected.sum() else 1.0
    return off if 1 / _MOST_OFF <= off <= _MOST_OFF else 1.0


class _Level:
    """The mean with its trend, which counts the more the longer it was seen."""

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
    """Of 24 hours, counted from the origin: 0 just before it, 1 from it on."""
    return (hours - origin) // 24 + 1


def _of_day(hours: Integers) -> Integers:
    return hours % 24


def _of_week(hours: Integers) -> Integers:
    """The first of January 1970 was a Thursday."""
    return (hours // 24 + 3) % 7


def _of_both(hours: Integers) -> Integers:
    return _of_week(hours) * 24 + _of_day(hours)


def _factor(places: Integers, rest: Reals, weight: float | None) -> Reals:
    """The mean of each place, which is not a number where there is none; with a weight, as many
    hours as usual are among them."""
    known = ~np.isnan(rest)
    count = np.bincount(places[known], minlength=7 * 24)
    total = np.bincount(places[known], rest[known], minlength=7 * 24)
    if weight is not None:
        return np.asarray((total + weight) / (count + weight))
    return _divided(total, count)


def _divided(values: Reals | Integers, by: Reals | Integers) -> Reals:
    """Not a number where there is nothing to divide by."""
    return np.asarray(values / np.where(by == 0, np.nan, by))
