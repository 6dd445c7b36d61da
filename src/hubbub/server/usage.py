"""What this process uses of the machine."""

from __future__ import annotations

from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from time import process_time

_STATM = Path("/proc/self/statm")


def process_usage() -> tuple[float, int]:
    """CPU seconds so far, and bytes in memory: the most that there were, where the system does not
    say how many there are."""
    try:
        resident = int(_STATM.read_bytes().split()[1]) * getpagesize()
    except (OSError, IndexError, ValueError):
        resident = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    return process_time(), resident
