"""The forecast beats the same hour yesterday on days that it has not seen, and says by how much."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness.views import MONDAY, records, view
from hubbub.pipeline.columns import TIME
from hubbub.pipeline.views.forecast import Capacity, make_view
from hubbub.pipeline.views.seasonal_model import predicted

pytestmark = pytest.mark.timeout(300)


def table(slots: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*slots, strict=True)
    given = dict(zip(("hub", "time", "messages_in", "messages_out"), columns, strict=False))
    return pa.table({**given, "time": pa.array(given["time"], TIME)})


def traffic(days: int, noise: float = 0.15) -> pa.Table:
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
        found.append(("acme", time, value, 50 * value))
    return table(found)


@pytest.mark.spec("PIPE-03")
def test_it_beats_the_same_hour_yesterday_on_held_back_days() -> None:
    sources = {"traffic": traffic(days=35)}
    errors = records(view("forecast_errors", sources))
    assert {(row.hub, row.measure) for row in errors} == {
        (hub, measure) for hub in ("*", "acme") for measure in ("messages_in", "messages_out")
    }
    for row in errors:
        assert (row.hours, row.better) == (7 * 24, True)
        assert row.verdict == "better than the same hour yesterday"
        assert row.error_share < 0.2
        assert row.error < 0.7 * row.yesterday_error


def demand() -> list[int]:
    """Hourly electricity demand of England and Wales, 12 weeks from Monday, 2000-06-05 on, as the
    package pmdarima has it. The package is not imported: what it needs is large."""
    try:
        found = distribution("pmdarima").locate_file("pmdarima/datasets/taylor.py")
    except PackageNotFoundError:
        pytest.skip("pmdarima is not installed; run: sh scripts/series.sh .venv")
    text = Path(str(found)).read_text()
    halves = [int(number) for number in re.findall(r"\b\d{5}\b", text[text.index("rslt") :])]
    assert len(halves) == 12 * 7 * 48
    return [sum(halves[place : place + 2]) for place in range(0, len(halves), 2)]


@pytest.mark.spec("PIPE-03")
def test_on_a_real_series_it_beats_the_same_hour_yesterday_and_last_week() -> None:
    """For each day of the last four weeks, from the weeks before it. Weights of the model may have
    been chosen by the first eight weeks; the last four are for this test alone."""
    load = np.array(demand())
    start = int(datetime(2000, 6, 5, tzinfo=UTC).timestamp()) // 3600
    off: dict[str, list[float]] = {"model": [], "yesterday": [], "last week": []}
    for weeks in range(9, 13):
        known = load[: weeks * 7 * 24]
        for days_before, asked, expected in predicted(known, start + len(known)):
            if days_before:
                came = load[asked - start]
                off["model"] += abs(expected - came).tolist()
                off["yesterday"] += abs(load[asked - start - 24] - came).tolist()
                off["last week"] += abs(load[asked - start - 7 * 24] - came).tolist()
    error, yesterday, last_week = (float(np.mean(each)) for each in off.values())
    assert error < 0.3 * yesterday
    assert error < 0.75 * last_week
    assert error < 0.02 * load.mean()


@pytest.mark.spec("PIPE-03")
def test_a_pattern_without_noise_is_forecast_almost_exactly() -> None:
    source = traffic(days=35, noise=0.0)
    found = view("forecast_errors", {"traffic": source})
    (row,) = records(found, hub="*", measure="messages_in")
    assert row.error_share < 0.08 < row.yesterday_error_share


@pytest.mark.spec("PIPE-03")
def test_it_tells_the_nodes_that_the_load_calls_for() -> None:
    """A steady load: 3,600 messages an hour is one a second; twelve in five minutes are peaks of
    nothing, so that peak and mean are the same."""
    slots = [
        ("acme", MONDAY + timedelta(minutes=5 * place), 300, 30_000)
        for place in range(12 * 24 * 10 + 1)
    ]
    capacity = Capacity(publishes_per_second=1.0, deliveries_per_second=40.0, used=0.5)
    found = make_view(capacity).evaluate({"traffic": table(slots)})
    coming = records(found, held_back=False, hub="*")
    assert len(coming) == 7 * 24
    assert min(row.time for row in coming).timestamp() == slots[-1][1].timestamp()
    for row in coming:
        assert row.messages_in == pytest.approx(3600)
        assert row.nodes == math.ceil((1 / 1 + 100 / 40) / 0.5)


def test_with_a_day_of_data_nothing_is_forecast() -> None:
    assert records(view("forecast", {"traffic": traffic(days=1)})) == []


def test_with_three_days_it_does_what_it_can() -> None:
    found = view("forecast", {"traffic": traffic(days=3)})
    assert len(records(found, hub="*", held_back=False)) == 168
    assert len(records(found, hub="*", held_back=True)) == 24
