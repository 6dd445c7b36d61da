"""Latencies kept as counts: small, mergeable, exact to about one and a half percent."""

from __future__ import annotations

import math
from collections.abc import Iterable

_BITS = 6
_STEPS = 1 << _BITS


class Histogram:
    """Counts of nanosecond values in buckets whose width grows with the value."""

    def __init__(self, counts: Iterable[tuple[int, int]] = (), maximum: int = 0) -> None:
        self._counts: dict[int, int] = dict(counts)
        self.maximum = maximum

    def record(self, value: int, times: int = 1) -> None:
        if value < 0:
            value = 0
        if value > self.maximum:
            self.maximum = value
        shift = value.bit_length() - _BITS
        bucket = value if shift <= 0 else (shift << _BITS) + (value >> shift)
        counts = self._counts
        counts[bucket] = counts.get(bucket, 0) + times

    def merge(self, other: Histogram) -> None:
        for bucket, times in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + times
        self.maximum = max(self.maximum, other.maximum)

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def percentile(self, share: float) -> int:
        """The value that `share` (0 to 1) of all values do not exceed; 0 when there are none."""
        wanted = max(1, math.ceil(share * self.total))
        seen = 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return min(_middle(bucket), self.maximum)
        return 0


def _middle(bucket: int) -> int:
    shift, step = bucket >> _BITS, bucket & (_STEPS - 1)
    if shift == 0:
        return step
    return (step << shift) + (1 << shift) // 2
