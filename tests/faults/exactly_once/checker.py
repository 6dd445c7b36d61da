"""Looks at what the applications committed, and at nothing else: their own databases, read with
nothing but sqlite3. It knows nothing of the hub.

Each producer has a table `sent (n)`: what it committed to send, 1, 2, 3 … Each consumer has a table
`applied (producer, n, serial)`: what it did, in the order in which it did it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Report:
    sent: int = 0
    applied: int = 0
    lost: int = 0
    doubled: int = 0
    disordered: int = 0
    invented: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.disordered or self.invented)

    def note(self, text: str) -> None:
        if len(self.examples) < 20:
            self.examples.append(text)

    def __str__(self) -> str:
        figures = (
            f"{self.sent:,} sent, {self.applied:,} applied: {self.lost} lost,"
            f" {self.doubled} doubled, {self.disordered} out of order, {self.invented} from nowhere"
        )
        return "\n".join([figures, *self.examples])


def check(
    producers: Sequence[Path], exact: Sequence[Path], crews: Sequence[Sequence[Path]] = ()
) -> Report:
    """`exact`: consumers that must have done everything once and in order. `crews`: consumers that
    share a subscription, who together must have done everything."""
    report = Report()
    sent = {path.stem: _rows(path, "SELECT n FROM sent ORDER BY n") for path in producers}
    for name, rows in sent.items():
        report.sent += len(rows)
        if [n for (n,) in rows] != list(range(1, len(rows) + 1)):
            report.invented += 1
            report.note(f"{name} did not count what it sent: {rows[:3]} …")
    everything = {(name, n) for name, rows in sent.items() for (n,) in rows}
    for path in exact:
        _check_exact(report, path, everything)
    for crew in crews:
        _check_crew(report, crew, everything)
    return report


def _check_exact(report: Report, path: Path, everything: set[tuple[str, int]]) -> None:
    rows = _rows(path, "SELECT producer, n, serial FROM applied ORDER BY rowid")
    report.applied += len(rows)
    counts = Counter((producer, n) for producer, n, _ in rows)
    _count(report, path.stem, counts, everything)
    last: dict[str, int] = {}
    last_serial = 0
    for producer, n, serial in rows:
        if n <= last.get(producer, 0) or serial <= last_serial:
            report.disordered += 1
            report.note(f"{path.stem}: {producer} {n} (serial {serial}) came after a later one")
        last[producer] = max(n, last.get(producer, 0))
        last_serial = max(serial, last_serial)
    for (producer, n), count in counts.items():
        if count > 1:
            report.doubled += count - 1
            report.note(f"{path.stem}: {producer} {n} was applied {count} times")


def _check_crew(report: Report, crew: Sequence[Path], everything: set[tuple[str, int]]) -> None:
    counts: Counter[tuple[str, int]] = Counter()
    for path in crew:
        counts.update(_rows(path, "SELECT producer, n FROM applied"))
    _count(report, " and ".join(path.stem for path in crew), counts, everything)


def _count(
    report: Report, who: str, counts: Counter[tuple[str, int]], everything: set[tuple[str, int]]
) -> None:
    for producer, n in sorted(everything - counts.keys()):
        report.lost += 1
        report.note(f"{who}: {producer} {n} was never applied")
    for producer, n in sorted(counts.keys() - everything):
        report.invented += 1
        report.note(f"{who}: {producer} {n} was applied, but nobody sent it")


def _rows(path: Path, query: str) -> list[tuple]:  # type: ignore[type-arg]
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()
