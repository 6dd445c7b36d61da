"""Charts as inline SVG: they need no script, no font and no other file, and follow the page's
colours by their classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from hubbub.pipeline.report.wording import escaped, moment, short

Point = tuple[float, float | None]
"""A time in seconds since 1970, and a value; None is a hole in the line."""

_WIDTH, _HEIGHT = 720, 230
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 12, 12, 26
_FLOOR = _HEIGHT - _BOTTOM
_HOUR, _DAY = 3600, 86_400
STEPS_SECONDS = (
    *(300, 900, 1800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY),
)


@dataclass(frozen=True)
class Series:
    name: str
    points: Sequence[Point]
    dashed: bool = False


@dataclass(frozen=True)
class Band:
    """Between which values something will lie: time, lowest, highest."""

    name: str
    points: Sequence[tuple[float, float, float]]


class _Scale:
    """From times and values to places in the picture."""

    def __init__(self, times: Sequence[float], values: Sequence[float], log: bool) -> None:
        self.start, self.end = min(times), max(times)
        self.log = log
        if log:
            positive = [value for value in values if value > 0] or [1.0]
            self.low = 10 ** math.floor(math.log10(min(positive)))
            self.high = max(10 ** math.ceil(math.log10(max(positive))), self.low * 10)
        else:
            self.low, self.high = 0.0, _nice(max([*values, 0.0]))

    def x(self, time: float) -> float:
        span = (self.end - self.start) or 1.0
        return _LEFT + (time - self.start) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return _FLOOR - part * (_FLOOR - _TOP)

    def value_ticks(self) -> list[float]:
        if not self.log:
            return [self.high * step / 4 for step in range(5)]
        decades = round(math.log10(self.high / self.low))
        return [self.low * 10**step for step in range(decades + 1)]

    def time_ticks(self) -> list[float]:
        span = self.end - self.start
        step = next((each for each in STEPS_SECONDS if span / each <= 8), 28 * _DAY)
        first = math.ceil(self.start / step) * step
        return [first + step * place for place in range(int((self.end - first) // step) + 1)]


def line_chart(
    about: str,
    series: Sequence[Series],
    label: Callable[[float], str] = short,
    log: bool = False,
    band: Band | None = None,
    now: float | None = None,
) -> str:
    """`about` is what somebody hears who cannot see it. `now` gets a line of its own."""
    known = [(t, v) for each in series for t, v in each.points if v is not None]
    if not known:
        return '<p class="none">Nothing to draw.</p>'
    highest = [high for _, _, high in band.points] if band else []
    scale = _Scale([t for t, _ in known], [*(v for _, v in known), *highest], log)
    parts = [_axes(scale, label)]
    if band is not None and band.points:
        parts.append(_band(scale, band))
    if now is not None and scale.start <= now <= scale.end:
        x = scale.x(now)
        parts.append(f'<line class="now" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_FLOOR}"/>')
    for place, each in enumerate(series):
        parts.append(_line(scale, each, place, label))
    names = [(f"s{place}", each.name) for place, each in enumerate(series)]
    if band is not None:
        names.append(("band", band.name))
    return _figure(about, parts, names)


def bar_chart(
    about: str, points: Sequence[tuple[float, float]], label: Callable[[float], str] = short
) -> str:
    if not points:
        return '<p class="none">Nothing to draw.</p>'
    times = [time for time, _ in points]
    step = min((b - a for a, b in itertools.pairwise(times)), default=3600.0)
    scale = _Scale([times[0], times[-1] + step], [value for _, value in points], log=False)
    parts = [_axes(scale, label)]
    for time, value in points:
        x, width = scale.x(time), max(scale.x(time + step) - scale.x(time) - 1, 0.6)
        y = scale.y(value)
        parts.append(
            f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}"'
            f' height="{_FLOOR - y:.1f}"><title>{_said(time, label(value))}</title></rect>'
        )
    return _figure(about, parts, [])


def _figure(about: str, parts: Sequence[str], names: Sequence[tuple[str, str]]) -> str:
    legend = "".join(f'<span><i class="{kind}"></i>{escaped(name)}</span>' for kind, name in names)
    shown = f'<div class="legend">{legend}</div>' if len(names) > 1 else ""
    return (
        f'<figure>{shown}<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escaped(about)}">{"".join(parts)}</svg></figure>'
    )


def _axes(scale: _Scale, label: Callable[[float], str]) -> str:
    parts = []
    for value in scale.value_ticks():
        y = scale.y(value)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">'
            f"{escaped(label(value))}</text>"
        )
    for time in scale.time_ticks():
        x = scale.x(time)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_FLOOR}" y2="{_FLOOR + 4}"/>'
            f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
            f"{_clock(time, scale.end - scale.start)}</text>"
        )
    return "".join(parts)


def _line(scale: _Scale, series: Series, place: int, label: Callable[[float], str]) -> str:
    dashed = " dashed" if series.dashed else ""
    parts, run = [], []
    for time, value in [*series.points, (0.0, None)]:
        if value is not None:
            run.append((time, value))
            continue
        if run:
            path = " ".join(f"{scale.x(t):.1f},{scale.y(v):.1f}" for t, v in run)
            parts.append(
                f'<polyline class="line s{place}{dashed}" points="{path}"/>' if len(run) > 1 else ""
            )
            parts += [
                f'<circle class="dot s{place}{" alone" if len(run) == 1 else ""}"'
                f' cx="{scale.x(t):.1f}" cy="{scale.y(v):.1f}" r="3">'
                f"<title>{escaped(series.name)}: {_said(t, label(v))}</title></circle>"
                for t, v in run
            ]
        run = []
    return "".join(parts)


def _band(scale: _Scale, band: Band) -> str:
    above = [f"{scale.x(t):.1f},{scale.y(high):.1f}" for t, _, high in band.points]
    below = [f"{scale.x(t):.1f},{scale.y(low):.1f}" for t, low, _ in reversed(band.points)]
    return f'<polygon class="band" points="{" ".join([*above, *below])}"/>'


def _said(time: float, value: str) -> str:
    return f"{moment(time)}: {escaped(value)}"


def _nice(highest: float) -> float:
    """The next number above whose quarters are whole, as counts are."""
    power = 10 ** max(math.floor(math.log10(max(highest, 4.0) / 4)), 0)
    steps = (4.0 * step * power for step in (1, 2, 3, 4, 5, 6, 8, 10))
    return float(next(step for step in steps if step >= highest))


def _clock(time: float, span: float) -> str:
    at = datetime.fromtimestamp(time, UTC)
    if span > 3 * _DAY or (at.hour == at.minute == 0):
        return f"{at:%d %b}"
    return f"{at:%H:%M}"
