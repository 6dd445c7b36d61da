"""Time series of a node's figures: the last quarter of an hour by the second, the last day in steps
of ten seconds.

They fill the charts of a dashboard when it opens. Only hubs with traffic have series of their own,
up to a maximum number."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from typing import Literal

import msgspec

from hubbub.domain.fields import wire_name
from hubbub.engine.access.revocations import ANY_HUB
from hubbub.engine.counters import HubCounters
from hubbub.engine.node import Node

Span = Literal["15m", "24h"]
COLUMNS = (
    "at", "sessions", "subscriptions", "messagesIn", "messagesOut", "bytesIn", "bytesOut",
)  # fmt: skip
"""`at` is in seconds since 1970; the last four are per second."""
MOST_HUBS = 50
"""Maximum number of hubs with their own series on one node."""
MOST_ROWS = 1500
"""Maximum number of rows per response; more are aggregated."""
_SECONDS = 15 * 60
_TENS = 24 * 360
_LARGEST = 2**32 - 1

Row = tuple[int, ...]


class Series(msgspec.Struct, frozen=True, rename=wire_name):
    """Figures over time, of a hub (`*`: of all together) on one node. Each row has the `columns`:
    a time in seconds since 1970, what there was then, and what came and went per second. Where a
    row is missing, the node was not there."""

    node: str
    hub: str
    columns: list[str]
    rows: list[list[int]]


class _Ring:
    """A ring buffer of rows; it grows up to a fixed size."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values = array("I")
        self._next = 0

    def add(self, row: Row) -> None:
        kept = array("I", (min(max(int(each), 0), _LARGEST) for each in row))
        if len(self._values) < self._most * len(COLUMNS):
            self._values += kept
        else:
            start = self._next * len(COLUMNS)
            self._values[start : start + len(COLUMNS)] = kept
            self._next = (self._next + 1) % self._most

    def last(self) -> list[int] | None:
        """The newest row."""
        width = len(COLUMNS)
        if not self._values:
            return None
        full = len(self._values) == self._most * width
        end = (self._next * width if full else 0) or len(self._values)
        return self._values[end - width : end].tolist()

    def rows(self) -> list[list[int]]:
        """The oldest first."""
        width = len(COLUMNS)
        cut = self._next * width
        flat = (self._values[cut:] + self._values[:cut]).tolist()
        return [flat[at : at + width] for at in range(0, len(flat), width)]


class _Track:
    """The series of one hub."""

    def __init__(self) -> None:
        self.seconds = _Ring(_SECONDS)
        self._tens = _Ring(_TENS)
        self._gathered: list[Row] = []

    def add(self, row: Row) -> None:
        self.seconds.add(row)
        self._gathered.append(row)
        if row[0] % 10 == 9 or len(self._gathered) >= 10:
            self._tens.add(_joined(self._gathered))
            self._gathered = []

    def rows(self, span: Span) -> list[list[int]]:
        if span == "15m":
            return self.seconds.rows()
        every = self._tens.rows()
        size = -(-len(every) // MOST_ROWS)
        if size <= 1:
            return every
        return [list(_joined(every[at : at + size])) for at in range(0, len(every), size)]


def _joined(rows: Iterable[Row] | list[list[int]]) -> Row:
    """Aggregates several rows into one: the first time, and means."""
    columns = list(zip(*rows, strict=True))
    return (columns[0][0], *(round(sum(each) / len(each)) for each in columns[1:]))


ProcessUsage = Callable[[], tuple[float, int]]
"""Returns the CPU seconds of the process so far, and its bytes in memory."""


class SeriesRecorder:
    """Records the figures of all hubs of a node once a second."""

    def __init__(self, node: Node, usage: ProcessUsage) -> None:
        self._node = node
        self._usage = usage
        self._tracks: dict[str, _Track] = {}
        self._before: dict[str, tuple[int, ...]] = {}
        self._last = 0
        self._called_at: float | None = None
        self.memory_bytes = 0
        self._cpu_seconds = 0.0
        self.cpu_percent = 0.0
        """Percent of one core, between the last two calls."""
        self.late_seconds = 0.0
        """The delay of the last call, because the event loop was busy."""

    def record(self) -> None:
        called_at = self._node.clock.monotonic()
        cpu_seconds, self.memory_bytes = self._usage()
        if self._called_at is not None:
            self.late_seconds = max(0.0, called_at - self._called_at - 1.0)
            used, elapsed = cpu_seconds - self._cpu_seconds, called_at - self._called_at
            self.cpu_percent = round(100 * used / elapsed, 1) if elapsed > 0.1 else 0.0
        self._cpu_seconds = cpu_seconds
        self._called_at = called_at
        now = int(self._node.clock.now())
        if now <= self._last:
            return
        seconds = now - self._last if self._last and now - self._last < 10 else 1
        self._last = now
        counters = self._node.counters
        totals = [0] * (len(COLUMNS) - 1)
        busy: dict[str, Row] = {}
        for hub, counted in counters.items():
            figures = _figures(counted)
            before = self._before.get(hub, figures)
            if figures == before and hub not in self._tracks and not figures[0]:
                continue  # nothing happens there
            self._before[hub] = figures
            rates = [
                (after - earlier) // seconds
                for after, earlier in zip(figures[2:], before[2:], strict=True)
            ]
            row = (now, *figures[:2], *rates)
            busy[hub] = row
            for place, each in enumerate(row[1:]):
                totals[place] += each
        self._track(ANY_HUB).add((now, *totals))
        self._forget(counters)
        for hub in self._chosen(busy):
            self._track(hub).add(busy[hub])

    def _chosen(self, busy: Mapping[str, Row]) -> list[str]:
        if len(busy) <= MOST_HUBS:
            return list(busy)
        known = [hub for hub in busy if hub in self._tracks]
        fresh = (hub for hub in busy if hub not in self._tracks)
        room = max(0, MOST_HUBS - len(known))
        return known[:MOST_HUBS] + nlargest(room, fresh, key=lambda hub: busy[hub][1])

    def _track(self, hub: str) -> _Track:
        track = self._tracks.get(hub)
        if track is None:
            track = self._tracks[hub] = _Track()
        return track

    def _forget(self, counters: Mapping[str, HubCounters]) -> None:
        """Drops the series of deleted hubs."""
        for hub in [hub for hub in self._before if hub not in counters]:
            del self._before[hub]
            self._tracks.pop(hub, None)

    def rows(self, hub: str, span: Span) -> list[list[int]]:
        track = self._tracks.get(hub)
        return track.rows(span) if track is not None else []

    @property
    def hubs(self) -> list[str]:
        """The hubs with their own series."""
        return [hub for hub in self._tracks if hub != ANY_HUB]

    def latest(self, hub: str) -> list[int]:
        """The figures of the last second, without the time."""
        track = self._tracks.get(hub)
        row = track.seconds.last() if track is not None else None
        return row[1:] if row is not None else [0] * (len(COLUMNS) - 1)


def _figures(counted: HubCounters) -> tuple[int, ...]:
    return (
        counted.sessions,
        counted.subscriptions,
        counted.messages_in,
        counted.messages_out,
        counted.bytes_in,
        counted.bytes_out,
    )
