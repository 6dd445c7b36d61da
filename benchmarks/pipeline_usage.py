"""What a process and all processes below it use: CPU time and memory, looked at often, since a
process of a task may end before all others do."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_LOOK_SECONDS = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes at the moment when the tree had most."""

    total: int = 0
    java: int = 0
    python: int = 0


class Usage:
    def __init__(self, process: int) -> None:
        self.memory = Memory()
        self._root = process
        self._cpu: dict[int, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def cpu(self) -> float:
        """CPU seconds so far: steadier than the clock on a machine that has other work."""
        self._look()
        return sum(self._cpu.values())

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        java = python = 0
        for process in (self._root, *_below(self._root)):
            with contextlib.suppress(OSError):  # it has ended
                name, stat = _stat(process)
                self._cpu[process] = (int(stat[11]) + int(stat[12])) / _TICKS
                if name == "java":
                    java += _proportional(process)
                else:
                    python += _proportional(process)
        if java + python > self.memory.total:
            self.memory = Memory(java + python, java, python)


def _stat(process: int) -> tuple[str, list[str]]:
    text = Path(f"/proc/{process}/stat").read_text()
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, rest.split()


def _below(process: int) -> list[int]:
    """Its children, and theirs. To look at every process there is would take a tenth of a core."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, path.read_text().split())
    return [*found, *(other for child in found for other in _below(child))]


def _proportional(process: int) -> int:
    """Memory in bytes; what processes share counts once, in parts."""
    rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
    found = re.search(r"Pss:\s+(\d+) kB", rollup)
    return int(found[1]) * 1024 if found else 0
