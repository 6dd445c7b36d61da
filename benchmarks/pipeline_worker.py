"""One measurement of the pipeline in a process of its own, with a Spark session of its own.

    python -m benchmarks.pipeline_worker round JOURNAL WAREHOUSE
    python -m benchmarks.pipeline_worker rounds JOURNAL WAREHOUSE LATE
    python -m benchmarks.pipeline_worker tasks JOURNAL WAREHOUSE
    python -m benchmarks.pipeline_worker traffic WAREHOUSE

Prints one line of JSON. Starting Spark is not part of any time. `round` means the same to the code
of before, so that both can be measured in turns.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.pipeline_duckdb import traffic as duckdb_traffic
from benchmarks.pipeline_usage import Usage
from hubbub.pipeline.catalogue import TABLES
from hubbub.pipeline.jobs.rounds import run_round
from hubbub.pipeline.session import spark_session
from hubbub.pipeline.tables.location import Location
from hubbub.pipeline.tables.snapshot import open_snapshot

_WARM_ROUNDS = 3
_ROUNDS = 5
_COMPARED = ("messages_in", "bytes_in", "messages_out", "bytes_out", "dropped")
_PERCENTILES = ("latency_p50", "latency_p90", "latency_p99")
_HEAVY = 0.05
"""A stage is heavy from this share of the time of all tasks on."""


def run(journal: Path, folder: Path, late: Path | None = None) -> dict[str, Any]:
    """Bring a warehouse up to date; then, still warm, with nothing new, and with the segments of
    the folder `late`."""
    found: dict[str, Any] = {}
    with (
        spark_session(folder / "_spark") as spark,
        Usage(os.getpid()) as usage,
    ):

        def one() -> dict[str, Any]:
            started, used = time.monotonic(), usage.cpu()
            steps: list[tuple[str, float]] = []
            report = run_round(
                Location(folder),
                Location(journal),
                lambda: spark,
                said=lambda step: steps.append((step, time.monotonic() - started)),
            )
            return {
                "seconds": time.monotonic() - started,
                "cpu_seconds": usage.cpu() - used,
                "events": report.events,
                "segments": report.segments,
                "tables": report.tables,
                "steps": steps,
            }

        found = one()
        found["memory"] = asdict(usage.memory)
        found["idle"] = one()
        if late is not None:
            for segment in late.iterdir():
                segment.rename(journal / "sealed" / segment.name)
            found["warm"] = one()
    found["files"] = count_files(folder)
    return found


def count_files(folder: Path) -> int:
    """Data files of all tables, as of the last round."""
    snapshot = open_snapshot(folder)
    return sum(len(snapshot.files(table)) for table in TABLES)


def tasks(journal: Path, folder: Path) -> dict[str, Any]:
    """How a rebuild with eight tasks at a time is divided, from what Spark logs of itself."""
    log = folder / "events"
    log.mkdir(parents=True)
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{log}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    with spark_session(folder / "_spark", "local[8]", settings=settings) as spark:
        run_round(Location(folder), Location(journal), lambda: spark)
    times: dict[int, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    for path in log.iterdir():
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                times[event["Stage ID"]].append(event["Task Metrics"]["Executor Run Time"])
            elif event["Event"] == "SparkListenerStageCompleted":
                names[event["Stage Info"]["Stage ID"]] = event["Stage Info"]["Stage Name"]
    total = sum(map(sum, times.values()))
    return {
        "stages": [
            {
                "stage": names.get(stage, str(stage)),
                "share": sum(found) / total,
                "tasks": len(found),
                "median_ms": median(found),
                "largest_ms": max(found),
            }
            for stage, found in sorted(times.items())
            if sum(found) >= _HEAVY * total
        ]
    }


def compare(folder: Path) -> dict[str, Any]:
    """Reads `traffic`, and has DuckDB compute it from the same silver files, each warm."""
    snapshot = open_snapshot(folder)
    files = {
        name: [folder / name / file.path for file in snapshot.files(name)]
        for name in ("messages", "deliveries", "drops")
    }
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []

    def by_reading() -> None:
        ours[:] = open_snapshot(folder).read("traffic").to_pylist()

    def by_duckdb() -> None:
        theirs[:] = duckdb_traffic(files)

    view_times, view_cpu = _times(by_reading, time.process_time)
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


def main() -> None:
    what, *paths = sys.argv[1:]
    known: dict[str, Callable[..., dict[str, Any]]] = {
        "round": run,
        "rounds": run,
        "tasks": tasks,
        "traffic": compare,
    }
    print(json.dumps(known[what](*map(Path, paths))))


if __name__ == "__main__":
    main()
