"""The verdict of a soak, in words and numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass

from benchmarks.soak.gauge import Gauge, Line
from benchmarks.soak.hub import Hub
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.plan import Plan

_SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    plan: Plan
    ledger: Ledger
    gauge: Gauge
    hub: Hub
    idle_descriptors: int
    """At the end, when all clients had gone."""

    @property
    def allowed_kilobytes(self) -> float:
        share = self.plan.most_growth_share * self.gauge.together.mean
        return max(self.plan.most_growth_kilobytes, share)

    @property
    def verdicts(self) -> dict[str, bool]:
        counts = self.ledger.counts
        return {
            "delivery": not self.ledger.problems
            and counts["deliveries checked"] > 0
            and counts["stored messages read back"] > 0,
            "memory": self.gauge.together.rise <= self.allowed_kilobytes,
            "descriptors": self.idle_descriptors <= self.hub.idle_descriptors,
            "log": not self.logged_errors,
        }

    @property
    def logged_errors(self) -> list[str]:
        lines = self.hub.log.read_text(errors="replace").splitlines()
        return [line for line in lines if _is_error(line)]

    @property
    def good(self) -> bool:
        return all(self.verdicts.values())


def _is_error(line: str) -> bool:
    """Whatever is not a warning or less: tracebacks, too."""
    try:
        return json.loads(line)["level"] not in ("debug", "info", "warning")
    except (ValueError, TypeError, KeyError):
        return True


def summary(outcome: Outcome) -> str:
    plan, gauge = outcome.plan, outcome.gauge
    kills = plan.short_lives // 2
    lines = [
        f"soak of {plan.seconds / 60:g} minutes, seed {plan.seed}: {outcome.hub.lives} lives of"
        f" the hub, {plan.short_lives - kills} ended by SIGTERM and {kills} by SIGKILL",
        "",
        *(f"{count:>12,}  {name}" for name, count in sorted(outcome.ledger.counts.items())),
        f"{len(outcome.ledger.uncertain):>12,}  publishes whose answer was cut off",
        "",
        f"watched for {gauge.seconds / 60:.1f} minutes after {plan.warm_up_seconds / 60:.1f}"
        f" minutes of warming up, {len(gauge.readings)} readings:",
        _memory("the hub's process", gauge.hub),
        _memory("its workers", gauge.workers),
        f"{_memory('together', gauge.together)} (allowed:"
        f" {outcome.allowed_kilobytes / 1024:+.2f} MB)",
        f"  descriptors without clients: {outcome.hub.idle_descriptors} before the first came,"
        f" {outcome.idle_descriptors} after the last went; in between the line changes by"
        f" {gauge.descriptors.rise:+.1f}",
        "",
        *(f"  {'good' if good else 'BAD '}  {name}" for name, good in outcome.verdicts.items()),
        *(f"  problem: {text}" for text in outcome.ledger.problems[:_SHOWN_PROBLEMS]),
        *(f"  log: {line[:400]}" for line in outcome.logged_errors[:_SHOWN_PROBLEMS]),
        "",
        "all is well" if outcome.good else "NOT well",
    ]
    return "\n".join(lines)


def _memory(name: str, line: Line) -> str:
    return (
        f"  memory, {name}: {line.mean / 1024:.1f} MB in the mean, {line.first / 1024:.1f} at"
        f" first, {line.last / 1024:.1f} at last; the line rises by {line.rise / 1024:+.2f} MB"
    )
