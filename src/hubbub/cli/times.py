"""Times on the command line: durations (`30d`), and moments (`2026-11-15T22:00:00Z`, or `2h`
ago)."""

from __future__ import annotations

import re
import time
from typing import Any

import click

from hubbub.journal.foreign_times import parse_time

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def seconds_of(text: str) -> float | None:
    """None if the text is not a duration."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2].lower()]


class Duration(click.ParamType[float]):
    """A duration in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = value if isinstance(value, float) else seconds_of(value)
        if found is None:
            self.fail(f"{value!r} is not a time such as 30d, 12h, 90m or 45s", param, ctx)
        return found


class Moment(click.ParamType[int]):
    """Microseconds since 1970; times without a zone are UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        ago = seconds_of(str(value))
        if ago is not None:
            return int((time.time() - ago) * 1e6)
        try:
            return parse_time(value)
        except ValueError:
            self.fail(
                f"{value!r} is not a time such as 2026-11-15T22:00:00Z, or 2h (ago)", param, ctx
            )
