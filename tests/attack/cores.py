"""Which processes run where: the hub on a core of its own, attackers and victim on the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_HUB_NICENESS = -15
_SESSION = Path("/proc/self/autogroup")
"""Linux may share the CPU between sessions first: the niceness of a process counts only within its
own, and this is the niceness of the session."""


@contextlib.contextmanager
def ahead() -> Iterator[None]:
    """What is started in the block runs on the first core, where there are several: attackers and
    victim share the others, so that the hub's own behaviour is seen and not who gets its CPU.
    Where this process may, the hub also goes before other programs of the machine."""
    before, priority = os.sched_getaffinity(0), os.getpriority(os.PRIO_PROCESS, 0)
    use_cores(set(sorted(before)[:1]))
    _prioritise(_HUB_NICENESS)
    try:
        yield
    finally:
        use_cores(before)
        _prioritise(priority)


@contextlib.contextmanager
def session_ahead() -> Iterator[None]:
    """Where this process may, its session goes before other programs of the machine meanwhile."""
    before = _SESSION.read_text().rpartition(" ")[2].strip() if _SESSION.exists() else ""
    _prioritise_session(str(_HUB_NICENESS) if before else "")
    try:
        yield
    finally:
        _prioritise_session(before)


def _prioritise_session(niceness: str) -> None:
    if niceness:
        with contextlib.suppress(OSError):
            _SESSION.write_text(niceness)


def _prioritise(niceness: int) -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def attacker_cores() -> set[int]:
    cores = set(range(os.cpu_count() or 1))
    return cores - {min(cores)} or cores


def use_cores(cores: set[int]) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.sched_setaffinity(0, cores)
