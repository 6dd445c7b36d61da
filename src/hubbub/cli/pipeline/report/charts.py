"""Charts of the report: their figures, which the charts of the dashboard draw (web/dashboard,
`report.tsx`), so that both show the same in the same way."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import msgspec

from hubbub.cli.pipeline.report.wording import escaped

Unit = Literal["count", "bytes", "seconds"]
Colour = Literal["accent", "in", "out", "muted", "ink"]
Values = Sequence[float | None]


class Line(msgspec.Struct, frozen=True):
    """`colour` is one of the style sheet."""

    label: str
    colour: Colour
    dashed: bool = False


class Chart(msgspec.Struct, frozen=True):
    """`times` are seconds since 1970. A value that is None, and a time that is missing, is a gap in
    the line. `band` are the places of two lines between which the ground is tinted; `now` gets a
    line of its own."""

    title: str
    lines: Sequence[Line]
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
    lines: Sequence[tuple[Line, Values]],
    *,
    unit: Unit = "count",
    bars: bool = False,
    log: bool = False,
    band: tuple[int, int] | None = None,
    now: float | None = None,
) -> str:
    """The place of a chart in the page."""
    step = min((after - before for before, after in itertools.pairwise(times)), default=3600.0)
    described, values = [line for line, _ in lines], [each for _, each in lines]
    figure = Chart(title, described, times, values, step, unit, bars, log, band, now)
    return f'<div data-chart="{escaped(msgspec.json.encode(figure).decode())}"></div>'
