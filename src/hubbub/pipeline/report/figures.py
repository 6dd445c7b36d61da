"""What the report shows, read from the views and added up over the hubs in question."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hubbub.domain.analytics import RowsQuery
from hubbub.pipeline.results import computed_at, read_all, read_rows

Row = Mapping[str, Any]

POINTS = 300
"""In a line at most; more could not be told apart."""
_STEPS_SECONDS = (300, 900, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400)
_PER_OCTAVE = 8


@dataclass
class Durations:
    """Durations that can be added up; the same way as `views/histograms.py`."""

    count: int = 0
    sum: int = 0
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        self.buckets: dict[int, int] = defaultdict(int)

    def add(self, row: Row, prefix: str) -> None:
        self.count += row[f"{prefix}_count"] or 0
        self.sum += row[f"{prefix}_sum"] or 0
        lows = [each for each in (self.low, row[f"{prefix}_min"]) if each is not None]
        highs = [each for each in (self.high, row[f"{prefix}_max"]) if each is not None]
        self.low, self.high = min(lows, default=None), max(highs, default=None)
        for bucket, entries in row[f"{prefix}_buckets"] or ():
            self.buckets[bucket] += entries

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    def percentile(self, fraction: float) -> float | None:
        wanted, seen = fraction * sum(self.buckets.values()), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                middle = float(2 ** ((bucket + 0.5) / _PER_OCTAVE))
                assert self.low is not None
                assert self.high is not None
                return min(max(middle, self.low), self.high)
        return None


@dataclass
class Traffic:
    """Of one step of time."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        self.latency = Durations()


_COUNTS = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")


class Figures:
    """Everything of one report. `hub` None: all of them."""

    def __init__(self, folder: Path | str, hub: str | None, days: int) -> None:
        self._folder = folder
        self._hub = hub
        self._days = days
        self.computed_at = computed_at(folder)

    def rows(self, table: str, limit: int) -> list[dict[str, Any]]:
        return read_rows(self._folder, RowsQuery(table, hub=self._hub, limit=limit)).rows

    def sum_rows(self, table: str) -> list[dict[str, Any]]:
        """Of a table that has a row for all hubs together."""
        return read_rows(self._folder, RowsQuery(table, hub=self._hub or "*", limit=100_000)).rows

    def _all(self, table: str) -> Iterable[Row]:
        return read_all(self._folder, table, self._hub, self._days)

    def traffic(self) -> tuple[Traffic, dict[float, Traffic]]:
        """In all, and by time."""
        rows = list(self._all("traffic"))
        step = _step([row["time"] for row in rows])
        total = Traffic()
        by_time: dict[float, Traffic] = defaultdict(Traffic)
        for row in rows:
            part = by_time[_floored(row["time"], step)]
            for each in (total, part):
                for name in _COUNTS:
                    setattr(each, name, getattr(each, name) + row[name])
                each.latency.add(row, "latency")
        return total, dict(sorted(by_time.items()))

    def sessions(self) -> tuple[int, Durations, dict[float, tuple[int, Durations]]]:
        """How many, how long, and both by the hour."""
        rows = list(self._all("sessions_hourly"))
        step = max(_step([row["time"] for row in rows]), 3600)
        total, count = Durations(), 0
        by_time: dict[float, tuple[int, Durations]] = {}
        for row in rows:
            time = _floored(row["time"], step)
            opened, durations = by_time.get(time, (0, Durations()))
            for each in (total, durations):
                each.add(row, "duration")
            by_time[time] = opened + row["sessions"], durations
            count += row["sessions"]
        return count, total, dict(sorted(by_time.items()))

    def activity(self) -> dict[float, dict[str, int]]:
        """The most of each step of time."""
        rows = self.sum_rows("activity")
        step = _step([row["time"] for row in rows])
        names = ("active_sessions", "active_channels", "active_hubs", "active_subscriptions")
        by_time: dict[float, dict[str, int]] = defaultdict(lambda: dict.fromkeys(names, 0))
        for row in rows:
            part = by_time[_floored(row["time"], step)]
            for name in names:
                part[name] = max(part[name], row[name])
        return dict(sorted(by_time.items()))

    def verdicts(self) -> dict[str, dict[str, int]]:
        """How many producers, subscriptions and sessions there are of each verdict."""
        found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in self.rows("audit", 1_000_000):
            found[row["kind"]][row["verdict"]] += 1
        return {kind: dict(counts) for kind, counts in sorted(found.items())}

    def threads(self) -> tuple[int, int, list[dict[str, Any]]]:
        """How many, how many of them cross, and the longest."""
        rows = self.rows("threads", 1_000_000)
        rows.sort(key=lambda row: (-row["messages"], row["thread"]))
        return len(rows), sum(1 for row in rows if row["crosses"]), rows[:12]

    def trending(self) -> tuple[datetime | None, dict[str, list[dict[str, Any]]]]:
        """The newest hour that has any, and what trends in it, best first."""
        rows = self.rows("trending", 100_000)
        newest = max((row["time"] for row in rows), default=None)
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: -row["score"]):
            if row["time"] == newest and len(found[row["kind"]]) < 8:
                found[row["kind"]].append(row)
        return newest, found


def _step(times: Sequence[datetime]) -> int:
    if not times:
        return _STEPS_SECONDS[0]
    span = (max(times) - min(times)).total_seconds()
    return next((step for step in _STEPS_SECONDS if span / step <= POINTS), 86_400)


def _floored(time: datetime, step: int) -> float:
    seconds = time.timestamp()
    return seconds - seconds % step
