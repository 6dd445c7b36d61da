"""`python -m benchmarks.webhooks`: the table of the Light-PubSubHubbub paper again, and what dead
receivers cost the others; says what was missed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from statistics import median

from benchmarks.findings import Finding, spread, table
from benchmarks.load.processes import Bystanders
from benchmarks.webhooks import measures
from benchmarks.webhooks.clients import client_costs
from benchmarks.webhooks.measures import Latencies

TABLE_RUNS = 20
_SYNCS = 200
_CALLBACKS, _LIVING = 1000, 800


def _one(
    what: str, found: tuple[list[Latencies], Latencies], paper: str, reach_ms: float
) -> list[Finding]:
    """Of several rounds the middle one is shown."""
    rounds, many = found
    middle = sorted(rounds, key=lambda each: each.average)[len(rounds) // 2]
    averages = spread([each.average for each in rounds], " ms")
    return [
        Finding(
            f"{what}, {TABLE_RUNS} runs (paper: {paper})",
            f"avg {reach_ms:g} ms",
            f"{middle.table_row()}; avg of {len(rounds)} rounds {averages}",
            middle.average <= reach_ms,
        ),
        Finding(f"{what}, {len(many.runs):,} runs without a pause", "-", many.percentiles()),
        Finding(
            "for comparison: syncing 4 KB to the same disk, alone",
            "-",
            measures.bare_sync(_SYNCS).percentiles(),
        ),
        Finding(
            f"the same, {TABLE_RUNS} times after the pause that is before each of the runs above",
            "-",
            measures.bare_sync(TABLE_RUNS, measures.PAUSE_SECONDS).table_row(),
        ),
    ]


def light(rounds: int, runs: int) -> list[Finding]:
    paper = "min 13.51, avg 14.60, max 19.39, stddev 1.31"
    return _one("Light-PubSubHubbub", measures.light(rounds, TABLE_RUNS, runs), paper, 2)


def classic(rounds: int, runs: int) -> list[Finding]:
    paper = "min 173.49, avg 209.09, max 302.82, stddev 33.26"
    return _one("classic, ping and fetch", measures.classic(rounds, TABLE_RUNS, runs), paper, 10)


def fanout(publishes: int) -> list[Finding]:
    found = measures.fanout(_CALLBACKS, publishes)
    return [
        Finding(
            f"one publish to {_CALLBACKS:,} callbacks, hub on one core, connections open",
            "1 s",
            f"{spread(found.others, ' s')}, {found.cpu:.2f} CPU s",
            median(found.others) <= 1,
        ),
        Finding(
            "the same, no connection open",
            "1 s",
            f"{found.first:.2f} s, {found.first_cpu:.2f} CPU s",
            found.first <= 1,
        ),
    ]


def dead(rounds: int, publishes: int) -> list[Finding]:
    """The delay of a delivery to a receiver that lives, of the last one of a publish, and of the
    last one of the first publish."""
    ratios: dict[str, list[float]] = {"p50": [], "p99": [], "last": [], "first": []}
    for _ in range(rounds):
        calm = measures.delays(_LIVING, _CALLBACKS - _LIVING, False, publishes)
        some = measures.delays(_LIVING, _CALLBACKS - _LIVING, True, publishes)
        ratios["p50"].append(some.percentile(0.5) / calm.percentile(0.5))
        ratios["p99"].append(some.percentile(0.99) / calm.percentile(0.99))
        ratios["last"].append(median(some.last) / median(calm.last))
        ratios["first"].append(some.first / calm.first)
    reached = ", ".join(f"{name} {spread(values)}" for name, values in ratios.items())
    reached += f" times (last: {median(calm.last):.2f} s to {median(some.last):.2f} s)"
    what = f"{_CALLBACKS:,} callbacks, {_CALLBACKS - _LIVING} of them dead: delay of the others"
    met = all(median(values) <= 1.5 for values in ratios.values())
    return [Finding(what, "1.5 times", reached, met)]


def sustained(rounds: int, seconds: float) -> list[Finding]:
    found = [measures.sustained(100, seconds) for _ in range(rounds)]
    rates = [each.per_cpu_second for each in found]
    reached = (
        f"{spread(rates, '', 0)} ({spread([each.per_second for each in found], '/s', 0)},"
        f" receivers' CPU {spread([each.receiver_cpu for each in found])})"
    )
    what = "sustained deliveries per CPU second, 100 callbacks"
    return [Finding(what, "5,000", reached, median(rates) >= 5000)]


def client(rounds: int, requests: int) -> list[Finding]:
    found = [client_costs(requests) for _ in range(rounds)]
    own, other = [mine for mine, _ in found], [theirs for _, theirs in found]
    what = "CPU time of a request: the hub's client against aiohttp's"
    return [Finding(what, "-", f"{spread(own, ' µs', 0)} against {spread(other, ' µs', 0)}")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.webhooks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, fewer runs")
    parser.add_argument("--only", action="append", metavar="NAME", help="(repeatable)")
    options = parser.parse_args()
    runs, publishes, rounds, seconds = (1000, 5, 1, 4.0) if options.quick else (10_000, 20, 3, 10.0)
    scenarios: dict[str, Callable[[], list[Finding]]] = {
        "light": lambda: light(rounds, runs),
        "classic": lambda: classic(rounds, runs),
        "fanout": lambda: fanout(publishes),
        "dead": lambda: dead(rounds, publishes),
        "sustained": lambda: sustained(rounds, seconds),
        "client": lambda: client(rounds, runs),
    }
    found: list[Finding] = []
    for name in options.only or scenarios:
        others = Bystanders()
        part = scenarios[name]()
        found += part
        note = f"other programs used {others.cores():.1f} of {os.cpu_count()} cores meanwhile"
        print(f"{name}: {note}\n{table(part)}\n", flush=True)
    missed = sum(finding.met is False for finding in found)
    print(f"{table(found)}\n{missed} of {len(found)} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
