"""What a campaign has seen, as a table."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from benchmarks.soak.ledger import Ledger


class Service:
    """How long the clients of a node could not publish to a channel: from the first publish that
    failed, or had to wait, to the next one that was accepted, also through another node."""

    def __init__(self) -> None:
        self._longest: dict[str, float] = {}
        self._since: dict[tuple[str, str], float] = {}

    def begin(self) -> None:
        self._longest.clear()
        self._since.clear()

    def failed(self, node: str, channel: str, begun: float) -> None:
        self._since.setdefault((node, channel), begun)

    def worked(self, node: str, channel: str, begun: float) -> None:
        seconds = time.monotonic() - min(begun, self._since.pop((node, channel), begun))
        self._longest[node] = max(self._longest.get(node, 0.0), seconds)

    def longest(self, nodes: Collection[str]) -> float:
        """Since it began, for clients of these nodes."""
        return max((self._longest.get(node, 0.0) for node in nodes), default=0.0)


@dataclass
class Row:
    """What happened once. `away` is how long clients of the node that was hit could not publish,
    `away_elsewhere` clients of the others, and `heard` how late a stored message reached one of its
    followers; in seconds."""

    fault: str
    node: str
    acknowledged: int
    refused: int
    gaps: int
    away: float
    away_elsewhere: float
    heard: float
    settled: float


@dataclass
class Report:
    ledger: Ledger
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not self.ledger.problems

    def __str__(self) -> str:
        lines = [
            "| fault | times | acknowledged | refused | gaps announced |"
            " longest without service, there | elsewhere | heard after | serving again after |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [self._line(fault) for fault in dict.fromkeys(row.fault for row in self.rows)]
        lines += ["", *(f"{n:>9,} {what}" for what, n in sorted(self.ledger.counts.items()))]
        problems = self.ledger.problems
        lines.append(f"{len(self.rows)} faults, {len(problems)} problems, {self.seconds:.0f} s")
        return "\n".join([*lines, *problems[:20]])

    def _line(self, fault: str) -> str:
        rows = [row for row in self.rows if row.fault == fault]
        settled = sorted(row.settled for row in rows)
        again = f"{settled[0]:.1f}" if len(rows) == 1 else f"{settled[0]:.1f} to {settled[-1]:.1f}"
        cells = (
            fault,
            str(len(rows)),
            f"{sum(row.acknowledged for row in rows):,}",
            ", ".join(str(row.refused) for row in rows),
            f"{sum(row.gaps for row in rows):,}",
            f"{max(row.away for row in rows):.1f} s",
            f"{max(row.away_elsewhere for row in rows):.1f} s" if rows[0].node else "",
            f"{max(row.heard for row in rows):.1f} s",
            f"{again} s",
        )
        return f"| {' | '.join(cells)} |"
