"""One measurement of the pipeline in a process of its own, with a Spark session of its own.

    python -m benchmarks.pipeline_worker round JOURNAL WAREHOUSE
    python -m benchmarks.pipeline_worker traffic WAREHOUSE

Prints one line of JSON. Starting Spark is not part of any time.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.pipeline_duckdb import traffic as duckdb_traffic
from hubbub.pipeline.gold import TABLES, traffic
from hubbub.pipeline.reading import read_silver
from hubbub.pipeline.rounds import run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.warehouse import Warehouse

_WARM_ROUNDS = 3
_ROUNDS = 5
_COMPARED = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_PERCENTILES = ("latency_p50", "latency_p90", "latency_p99")


def run(journal: Path, folder: Path) -> dict[str, Any]:
    """Bring a warehouse up to date."""
    warehouse = Warehouse(folder)
    steps: list[tuple[str, float]] = []
    with warehouse.changing(), spark_session(warehouse.state_folder) as spark:
        started, used = time.monotonic(), _cpu(spark)
        summary = run_round(
            warehouse,
            journal,
            TABLES,
            lambda: spark,
            said=lambda step: steps.append((step, time.monotonic() - started)),
        )
        seconds = time.monotonic() - started
        cpu = _cpu(spark) - used
        memory = _memory(spark)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "events": summary.events,
        "segments": summary.segments,
        "tables": summary.tables,
        "silver_seconds": summary.silver_seconds,
        "gold_seconds": summary.gold_seconds,
        "steps": steps,
        **memory,
    }


def compare(folder: Path) -> dict[str, Any]:
    """The table `traffic` from the same files, by Spark and by DuckDB, each warm."""
    warehouse = Warehouse(folder)
    warehouse.load()
    files = {name: warehouse.files(name) for name in traffic.TABLE.sources}
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    with spark_session(warehouse.state_folder) as spark:

        def by_spark() -> None:
            sources = {name: read_silver(spark, warehouse, name) for name in files}
            ours[:] = [row.asDict() for row in traffic.TABLE.transform(sources).collect()]

        def by_duckdb() -> None:
            theirs[:] = duckdb_traffic(files)

        spark_times, spark_cpu = _times(by_spark, lambda: _cpu(spark))
        duckdb_times, duckdb_cpu = _times(by_duckdb, time.process_time)
    _must_agree(ours, theirs)
    return {
        "rows": len(ours),
        "spark_seconds": median(spark_times),
        "duckdb_seconds": median(duckdb_times),
        "spark_cpu_seconds": spark_cpu,
        "duckdb_cpu_seconds": duckdb_cpu,
        "spark_times": spark_times,
        "duckdb_times": duckdb_times,
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


def _memory(spark: SparkSession) -> dict[str, int]:
    """The most that the JVM, its heap, this process and those of Python's tasks ever had, in
    bytes."""
    gateway: Any = spark.sparkContext._gateway
    factory = gateway.jvm.java.lang.management.ManagementFactory
    pools = factory.getMemoryPoolMXBeans()
    heap = sum(
        pool.getPeakUsage().getUsed() for pool in pools if pool.getType().toString().startswith("H")
    )
    return {
        "jvm_bytes": _peak(gateway.proc.pid),
        "heap_bytes": int(heap),
        "python_bytes": _peak(os.getpid()),
        "workers_bytes": sum(_peak(worker) for worker in _below(gateway.proc.pid)),
    }


def _cpu(spark: SparkSession) -> float:
    """CPU seconds of the JVM, of this process and of those of Python's tasks so far: steadier than
    the clock on a machine that has other work."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.proc.pid
    return sum(map(_used, (jvm, *_below(jvm)))) + time.process_time()


def _used(process: int) -> float:
    """Also of its children that ended."""
    fields = _stat(process)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _stat(process: int) -> list[str]:
    """From the state on; nothing of a process that is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _below(process: int) -> list[int]:
    """Its children, and theirs."""
    parents = {
        int(path.name): fields[1]
        for path in Path("/proc").glob("[0-9]*")
        if (fields := _stat(int(path.name)))
    }
    found, last = [], [process]
    while last:
        last = [child for child, parent in parents.items() if int(parent) in last]
        found += last
    return found


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
