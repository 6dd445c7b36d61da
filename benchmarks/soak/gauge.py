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
    kilobytes: int
    own_descriptors: int
    """Those that are not a client's connection. Clients come and go while this is counted, so
    a single reading can be off by a few."""


@dataclass(slots=True)
class Gauge:
    readings: list[Reading] = field(default_factory=list)

    async def watch(self, hub: Hub, seconds: float, every_seconds: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            await asyncio.sleep(min(every_seconds, end - now))
            clients = connections(await hub.metrics() or "")
            self.readings.append(
                Reading(
                    time.monotonic(),
                    processes.resident_kilobytes(hub.pid),
                    descriptors(hub.pid) - clients,
                )
            )

    @property
    def seconds(self) -> float:
        return self.readings[-1].seconds - self.readings[0].seconds

    @property
    def mean_kilobytes(self) -> float:
        return sum(reading.kilobytes for reading in self.readings) / len(self.readings)

    @property
    def memory_slope(self) -> float:
        """Kilobytes per second."""
        return slope([(r.seconds, r.kilobytes) for r in self.readings])

    @property
    def descriptor_slope(self) -> float:
        """Descriptors per second."""
        return slope([(r.seconds, r.own_descriptors) for r in self.readings])


def slope(points: list[tuple[float, float]]) -> float:
    """Of the straight line that lies closest to the points (least squares)."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
