"""The table of what attacks did, as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from attack.ground import MEMORY_BOUND_MB
from attack.run import P99_FACTOR, P99_MS, Result
from attack.victim import KINDS, Service

_MOST_ANSWERS = 5


def line(result: Result) -> str:
    """One result, as it comes."""
    verdict = "held" if result.held else "NOT HELD"
    text = (
        f"{verdict:8}  {result.attack.point:>5}  {result.attack.name:32}"
        f"  {result.before_mb:4.0f} {result.peak_mb:5.0f} {result.after_mb:5.0f} MB"
        f"  p99 {_p99(result.quiet)} -> {_p99(result.meanwhile)}  {_answers(result)}"
    )
    return "\n".join([text, *(f"          - {broken}" for broken in result.broken)])


def markdown(results: Sequence[Result], limits: str) -> str:
    """The whole report."""
    not_held = sum(not result.held for result in results)
    head = (
        "| point | attack | memory before, peak, after (MB) | victim's p50 / p99 quiet (ms) "
        "| victim's p50 / p99 meanwhile (ms) | answered | verdict |"
    )
    lines = [
        "# Attack",
        "",
        f"Held: {len(results) - not_held} of {len(results)}. An attack is held when the victim's "
        f"p99 of every kind of request stays below {P99_MS:g} ms or {P99_FACTOR:g} times its quiet "
        "value in the same run, none of its requests fails, the hub's memory stays below "
        f"{MEMORY_BOUND_MB} MB with the shipped limits, and nothing was allowed that must be "
        "refused.",
        "",
        "Each attack has a hub of its own, on one core; attackers and victim share the others, the "
        f"victim first. Latencies are the worst of: {', '.join(KINDS)}. Attacks that kill the hub "
        "have no victim.",
        "",
        limits,
        "",
        head,
        "|---|---|---|---|---|---|---|",
        *(_row(result) for result in results),
    ]
    broken = [result for result in results if not result.held]
    if broken:
        lines += ["", "## Not held", ""]
        lines += [
            f"- **{result.attack.name}** ({result.attack.point}): {'; '.join(result.broken)}"
            for result in broken
        ]
    return "\n".join([*lines, ""])


def _row(result: Result) -> str:
    note = f" {result.findings.note}" if result.findings.note else ""
    cells = (
        result.attack.point,
        f"`{result.attack.name}`: {result.attack.what}.{note}",
        _memory(result),
        f"{_p50(result.quiet)} / {_p99(result.quiet)}",
        f"{_p50(result.meanwhile)} / {_p99(result.meanwhile)}",
        _answers(result),
        "held" if result.held else "**not held**",
    )
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _memory(result: Result) -> str:
    if not result.peak_mb:
        return "-"
    return f"{result.before_mb:.0f}, {result.peak_mb:.0f}, {result.after_mb:.0f}"


def _answers(result: Result) -> str:
    common = result.findings.answers.most_common(_MOST_ANSWERS)
    return ", ".join(f"{what} ({count:,})" for what, count in common)


def _p50(service: Service | None) -> str:
    return "-" if service is None else f"{max(service.p50.values()):,.1f}"


def _p99(service: Service | None) -> str:
    return "-" if service is None else f"{max(service.p99.values()):,.1f}"
