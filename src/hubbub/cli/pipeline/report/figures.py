"""Data of the report, read from the views and summed over the selected hubs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hubbub.domain.analytics import RowsQuery
from hubbub.pipeline.results import POINTS, computed_at, read_rows, read_summed

Row = Mapping[str, Any]

_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_HOUR, _DAY = 3600, 86_400
STEPS_SECONDS = (
    *(300, 900, 1800, _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR),
    *(_DAY, 2 * _DAY, 7 * _DAY),
)


class Figures:
    """All data of one report. `hub` None: all hubs."""

    def __init__(self, folder: Path | str, hub: str | None, days: int) -> None:
        self._folder = folder
        self._hub = hub
        self._days = days
        self.computed_at = computed_at(folder)

    def rows(self, table: str, limit: int) -> list[dict[str, Any]]:
        return read_rows(self._folder, RowsQuery(table, hub=self._hub, limit=limit)).rows

    def sum_rows(self, table: str) -> list[dict[str, Any]]:
        """The rows for the sum of all hubs, in a table that also has rows per hub."""
        return read_rows(self._folder, RowsQuery(table, hub=self._hub or "*", limit=100_000)).rows

    def traffic(self) -> tuple[Row, Mapping[float, Row]]:
        """The total, and totals by time, with the durations of `latency`."""
        return self._summed("traffic", "latency", _COUNTS, 0)

    def sessions(self) -> tuple[Row, Mapping[float, Row]]:
        """Opened sessions, in total and by time, with the durations of `duration`."""
        return self._summed("sessions_hourly", "duration", ("sessions",), _HOUR)

    def _summed(
        self, table: str, prefix: str, counts: tuple[str, ...], least: int
    ) -> tuple[Row, Mapping[float, Row]]:
        steps = [step for step in STEPS_SECONDS if least <= step <= _DAY]
        query = RowsQuery(table, hub=self._hub)
        total, rows = read_summed(self._folder, query, self._days, prefix, counts, steps)
        return total, {row["step"].timestamp(): row for row in rows}

    def activity(self) -> dict[float, dict[str, int]]:
        """The maximum of each time step."""
        rows = self.sum_rows("activity")
        times = [row["time"].timestamp() for row in rows]
        span = max(times, default=0.0) - min(times, default=0.0)
        step = next((each for each in STEPS_SECONDS if span / each <= POINTS), _DAY)
        names = ("active_sessions", "active_channels", "active_hubs", "active_subscriptions")
        by_time: dict[float, dict[str, int]] = defaultdict(lambda: dict.fromkeys(names, 0))
        for time, row in zip(times, rows, strict=True):
            part = by_time[time - time % step]
            part |= {name: max(part[name], row[name]) for name in names}
        return dict(sorted(by_time.items()))

    def verdicts(self) -> dict[str, dict[str, int]]:
        """The number of producers, subscriptions and sessions by verdict."""
        found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in self.rows("audit", 1_000_000):
            found[row["kind"]][row["verdict"]] += 1
        return {kind: dict(counts) for kind, counts in sorted(found.items())}

    def threads(self) -> tuple[int, int, list[dict[str, Any]]]:
        """The number of threads, how many cross channels, and the longest ones."""
        rows = self.rows("threads", 1_000_000)
        rows.sort(key=lambda row: (-row["messages"], row["thread"]))
        return len(rows), sum(1 for row in rows if row["crosses"]), rows[:12]

    def trending(self) -> tuple[datetime | None, dict[str, list[dict[str, Any]]]]:
        """The newest hour with trends, and its trends, best first."""
        rows = self.rows("trending", 100_000)
        newest = max((row["time"] for row in rows), default=None)
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: -row["score"]):
            if row["time"] == newest and len(found[row["kind"]]) < 8:
                found[row["kind"]].append(row)
        return newest, found
