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
    now[0] = 130.0
    line.show(0.25)
    line.show(0.26)  # too soon
    line.show(1.0)
    said = capsys.readouterr().err.split("\r")
    assert said[1].strip() == "importing log.csv…"
    assert said[2].strip() == "importing log.csv  25%, 1 min 30 s left"
    assert said[3].strip() == ""


def test_nothing_is_shown_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    progress_of("erasing")(0.5)
    assert capsys.readouterr().err == ""
