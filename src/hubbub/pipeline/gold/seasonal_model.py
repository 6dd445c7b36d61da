"""A model of hourly load that can be explained: level and trend, times hour of the day, times day
of the week, times hour of the week.

It is fitted at several moments at once, the origins: now, for what is to come, and at the start of
each of the last days, which it must not see, to find out how good it is. All of it is grouped sums
over a few thousand rows."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

TRAINING_DAYS = 28
HELD_BACK_DAYS = 7
MIN_TRAINING_DAYS = 2
AHEAD_HOURS = 7 * 24
TREND_FROM_DAYS = 14
"""With less, a trend cannot be told from a weekend."""
