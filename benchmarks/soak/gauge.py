"""Readings of memory and descriptors over time, and whether they rise."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from benchmarks.load import processes
from benchmarks.soak.hub import Hub, connections, descriptors


@dataclass(frozen=True, slots=True)
class Reading:
    seconds: float
    hub_kilobytes: int
    worker_kilobytes: int
    own_descriptors: int
    """Those that are not a client's connection. Clients come and go while this is counted, so
    a single reading can be off by a few."""


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line through readings."""

    first: float
    mean: float
    last: float
    per_second: float
    seconds: float

    @property
    def rise(self) -> float:
        """Over the whole time."""
        return self.per_second * self.seconds


@dataclass(slots=True)
class Gauge:
    readings: list[Reading] = field(default_factory=list)

    async def watch(self, hub: Hub, seconds: float, every_seconds: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            await asyncio.sleep(min(every_seconds, end - now))
            clients = connections(await hub.metrics() or "")
            alone, together = processes.resident(hub.pid), processes.resident_kilobytes(hub.pid)
            own = descriptors(hub.pid) - clients
            self.readings.append(Reading(time.monotonic(), alone, together - alone, own))

    @property
    def seconds(self) -> float:
        return self.readings[-1].seconds - self.readings[0].seconds

    @property
    def hub(self) -> Line:
        return line([(r.seconds, r.hub_kilobytes) for r in self.readings])

    @property
    def workers(self) -> Line:
        return line([(r.seconds, r.worker_kilobytes) for r in self.readings])

    @property
    def together(self) -> Line:
        return line([(r.seconds, r.hub_kilobytes + r.worker_kilobytes) for r in self.readings])

    @property
    def descriptors(self) -> Line:
        return line([(r.seconds, r.own_descriptors) for r in self.readings])


def line(points: list[tuple[float, float]]) -> Line:
    """The one that lies closest to the points (least squares)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    return Line(points[0][1], mean_y, points[-1][1], slope, points[-1][0] - points[0][0])
