"""Data of the report's charts, which the dashboard's chart code draws (web/dashboard,
`report.tsx`), so that both look the same."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import msgspec

from hubbub.cli.pipeline.report.wording import escaped

Unit = Literal["count", "bytes", "seconds"]
Colour = Literal["accent", "in", "out", "muted", "ink"]
Values = Sequence[float | None]


class ChartLine(msgspec.Struct, frozen=True):
    """`colour` is a colour of the style sheet."""

    label: str
    colour: Colour
    dashed: bool = False


class Chart(msgspec.Struct, frozen=True):
    """`times` are seconds since 1970. A None value or a missing time is a gap in the line. `band`
    holds the indexes of two lines, the area between which is tinted; `now` is marked by a vertical
    line."""

    title: str
    lines: Sequence[ChartLine]
    times: Sequence[float]
    values: Sequence[Values]
    step: float
    unit: Unit = "count"
    bars: bool = False
    log: bool = False
    band: tuple[int, int] | None = None
    now: float | None = None


def chart(
    title: str,
    times: Sequence[float],
    lines: Sequence[tuple[ChartLine, Values]],
    *,
    unit: Unit = "count",
    bars: bool = False,
    log: bool = False,
    band: tuple[int, int] | None = None,
    now: float | None = None,
) -> str:
    """The HTML placeholder of a chart."""
    step = min((after - before for before, after in itertools.pairwise(times)), default=3600.0)
    described, values = [line for line, _ in lines], [each for _, each in lines]
    figure = Chart(title, described, times, values, step, unit, bars, log, band, now)
    return f'<div data-chart="{escaped(msgspec.json.encode(figure).decode())}"></div>'
