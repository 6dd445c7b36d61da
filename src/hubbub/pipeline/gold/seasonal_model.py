"""A model of hourly load that can be explained: level and trend, times hour of the day, times day
of the week, times hour of the week.

It is fitted at several moments at once, the origins: now, for what is to come, and at the start of
each of the last days, which it must not see, to find out how good it is. All of it is grouped sums
over a few thousand rows."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

TRAINING_DAYS = 28
HELD_BACK_DAYS = 7
MIN_TRAINING_DAYS = 2
AHEAD_HOURS = 7 * 24
TREND_FROM_DAYS = 14
"""With less, a trend cannot be told from a weekend."""

_SERIES = ["hub", "measure"]
_FIT = [*_SERIES, "origin"]
_TREND_WEIGHT = 7
_DAY_WEIGHT, _HOUR_WEIGHT = 12, 2
"""How many hours as usual are assumed beside those that were seen, so that a single odd day does
not make a rule."""


def predicted(load: DataFrame, newest: int) -> DataFrame:
    """`load` has `hub`, `measure`, `hour_number` and `value` for every hour from a hub's first up
    to `newest`, which is still under way and is not looked at. Answers `predicted` for each hour
    from each origin on, beside what came (`actual`, null for what is to come); `days_before` is 0
    for what is to come.

    The hours that are asked for are rows among those that are learnt from, only without a value:
    so each factor is one window over both, and no join."""
    origins = F.broadcast(_origins(load, newest))
    rows = _learnt(load, origins).unionByName(_asked(load, origins))
    fit = Window.partitionBy(*_FIT)
    levelled = rows.withColumns(
        {
            "mean": F.avg("value").over(fit),
            "middle": F.avg(F.when(F.col("value").isNotNull(), F.col("block"))).over(fit),
            "slope": F.regr_slope("value", "block").over(fit),
        }
    ).withColumn("level", _level())
    return (
        _factored(levelled.withColumn("rest", F.col("value") / _nonzero("level")))
        .where("asked")
        .select(
            *_SERIES,
            "days_before",
            "hour_number",
            "actual",
            (
                F.col("level")
                * F.coalesce("hour_factor", F.lit(1.0))
                * F.coalesce("day_factor", F.lit(1.0))
                * F.coalesce("both_factor", F.lit(1.0))
            ).alias("predicted"),
        )
    )


def _factored(rows: DataFrame) -> DataFrame:
    """What the level leaves is explained by the hour of the day; what that leaves, by the day of
    the week; and what that leaves, by the hour of the week."""
    steps = (
        ("hour_factor", ("of_day",), _mean),
        ("day_factor", ("of_week",), _shrunk(_DAY_WEIGHT)),
        ("both_factor", ("of_week", "of_day"), _shrunk(_HOUR_WEIGHT)),
    )
    for name, by, factor in steps:
        window = Window.partitionBy(*_FIT, *by)
        rows = rows.withColumn(name, factor(window)).withColumn(
            "rest", F.col("rest") / _nonzero(name)
        )
    return rows


def _origins(load: DataFrame, newest: int) -> DataFrame:
    """Those that have enough before them. Whole weeks are used where there are two or more: a
    trend over a week and a half would be that of its weekends."""
    days = F.floor((F.lit(newest) - F.col("begun")) / 24)
    last = F.least(F.lit(HELD_BACK_DAYS), days - MIN_TRAINING_DAYS)
    known = F.least(F.lit(TRAINING_DAYS), days - F.col("days_before"))
    whole_weeks = known - F.pmod(known, F.lit(7))
    return (
        load.groupBy(*_SERIES)
        .agg(F.min("hour_number").alias("begun"))
        .where(last >= 0)
        .withColumn("days_before", F.explode(F.sequence(F.lit(0), last.cast("int"))))
        .withColumn("origin", F.lit(newest) - 24 * F.col("days_before"))
        .withColumn("days", F.when(known >= TREND_FROM_DAYS, whole_weeks).otherwise(known))
        .drop("begun")
    )


def _learnt(load: DataFrame, origins: DataFrame) -> DataFrame:
    before = F.col("hour_number") < F.col("origin")
    recent = F.col("hour_number") >= F.col("origin") - 24 * F.col("days")
    rows = load.join(origins, _SERIES).where(before & recent)
    return _placed(rows.withColumns({"asked": F.lit(False), "actual": F.lit(None).cast("long")}))


def _asked(load: DataFrame, origins: DataFrame) -> DataFrame:
    hours = F.when(F.col("days_before") == 0, AHEAD_HOURS).otherwise(24)
    ahead = F.explode(F.sequence(F.col("origin"), F.col("origin") + hours - 1))
    rows = (
        origins.withColumn("hour_number", ahead)
        .join(load.withColumnRenamed("value", "actual"), [*_SERIES, "hour_number"], "left")
        .withColumns({"asked": F.lit(True), "value": F.lit(None).cast("long")})
    )
    return _placed(rows)


def _placed(frame: DataFrame) -> DataFrame:
    """In its block of 24 hours, counted from the origin: 0 just before it, 1 from it on. (The
    first of January 1970 was a Thursday.)"""
    number = F.col("hour_number")
    return frame.withColumns(
        {
            "block": F.floor((number - F.col("origin")) / 24) + 1,
            "of_day": F.pmod(number, F.lit(24)),
            "of_week": F.pmod(F.floor(number / 24) + 3, F.lit(7)),
        }
    )


def _level() -> Column:
    """The mean with its trend, which counts the more the longer it was seen."""
    days = F.col("days")
    slope = F.when(days >= TREND_FROM_DAYS, F.col("slope") * days / (days + _TREND_WEIGHT))
    along = F.coalesce(slope, F.lit(0.0)) * (F.col("block") - F.col("middle"))
    return F.greatest(F.col("mean") + along, F.col("mean") * 0.1)


def _shrunk(weight: int) -> Callable[[WindowSpec], Column]:
    def factor(window: WindowSpec) -> Column:
        seen = F.coalesce(F.sum("rest").over(window), F.lit(0.0))
        return (seen + weight) / (F.count("rest").over(window) + weight)

    return factor


def _mean(window: WindowSpec) -> Column:
    return F.avg("rest").over(window)


def _nonzero(column: str) -> Column:
    return F.nullif(F.col(column), F.lit(0.0))
