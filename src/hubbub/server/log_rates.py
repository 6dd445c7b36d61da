"""Rate limits for log lines: lines caused by strangers and tenants must not fill the disk or hide
other lines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from hubbub.domain.limits import KeyedBuckets

_ABOUT_ONE = (1.0, 20.0)
"""Rate and burst of one log statement for one tenant."""
_OF_A_PLACE = (20.0, 200.0)
"""Rate and burst of one log statement for all tenants."""
_MOST = 4096
UNBOUNDED = frozenset(("hubbub.access",))
"""Loggers without a limit: an access log has a line per request."""


class LogRates:
    """The tenant of a line is its field `hub`, or else its first argument. Debug lines are not
    limited."""

    def __init__(self) -> None:
        self._about_one = KeyedBuckets(*_ABOUT_ONE, _MOST)
        self._of_a_place = KeyedBuckets(*_OF_A_PLACE, _MOST)
        self._left_out: dict[tuple[str, int], int] = {}

    def admits(self, record: logging.LogRecord, now: float) -> bool:
        """Whether the line is written; if so, its field `left_out` is the number of suppressed
        lines of the same statement before it. `now`: monotonic seconds."""
        if record.levelno < logging.INFO or record.name in UNBOUNDED:
            return True
        place = (record.pathname, record.lineno)
        if self._about_one.take((place, _subject(record)), 1, now) or self._of_a_place.take(
            place, 1, now
        ):
            self._left_out[place] = self._left_out.get(place, 0) + 1
            return False
        left_out = self._left_out.pop(place, 0)
        if left_out:
            record.fields = {**_fields(record), "left_out": left_out}
        return True


def _subject(record: logging.LogRecord) -> str:
    about = _fields(record).get("hub")
    if about is None and isinstance(record.args, tuple) and record.args:
        about = record.args[0]
    return about[:255] if isinstance(about, str) else ""


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}
