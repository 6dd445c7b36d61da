"""What a server costs, read from /proc: CPU seconds and resident memory, with its children."""

from __future__ import annotations

import contextlib
import os
import resource
import time
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


def scheduled_seconds(pid: int) -> float:
    """As `cpu_seconds`, to the nanosecond; the time of threads and children that ended is missing.

    For short measurements, in which a tick of 10 ms would be several percent.
    """
    nanoseconds = 0
    for member in family(pid):
        for task in Path(f"/proc/{member}/task").glob("*/schedstat"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                nanoseconds += int(task.read_text().split()[0])
    return nanoseconds / 1e9


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


class Bystanders:
    """How much of the machine other programs use, from now on. On a busy machine times say little
    without it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds() - _own_seconds()

    def cores(self) -> float:
        """On average. Children of this process count as its own once they have ended."""
        busy = _busy_seconds() - _own_seconds() - self._busy
        return max(0.0, busy) / (time.monotonic() - self._began)


def _busy_seconds() -> float:
    user, nice, system, _, _, *more = Path("/proc/stat").read_text().split("\n")[0].split()[1:]
    return sum(map(int, (user, nice, system, *more[:2]))) / _TICKS


def _own_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
