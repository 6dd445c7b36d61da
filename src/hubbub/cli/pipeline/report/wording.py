"""Formats numbers, durations and times, and escapes text for the page."""

from __future__ import annotations

import html
from datetime import UTC, datetime

_DURATIONS = (
    *((1.0, "µs", 1e3), (1e3, "ms", 1e6), (1e6, "s", 120e6), (60e6, "min", 7200e6)),
    *((3600e6, "h", 172_800e6), (86_400e6, "days", float("inf"))),
)
_SIZES = ("KB", "MB", "GB", "TB", "PB")


def escaped(value: object) -> str:
    """Escapes data for HTML; every external value passes through here."""
    return html.escape("" if value is None else str(value), quote=True)


def count(value: float | None) -> str:
    """The exact number: `12,345`."""
    return "–" if value is None else f"{value:,.0f}"


def size(value: float) -> str:
    """The size in the dashboard's format: `1.5 MB`, in powers of 1,024."""
    if value < 1024:
        return f"{value:.0f} B"
    power = next((each for each in (1, 2, 3, 4) if value < 1024 ** (each + 1)), 5)
    scaled = value / 1024**power
    return f"{scaled:,.{1 if scaled < 10 else 0}f} {_SIZES[power - 1]}"


def duration(microseconds: float | None) -> str:
    if microseconds is None:
        return "–"
    for unit, name, below in _DURATIONS:
        if microseconds < below:
            return f"{microseconds / unit:.3g} {name}"
    raise AssertionError("no duration is longer than forever")


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"


def time_of(value: datetime | None) -> str:
    return "–" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
