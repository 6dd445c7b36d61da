"""What a scenario found: one line of the table, with everything that was measured for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, is_dataclass
from statistics import median
from typing import Any

from benchmarks.servers import Server

Start = Callable[[], AbstractContextManager[Server]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often to measure, and which peers there are."""

    rounds: int
    seconds: float
    warm_seconds: float
    scale: float  # of large numbers of sessions and channels, for a quick look
    peers: Mapping[str, Start]

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.scale))


@dataclass(frozen=True, slots=True)
class Finding:
    """`met` is None for a figure that nothing is promised about."""

    what: str
    reach: str
    reached: str
    met: bool | None = None
    raw: Mapping[str, object] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return {None: "-", True: "met", False: "MISSED"}[self.met]


Scenario = Callable[[Effort], list[Finding]]


def spread(values: Sequence[float], unit: str = "", digits: int = 2) -> str:
    """The median, and between which values it lies."""
    middle = f"{median(values):,.{digits}f}{unit}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}-{max(values):,.{digits}f})"


def table(findings: Sequence[Finding]) -> str:
    """All findings, aligned."""
    head = ("what", "reach", "reached", "verdict")
    rows = [head, *((f.what, f.reach, f.reached, f.verdict) for f in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    return json.dumps([_plain(asdict(finding)) for finding in findings], indent=1)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
