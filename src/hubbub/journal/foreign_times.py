"""Parses times of other systems: ISO 8601, seconds since 1970, and formats of common logs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?")
_COMPACT = re.compile(r"(?:19|20)\d{6}(?:\d{6})?")
_SLASHES = re.compile(r"\d{1,2}/\d{1,2}/\d{2,4}\b")
_NO_YEAR = re.compile(r"[A-Z][a-z]{2} +\d{1,2} \d{2}:\d{2}:\d{2}$")
_YEAR_FIRST = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})\b")
_LAYOUTS = (
    "%d/%b/%Y:%H:%M:%S %z",  # web servers
    "%d/%b/%Y:%H:%M:%S",
    "%a, %d %b %Y %H:%M:%S %z",  # mail
    "%d %b %Y %H:%M:%S %z",
    "%d %b %Y %H:%M:%S",
    "%a %b %d %H:%M:%S %Y",  # C
    "%b %d %Y %H:%M:%S",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y",
    "%Y-%m-%d %H:%M:%S %z",
    "%Y-%m-%d %I:%M:%S %p",
)
# What a plain number counts, by its size: the first of these bounds that it is under.
_UNITS = ((10**11, 10**6), (10**14, 10**3), (10**17, 1))


def parse_time(value: str | int | float, zone: tzinfo = UTC, layout: str | None = None) -> int:
    """Returns microseconds since 1970. A time without a zone is in `zone`. With a `layout` (as for
    `strptime`) no other format is tried. Raises `ValueError` with the problem."""
    text = repr(value) if isinstance(value, float) else str(value)
    text = " ".join(text.strip().strip("[]").replace(",", ", ").split()).replace(", ", ",")
    if not text:
        raise ValueError("there is no time")
    if layout is not None:
        return _microseconds(_laid_out(str(value).strip(), layout), zone)
    if _COMPACT.fullmatch(text):
        return _microseconds(_laid_out(text, "%Y%m%d%H%M%S"[: len(text) - 2]), zone)
    if _NUMBER.fullmatch(text):
        return _counted(text)
    found = _find(text)
    if found is None:
        raise ValueError(_complaint(text))
    return _microseconds(found, zone)


def _counted(text: str) -> int:
    number = Decimal(text)
    for bound, factor in _UNITS:
        if abs(number) < bound:
            return int(number * factor)
    return int(number / 1000)


def _find(text: str) -> datetime | None:
    for zone in (" UTC", " GMT", " Z"):
        text = f"{text.removesuffix(zone)}+00:00" if text.endswith(zone) else text
    try:
        return datetime.fromisoformat(_YEAR_FIRST.sub(_dashed, text))
    except ValueError:
        pass
    for candidate in (text.replace(",", ", "), text.replace(",", " ")):
        for layout in _LAYOUTS:
            try:
                return datetime.strptime(candidate.replace("+00:00", " +0000"), layout)
            except ValueError:
                continue
    return None


def _dashed(found: re.Match[str]) -> str:
    year, month, day = found.groups()
    return f"{year}-{int(month):02d}-{int(day):02d}"


def _laid_out(text: str, layout: str) -> datetime:
    try:
        return datetime.strptime(text, layout)
    except ValueError:
        raise ValueError(f"the time {text[:60]!r} is not written as {layout!r}") from None


def _complaint(text: str) -> str:
    if _SLASHES.match(text):
        return f"in the time {text[:60]!r} day and month could be swapped; give --time-format"
    if _NO_YEAR.match(text):
        return f"the time {text[:60]!r} has no year; give --time-format, or add one"
    return f"the time {text[:60]!r} cannot be read; give --time-format"


def _microseconds(time: datetime, zone: tzinfo) -> int:
    if time.tzinfo is None:
        time = time.replace(tzinfo=zone)
    try:
        since = time.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        raise ValueError(f"the time {time} is out of range") from None
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
