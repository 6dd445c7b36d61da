"""Judges a campaign by what the hub keeps, with another JSON Patch library than the hub's."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jsonpatch


@dataclass
class Report:
    """What a campaign came to."""

    kills: int = 0
    acknowledged: int = 0
    """Changes that clients were told to be stored."""
    refused: int = 0
    repeats: int = 0
    """Changes that were sent again since no answer came, and were there already."""
    longest_gap_seconds: float = 0.0
    """After a kill, in which no change was acknowledged."""
    lost: int = 0
    doubled: int = 0
    diverged: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not (self.lost or self.doubled or self.diverged)


def follow(copy: Any, ops: list[dict[str, Any]]) -> Any:
    """A copy with one update applied."""
    return jsonpatch.JsonPatch(ops).apply(copy, in_place=True)


def check(
    report: Report,
    acknowledged: dict[str, int],
    log: list[dict[str, Any]],
    stored: Any,
    copies: dict[str, tuple[int, Any]],
) -> Report:
    """`acknowledged` are the versions by change id that clients were told, `log` the changes that
    the hub keeps, `copies` what each client has, with its version."""
    versions: dict[str, list[int]] = {}
    replayed: Any = {}
    for expected, change in enumerate(log, 1):
        if change["version"] != expected:
            report.diverged += 1
            report.examples.append(f"version {change['version']} where {expected} follows")
        versions.setdefault(change["changeID"], []).append(change["version"])
        replayed = follow(replayed, change["ops"])
    for change_id, version in acknowledged.items():
        found = versions.get(change_id, [])
        if version not in found:
            report.lost += 1
            report.examples.append(f"{change_id} was acknowledged as {version}, and is {found}")
        elif len(found) > 1:
            report.doubled += 1
            report.examples.append(f"{change_id} is there as {found}")
    for who, (version, copy) in {"the log": (len(log), replayed), **copies}.items():
        if version != len(log) or copy != stored:
            report.diverged += 1
            report.examples.append(f"{who} stands at {version} and has another document")
    return report
