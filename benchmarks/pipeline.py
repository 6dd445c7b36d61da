"""`python -m benchmarks.pipeline`: how fast the pipeline is, on a generated day of events.

Prints what was to be reached, what was reached, and says honestly what was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.findings import Finding, as_json, table
from benchmarks.pipeline_day import EVENTS, write_day
from benchmarks.pipeline_sparse import write_years
from benchmarks.pipeline_usage import Usage

LARGE = 4
"""How many times more events the larger day has; the smaller one has a fifth."""
_GIGABYTE = 1e9
_ROOT = Path(__file__).parents[1]


def main() -> int:
    options = _options()
    folder = Path(tempfile.mkdtemp(prefix="hubbub-bench-", dir=options.folder))
    findings: list[Finding] = []
    parts: dict[str, Callable[[], Iterable[Finding]]] = {
        "day": lambda: _day(folder / "day", options.events, options.old, options.turns),
        "years": lambda: _years(folder / "years"),
        "tasks": lambda: _tasks(folder / "tasks", options.events),
        "workers": lambda: _workers(folder / "workers", options.events),
        "growth": lambda: _growth(folder / "growth", options.events),
    }
    wanted = options.only or [name for name in parts if name != "growth" or options.growth]
    try:
        for name in wanted:
            for finding in parts[name]():
                print(table([finding]), flush=True)
                findings.append(finding)
            if not options.keep:
                shutil.rmtree(folder / name, ignore_errors=True)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    promised = [finding for finding in findings if finding.reach]
    missed = sum(finding.met is False for finding in promised)
    print(f"\n{table(findings)}\n{missed} of {len(promised)} missed")
    if options.json:
        options.json.write_text(as_json(findings))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"(default {EVENTS:,})")
    parser.add_argument("--old", type=Path, help="a checkout of another design, in turns with it")
    parser.add_argument("--turns", type=int, default=1, help="how often both (default 1)")
    parser.add_argument("--growth", action="store_true", help="also a fifth and 4 times as many")
    parser.add_argument(
        "--only", nargs="+", choices=["day", "years", "tasks", "workers", "growth"], metavar="PART"
    )
    parser.add_argument("--folder", type=Path, help="where to put the data (default: temporary)")
    parser.add_argument("--keep", action="store_true", help="leave the data there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


# -- a day ----------------------------------------------------------------------------------------


def _day(folder: Path, events: int, old: Path | None, turns: int) -> Iterable[Finding]:
    journal, warehouse = folder / "journal", folder / "warehouse"
    _generate(folder, events, [folder / "late", folder / "later"])
    before, now = [], []
    for turn in range(turns):
        if old is not None:
            before.append(_worker("round", journal, folder / f"old{turn}", checkout=old))
        if turn < turns - 1:
            now.append(_worker("round", journal, folder / f"new{turn}"))
    full = _worker("rounds", journal, warehouse, folder / "late")
    now.append(full)
    rate = full["events"] / full["seconds"]
    yield Finding(
        "full rebuild, all tables",
        "60,000 events/s",
        f"{rate:,.0f} events/s ({full['events']:,} in {full['seconds']:.1f} s;"
        f" {full['cpu_seconds']:.0f} CPU s; {full['files']} files)",
        rate >= 60_000,
        full,
    )
    if old is not None:
        ours, theirs = (min(one["cpu_seconds"] for one in some) for some in (now, before))
        yield Finding(
            "the same, CPU against the design of before, in turns",
            "at most 2.5 times",
            f"{ours / theirs:.2f} times ({ours:.0f} against {theirs:.0f} CPU s; "
            + ", ".join(f"{one['seconds']:.0f}" for one in now)
            + " against "
            + ", ".join(f"{one['seconds']:.0f}" for one in before)
            + " s)",
            ours <= 2.5 * theirs,
            {"before": before, "now": now},
        )
    yield _memory(full, events)
    idle, warm = full["idle"], full["warm"]
    yield Finding(
        "a warm round with nothing new",
        "1 s",
        f"{idle['seconds']:.2f} s ({idle['cpu_seconds']:.2f} CPU s)",
        idle["seconds"] <= 1,
    )
    yield Finding(
        "a warm round with 1 % new events",
        "40 CPU s",
        f"{warm['cpu_seconds']:.0f} CPU s ({warm['events']:,} events in {warm['seconds']:.1f} s)",
        warm["cpu_seconds"] <= 40,
        warm,
    )
    _move(folder / "later", journal)
    yield _cold(journal, warehouse)
    yield _against_duckdb(warehouse)


def _cold(journal: Path, warehouse: Path) -> Finding:
    new = _command(journal, warehouse)
    return Finding(
        "`hubbub pipeline run` with 1 % new, with the start of Spark",
        "90 CPU s",
        f"{new['cpu_seconds']:.0f} CPU s ({new['events']:,} events in {new['seconds']:.1f} s)",
        new["cpu_seconds"] <= 90,
        new,
    )


def _against_duckdb(warehouse: Path) -> Finding:
    both = _worker("traffic", warehouse)
    return Finding(
        "reading traffic, against DuckDB over silver, both warm",
        "",
        f"{both['view_seconds']:.2f} s against {both['duckdb_seconds']:.2f} s (CPU"
        f" {both['view_cpu_seconds']:.2f} against {both['duckdb_cpu_seconds']:.2f} s)",
        None,
        both,
    )


def _memory(full: dict[str, Any], events: int) -> Finding:
    memory = {name: size / _GIGABYTE for name, size in full["memory"].items()}
    return Finding(
        f"memory of all processes together, {events / 1e6:g} million events",
        "4 GB",
        f"{memory['total']:.2f} GB (Java {memory['java']:.2f}, Python {memory['python']:.2f})",
        full["memory"]["total"] <= 4 * 2**30,
    )


# -- other shapes ---------------------------------------------------------------------------------


def _years(folder: Path) -> Iterable[Finding]:
    from benchmarks.pipeline_worker import count_files

    messages = write_years(folder / "journal" / "sealed")
    found = _command(folder / "journal", folder / "warehouse")
    files = count_files(folder / "warehouse")
    yield Finding(
        f"{messages:,} messages over two years, with the start of Spark",
        "90 s, fewer than 500 data files",
        f"{found['seconds']:.0f} s ({found['cpu_seconds']:.0f} CPU s), {files} data files",
        found["seconds"] < 90 and files < 500,
        found,
    )


def _tasks(folder: Path, events: int) -> Iterable[Finding]:
    _generate(folder, events)
    stages = _worker("tasks", folder / "journal", folder / "warehouse")["stages"]
    fewest = min(stage["tasks"] for stage in stages)
    skew = max(stage["largest_ms"] / max(stage["median_ms"], 1) for stage in stages)
    said = "; ".join(
        f"{stage['tasks']} tasks with {stage['share']:.0%} of the time, the largest"
        f" {stage['largest_ms'] / max(stage['median_ms'], 1):.1f} times the median"
        for stage in stages
    )
    yield Finding(
        f"heavy stages at local[8], {events / 1e6:g} million events",
        "16 tasks; largest at most twice the median",
        said,
        fewest >= 16 and skew <= 2,
        {"stages": stages},
    )


def _workers(folder: Path, events: int) -> Iterable[Finding]:
    sys.path.insert(0, str(_ROOT / "tests"))
    from harness.spark_cluster import spark_cluster

    _generate(folder, events)
    seconds = []
    for workers in (1, 2):
        logs = folder / f"cluster{workers}"
        logs.mkdir()
        with spark_cluster(logs, workers) as cluster:
            there = folder / f"warehouse{workers}"
            seconds.append(_command(folder / "journal", there, "--master", cluster.address))
    one, two = (found["round_seconds"] for found in seconds)
    yield Finding(
        f"a standalone cluster of two workers against one, {events / 1e6:g} million events",
        "1.4 times",
        f"{one / two:.2f} times ({one:.0f} against {two:.0f} s)",
        one >= 1.4 * two,
        {"one": seconds[0], "two": seconds[1]},
    )


def _growth(folder: Path, events: int) -> Iterable[Finding]:
    found = []
    for size in (events // 5, events, events * LARGE):
        _generate(folder / str(size), size)
        full = _worker("round", folder / str(size) / "journal", folder / str(size) / "warehouse")
        found.append(full)
        yield _memory(full, size)
        if size != events * LARGE:
            shutil.rmtree(folder / str(size))
    yield _against_duckdb(folder / str(events * LARGE) / "warehouse")
    small, middle, large = found
    growth = large["seconds"] / middle["seconds"]
    yield Finding(
        f"time for {large['events'] / middle['events']:.1f} times the events",
        "at most 4.2 times",
        f"{growth:.2f} times ({large['seconds']:.1f} s,"
        f" {large['events'] / large['seconds']:,.0f} events/s; {large['cpu_seconds']:.0f} CPU s,"
        f" {large['cpu_seconds'] / middle['cpu_seconds']:.2f} times)",
        growth <= 4.2,
        large,
    )
    million = 1e6 * (large["cpu_seconds"] - small["cpu_seconds"])
    million /= large["events"] - small["events"]
    fixed = small["cpu_seconds"] - million * small["events"] / 1e6
    yield Finding(
        "what is fixed, and what grows, in CPU",
        "",
        f"{fixed:.0f} CPU s, and {million:.1f} for each million of events ("
        + ", ".join(f"{one['events'] / 1e6:.1f}: {one['cpu_seconds']:.0f}" for one in found)
        + ")",
    )


# -- doing it -------------------------------------------------------------------------------------


def _generate(folder: Path, events: int, late: Iterable[Path] = ()) -> None:
    started = time.monotonic()
    day = write_day(folder / "journal" / "sealed", events, late=list(late))
    print(
        f"{day.events:,} events, {day.bytes / 1e6:,.0f} MB, written in"
        f" {time.monotonic() - started:.0f} s",
        flush=True,
    )


def _move(late: Path, journal: Path) -> None:
    for segment in late.iterdir():
        segment.rename(journal / "sealed" / segment.name)


def _worker(what: str, *folders: Path, checkout: Path = _ROOT) -> dict[str, Any]:
    """A measurement in a process of its own, by the code of a checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pipeline_worker", what, *map(str, folders)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"},
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    shown = {name: value for name, value in found.items() if name != "steps"}
    print(f"{what} by {checkout.name}: {json.dumps(shown)}", flush=True)
    return found


def _command(journal: Path, warehouse: Path, *options: str) -> dict[str, Any]:
    """`hubbub pipeline run`, as an operator runs it."""
    places = ("--journal", str(journal), "--warehouse", str(warehouse))
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "hubbub.cli.main", "pipeline", "run", "--json", *places, *options],
        stdout=subprocess.PIPE,
        text=True,
    )
    with Usage(process.pid) as usage:
        output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"hubbub pipeline run ended with {process.returncode}")
    report = json.loads(output)
    return {
        "seconds": time.monotonic() - started,
        "round_seconds": report["seconds"],
        "cpu_seconds": usage.cpu(),
        "events": report["events"],
    }


if __name__ == "__main__":
    sys.exit(main())
