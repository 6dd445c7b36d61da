"""Which processes run where: the hub on a core of its own, attackers and victim on the others."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_HUB_NICENESS = -15


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


def _prioritise(niceness: int) -> None:
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def attacker_cores() -> set[int]:
    cores = set(range(os.cpu_count() or 1))
    return cores - {min(cores)} or cores


def use_cores(cores: set[int]) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.sched_setaffinity(0, cores)
