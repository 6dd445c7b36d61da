"""What a server costs, read from /proc: CPU seconds and resident memory, with its children."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and all of its descendants that are alive."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found.extend(int(child) for child in task.read_text().split())
    return found


def cpu_seconds(pid: int) -> float:
    return sum(_ticks(member) for member in family(pid)) / _TICKS


def resident_kilobytes(pid: int) -> int:
    return sum(resident(member) for member in family(pid))


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    # user and system time, and those of children that have ended
    return sum(int(field) for field in fields[11:15])


def resident(pid: int) -> int:
    """Anonymous and file pages of its own; pages shared with relatives are counted once each."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
