"""One measurement of the pipeline in a process of its own, with a Spark session of its own.

    python -m benchmarks.pipeline_worker round JOURNAL WAREHOUSE
    python -m benchmarks.pipeline_worker traffic WAREHOUSE

Prints one line of JSON. Starting Spark is not part of any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Self

from pyspark.sql import SparkSession

from benchmarks.pipeline_duckdb import traffic as duckdb_traffic
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.jobs.rounds import run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import open_snapshot

_LOOK_SECONDS = 0.5
_WARM_ROUNDS = 3
_ROUNDS = 5
_COMPARED = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_PERCENTILES = ("latency_p50", "latency_p90", "latency_p99")


def run(journal: Path, folder: Path) -> dict[str, Any]:
    """Bring a warehouse up to date, and once more with nothing new."""
    warehouse = Location(folder)
    steps: list[tuple[str, float]] = []
    with spark_session(folder / "_spark") as spark, Usage(spark) as usage:
        started, used = time.monotonic(), usage.cpu()
        report = run_round(
            warehouse,
            Location(journal),
            lambda: spark,
            said=lambda step: steps.append((step, time.monotonic() - started)),
        )
        seconds = time.monotonic() - started
        cpu = usage.cpu() - used
        memory = usage.memory()
        started = time.monotonic()
        run_round(warehouse, Location(journal), lambda: spark)
        idle = time.monotonic() - started
    snapshot = open_snapshot(warehouse)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "idle_seconds": idle,
        "events": report.events,
        "segments": report.segments,
        "tables": report.tables,
        "files": sum(len(snapshot.files(table)) for table in TABLES),
        "steps": steps,
        **memory,
    }


def compare(folder: Path) -> dict[str, Any]:
    """The view `traffic` from its facts, and by DuckDB from the same silver files, each warm."""
    snapshot = open_snapshot(folder)
    files = {
        name: [folder / name / file.path for file in snapshot.files(name)]
        for name in ("messages", "deliveries", "drops")
    }
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []

    def by_view() -> None:
        ours[:] = open_snapshot(folder).read("traffic").to_pylist()

    def by_duckdb() -> None:
        theirs[:] = duckdb_traffic(files)

    view_times, view_cpu = _times(by_view, time.process_time)
    duckdb_times, duckdb_cpu = _times(by_duckdb, time.process_time)
    _must_agree(ours, theirs)
    return {
        "rows": len(ours),
        "view_seconds": median(view_times),
        "duckdb_seconds": median(duckdb_times),
        "view_cpu_seconds": view_cpu,
        "duckdb_cpu_seconds": duckdb_cpu,
    }


def _times(work: Callable[[], None], used: Callable[[], float]) -> tuple[list[float], float]:
    """Seconds by the clock of several rounds, and CPU seconds of one on average."""
    for _ in range(_WARM_ROUNDS):
        work()
    found, before = [], used()
    for _ in range(_ROUNDS):
        started = time.monotonic()
        work()
        found.append(time.monotonic() - started)
    return found, (used() - before) / _ROUNDS


def _must_agree(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    def known(rows: list[dict[str, Any]]) -> dict[object, dict[str, Any]]:
        return {(row["hub"], row["time"]): row for row in rows}

    left, right = known(ours), known(theirs)
    assert left.keys() == right.keys(), "the two have other rows"
    for key, row in left.items():
        other = right[key]
        assert all(row[name] == other[name] for name in _COMPARED), (row, other)
        for name in _PERCENTILES:
            assert abs((row[name] or 0) - (other[name] or 0)) <= 1e-6 * (row[name] or 1), name


class Usage:
    """What the JVM, this process and those of Python's tasks use, looked at often: a task's process
    may end before all others do."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._gateway = gateway
        self._jvm: int = gateway.proc.pid
        self._cpu: dict[int, float] = {}
        self._tasks_peak = 0
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
        return sum(self._cpu.values()) + time.process_time()

    def memory(self) -> dict[str, int]:
        """The most that there ever was, in bytes; of all tasks together at one time."""
        factory = self._gateway.jvm.java.lang.management.ManagementFactory
        pools = factory.getMemoryPoolMXBeans()
        heap = sum(
            pool.getPeakUsage().getUsed()
            for pool in pools
            if pool.getType().toString().startswith("H")
        )
        return {
            "jvm_bytes": _peak(self._jvm),
            "heap_bytes": int(heap),
            "python_bytes": _peak(os.getpid()),
            "workers_bytes": self._tasks_peak,
        }

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        tasks = _below(self._jvm)
        for process in (self._jvm, *tasks):
            with contextlib.suppress(OSError):  # it has ended
                stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                self._cpu[process] = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        now = sum(_proportional(process) for process in tasks)
        self._tasks_peak = max(self._tasks_peak, now)


def _below(process: int) -> list[int]:
    """Its children, and theirs. To look at every process there is would take a tenth of a core."""
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += map(int, path.read_text().split())
    return [*found, *(other for child in found for other in _below(child))]


def _proportional(process: int) -> int:
    """Memory in bytes; what processes share counts once, in parts."""
    with contextlib.suppress(OSError):
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        found = re.search(r"Pss:\s+(\d+) kB", rollup)
        return int(found[1]) * 1024 if found else 0
    return 0


def _peak(process: int) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    what, *paths = sys.argv[1:]
    folders = [Path(path) for path in paths]
    found = run(*folders) if what == "round" else compare(*folders)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
