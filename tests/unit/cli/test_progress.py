"""The line that tells how far a long job is."""

from __future__ import annotations

import pytest

from hubbub.cli.progress import ProgressLine, progress_of, remaining

pytestmark = pytest.mark.spec("UI-03")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (9000, "2 h 30 min")],
)
def test_what_remains_is_said_in_the_usual_units(seconds: float, words: str) -> None:
    assert remaining(seconds) == words


def test_a_line_says_the_share_and_what_remains(capsys: pytest.CaptureFixture[str]) -> None:
    now = [100.0]
    line = ProgressLine("importing log.csv", lambda: now[0])
    line.show(0.0)
    now[0] = 140.0
    line.show(0.05)
    now[0] = 160.0
    line.show(0.25)
    line.show(0.26)  # too soon
    line.show(1.0)
    said = capsys.readouterr().err.split("\r")
    assert said[1].strip() == "importing log.csv…"
    assert said[2].strip() == "importing log.csv   5%"
    assert said[3].strip() == "importing log.csv  25%, 1 min 15 s left"
    assert said[4].strip() == ""


def test_what_remains_is_not_said_before_the_speed_is_known() -> None:
    """A start of a second, and a first share of a thousandth, made an estimate of 24 minutes."""
    line = ProgressLine("importing log.csv", lambda: 0.0)
    assert line.line(0.001, 1.5) == "importing log.csv   0%"
    assert line.line(0.1, 1.9) == "importing log.csv  10%"
    assert line.line(0.5, 3.5) == "importing log.csv  50%, 2 s left"


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    progress_of("erasing")(0.5)
    assert capsys.readouterr().err == ""
