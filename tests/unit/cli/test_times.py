"""Durations and moments on the command line."""

from __future__ import annotations

import time

import click
import pytest

from hubbub.cli.times import Duration, Moment, seconds_of

pytestmark = pytest.mark.spec("UI-03")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("90m", 5400), ("1.5h", 5400), ("30d", 30 * 86_400), (" 2 W ", 14 * 86_400)],
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["30", "d", "", "-1d", "1y", "1d2h"])
def test_a_duration_without_a_unit_is_refused_by_name(text: str) -> None:
    assert seconds_of(text) is None
    with pytest.raises(click.BadParameter, match="is not a time such as 30d"):
        Duration().convert(text, None, None)


def test_a_moment_is_a_time_or_how_long_ago() -> None:
    assert Moment().convert("1970-01-01T00:00:01Z", None, None) == 1_000_000
    assert Moment().convert("1970-01-02T00:00", None, None) == 86_400_000_000
    hour_ago = Moment().convert("1h", None, None)
    assert abs(hour_ago / 1e6 - (time.time() - 3600)) < 60
    with pytest.raises(click.BadParameter, match="is not a time such as 2026"):
        Moment().convert("soon", None, None)
