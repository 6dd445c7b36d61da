"""`python -m benchmarks.pipeline`: how fast the pipeline is, on a generated day of events.

Prints what was to be reached, what was reached, and says honestly what was missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.findings import Finding, as_json, table
from benchmarks.pipeline_day import EVENTS, write_day

LARGE = 4
"""How many times more events the larger day has."""
_GIGABYTE = 1e9


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="hubbub-bench-", dir=options.folder))
    findings: list[Finding] = []
    try:
        findings += _day(folder / "day", options.events)
        if not options.quick:
            findings += _large_day(folder / "large", options.events * LARGE, findings[0])
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    promised = [finding for finding in findings if finding.reach]
    missed = sum(finding.met is False for finding in promised)
    print(f"\n{table(findings)}\n{missed} of {len(promised)} missed")
    if options.json:
        options.json.write_text(as_json(findings))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"(default {EVENTS:,})")
    parser.add_argument("--quick", action="store_true", help="without the day of 4 times as many")
    parser.add_argument("--folder", type=Path, help="where to put the data (default: temporary)")
    parser.add_argument("--keep", action="store_true", help="leave the data there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


def _day(folder: Path, events: int) -> list[Finding]:
    late = folder / "late"
    _generate(folder, events, late)
    full = _worker("round", folder / "journal", folder / "warehouse")
    for segment in late.iterdir():
        segment.rename(folder / "journal" / "sealed" / segment.name)
    new = _worker("round", folder / "journal", folder / "warehouse")
    both = _worker("traffic", folder / "warehouse")
    rate = full["events"] / full["seconds"]
    return [
        Finding(
            "full rebuild, all tables",
            "60,000 events/s",
            f"{rate:,.0f} events/s ({full['events']:,} in {full['seconds']:.1f} s;"
            f" {full['cpu_seconds']:.0f} CPU s; {full['files']} files)",
            rate >= 60_000,
            full,
        ),
        Finding(
            "a round with 1 % new events, Spark just started",
            "90 CPU s",
            f"{new['cpu_seconds']:.0f} CPU s ({new['events']:,} events in {new['seconds']:.1f} s)",
            new["cpu_seconds"] <= 90,
            new,
        ),
        Finding(
            "a warm round with nothing new",
            "1 s",
            f"{new['idle_seconds']:.2f} s",
            new["idle_seconds"] <= 1,
        ),
        Finding(
            "view traffic with percentiles, against DuckDB over silver",
            "",
            f"{both['view_seconds']:.2f} s against {both['duckdb_seconds']:.2f} s (CPU"
            f" {both['view_cpu_seconds']:.2f} against {both['duckdb_cpu_seconds']:.2f} s)",
            None,
            both,
        ),
        _memory(full, events),
    ]


def _large_day(folder: Path, events: int, small: Finding) -> list[Finding]:
    _generate(folder, events, None)
    full = _worker("round", folder / "journal", folder / "warehouse")
    growth = full["seconds"] / float(str(small.raw["seconds"]))
    share = full["events"] / int(str(small.raw["events"]))
    return [
        _memory(full, events),
        Finding(
            f"time for {share:.1f} times the events",
            "at most 4.2 times",
            f"{growth:.2f} times ({full['seconds']:.1f} s,"
            f" {full['events'] / full['seconds']:,.0f} events/s; {full['cpu_seconds']:.0f} CPU s,"
            f" {full['cpu_seconds'] / float(str(small.raw['cpu_seconds'])):.2f} times)",
            growth <= 4.2,
            full,
        ),
    ]


def _memory(full: dict[str, Any], events: int) -> Finding:
    gigabytes = {
        name: full[f"{name}_bytes"] / _GIGABYTE for name in ("jvm", "heap", "python", "workers")
    }
    total = gigabytes["jvm"] + gigabytes["python"] + gigabytes["workers"]
    return Finding(
        f"memory of the driver, {events / 1e6:g} million events",
        "4 GB",
        f"{total:.2f} GB (JVM {gigabytes['jvm']:.2f} with a heap of {gigabytes['heap']:.2f},"
        f" Python {gigabytes['python']:.2f}, its tasks {gigabytes['workers']:.2f})",
        total * _GIGABYTE <= 4 * 2**30,
    )


def _generate(folder: Path, events: int, late: Path | None) -> None:
    started = time.monotonic()
    day = write_day(folder / "journal" / "sealed", events, late=late)
    print(
        f"{day.events:,} events, {day.bytes / 1e6:,.0f} MB, written in"
        f" {time.monotonic() - started:.0f} s",
        flush=True,
    )


def _worker(what: str, *folders: Path) -> dict[str, Any]:
    """A measurement in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.pipeline_worker", what, *map(str, folders)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    shown = {name: value for name, value in found.items() if name != "steps"}
    print(f"{what}: {json.dumps(shown)}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
