"""The forecast beats the same hour yesterday on days that it has not seen, and says by how much."""

from __future__ import annotations

import math
import random
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from harness.gold import MONDAY, gold, rows
from hubbub.pipeline.gold import forecast
from hubbub.pipeline.gold.forecast import Capacity

pytestmark = pytest.mark.timeout(300)
TRAFFIC = "hub string, time timestamp, messages_in long, messages_out long, hour string"


def traffic(spark: SparkSession, days: int, noise: float = 0.15) -> DataFrame:
    """Busy by day, quiet at weekends, growing by a percent a day; with noise, from a seed."""
    dice = random.Random(5)
    found = []
    for number in range(days * 24 + 1):
        time = MONDAY + timedelta(hours=number)
        level = 1000 * 1.01 ** (number / 24) * (0.4 if time.weekday() >= 5 else 1.0)
        shape = 1.2 + math.sin((time.hour - 8) / 24 * 2 * math.pi)
        value = round(level * shape * math.exp(dice.gauss(0, noise)))
        if number == days * 24:
            value //= 10  # the hour under way
        found.append(("acme", time, value, 50 * value, f"{time:%Y-%m-%dT%H}"))
    return spark.createDataFrame(found, TRAFFIC)


@pytest.mark.spec("PIPE-03")
def test_it_beats_the_same_hour_yesterday_on_held_back_days(spark: SparkSession) -> None:
    sources = {"traffic": traffic(spark, days=35)}
    errors = gold("forecast_errors", sources).collect()
    assert {(row.hub, row.measure) for row in errors} == {
        (hub, measure) for hub in ("*", "acme") for measure in ("messages_in", "messages_out")
    }
    for row in errors:
        assert (row.hours, row.better) == (7 * 24, True)
        assert row.verdict == "better than the same hour yesterday"
        assert row.error_share < 0.2
        assert row.error < 0.7 * row.yesterday_error


@pytest.mark.spec("PIPE-03")
def test_a_pattern_without_noise_is_forecast_almost_exactly(spark: SparkSession) -> None:
    source = traffic(spark, days=35, noise=0.0)
    (row,) = (
        gold("forecast_errors", {"traffic": source})
        .where("hub = '*' and measure = 'messages_in'")
        .collect()
    )
    assert row.error_share < 0.08 < row.yesterday_error_share


@pytest.mark.spec("PIPE-03")
def test_it_tells_the_nodes_that_the_load_calls_for(spark: SparkSession) -> None:
    """A steady load: 3,600 messages an hour is one a second; twelve in five minutes are peaks of
    nothing, so that peak and mean are the same."""
    slots = [
        ("acme", MONDAY + timedelta(minutes=5 * place), 300, 30_000, "")
        for place in range(12 * 24 * 10 + 1)
    ]
    source = spark.createDataFrame(slots, TRAFFIC).withColumn(
        "hour", F.date_format("time", "yyyy-MM-dd'T'HH")
    )
    capacity = Capacity(publishes_per_second=1.0, deliveries_per_second=40.0, used=0.5)
    table = forecast.make_table(capacity)
    coming = table.transform({"traffic": source}).where("not held_back and hub = '*'").collect()
    assert len(coming) == 7 * 24
    assert min(row.time for row in coming).timestamp() == slots[-1][1].timestamp()
    for row in coming:
        assert row.messages_in == pytest.approx(3600)
        assert row.nodes == math.ceil((1 / 1 + 100 / 40) / 0.5)


def test_with_a_day_of_data_nothing_is_forecast(spark: SparkSession) -> None:
    assert gold("forecast", {"traffic": traffic(spark, days=1)}).collect() == []


def test_with_three_days_it_does_what_it_can(spark: SparkSession) -> None:
    found = gold("forecast", {"traffic": traffic(spark, days=3)}).where("hub = '*'")
    assert rows(found.groupBy("held_back").count()) == [(False, 168), (True, 24)]
