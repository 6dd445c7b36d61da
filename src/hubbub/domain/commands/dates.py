"""Dates in Hubiquitus' objects. Input: ISO 8601 or milliseconds since 1970. Output: ISO 8601 in
UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_DATE: Final = 253_402_300_799_999
"""The end of the year 9999."""


def read_date(value: object) -> int | None:
    """Returns milliseconds since 1970, or None if the value is not a date from 1970 to 9999."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if 0 <= value <= LAST_DATE else None
    if not isinstance(value, str):
        return None
    try:
        read = datetime.fromisoformat(value)
    except ValueError:
        return None
    if read.tzinfo is None:
        read = read.replace(tzinfo=UTC)
    milliseconds = (read - _EPOCH) // timedelta(milliseconds=1)
    return milliseconds if 0 <= milliseconds <= LAST_DATE else None


def write_date(milliseconds: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
