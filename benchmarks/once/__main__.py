"""`python -m benchmarks.once`: exactly once, measured beside JetStream; says what was missed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from statistics import median
from typing import Any

import uvloop

from benchmarks.findings import Finding, spread, table
from benchmarks.once import large
from benchmarks.once.measures import gets_per_second, put_to_get_milliseconds, puts_per_second
from benchmarks.once.servers import Start, Subject, hub, jetstream
from benchmarks.postgres import PASSWORD, USER, LocalPostgres, local_postgres

Measure = Callable[[Subject], Coroutine[Any, Any, Any]]


def _run(start: Start, measure: Measure) -> Any:
    with start() as subject:
        return uvloop.run(measure(subject))


def puts(rounds: int, seconds: float) -> Finding:
    ratios, ours, theirs = [], [], []
    for _ in range(rounds):
        peer, *_ = _run(jetstream, lambda s: puts_per_second(s, 100, seconds))
        mine, p99, cpu = _run(hub, lambda s: puts_per_second(s, 100, seconds))
        ratios.append(mine / peer)
        ours.append(mine)
        theirs.append(peer)
    reached = (
        f"{spread(ratios)} times ({median(ours):,.0f}/s, p99 {p99:.0f} ms,"
        f" {cpu:.0f} CPU s a million, against {median(theirs):,.0f}/s)"
    )
    what = "100 producers, each waiting for its confirmation, SQLite"
    return Finding(what, "2.5 times JetStream", reached, median(ratios) >= 2.5)


def puts_on_postgres(rounds: int, seconds: float) -> Finding:
    rates = []
    for _ in range(rounds):
        with local_postgres() as server:
            start = partial(hub, {"postgres": _place_of(server)})
            rate, p99, _ = _run(start, lambda s: puts_per_second(s, 1000, seconds))
            rates.append(rate)
    what = "1,000 producers, each waiting for its confirmation, PostgreSQL"
    reached = f"{spread(rates, '/s', 0)}, p99 {p99:.0f} ms"
    return Finding(what, "10,000/s", reached, median(rates) >= 10_000)


def _place_of(server: LocalPostgres) -> dict[str, object]:
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "user": USER,
        "password": PASSWORD,
        "dbName": "postgres",
        "sslMode": "disable",
    }


def gets(rounds: int, count: int) -> Finding:
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_run(jetstream, lambda s: gets_per_second(s, count // 4)))
        ours.append(_run(hub, lambda s: gets_per_second(s, count)))
    mine, peer = median(ours), median(theirs)
    reached = f"{spread(ours, '/s', 0)} against {spread(theirs, '/s', 0)}"
    what = "one consumer, get and acknowledge in batches of 100"
    return Finding(what, "20,000/s, not below JetStream", reached, mine >= max(20_000, peer))


def latency(rounds: int, count: int) -> Finding:
    ours, theirs = [], []
    for _ in range(rounds):
        theirs.append(_run(jetstream, lambda s: put_to_get_milliseconds(s, count)))
        ours.append(_run(hub, lambda s: put_to_get_milliseconds(s, count)))
    reached = f"{spread(ours, ' ms')} against {spread(theirs, ' ms')}"
    return Finding("put to waiting get, p50", "5 ms", reached, median(ours) <= 5)


def recovery(count: int) -> Finding:
    seconds = large.recovery_seconds(count)
    what = f"serving again after SIGKILL with {count:,} messages stored"
    return Finding(what, "2 s", f"{seconds:.2f} s", seconds <= 2)


def backlog(messages: int, subscriptions: int) -> Finding:
    few = large.backlog(1000, 1, 300)
    many = large.backlog(messages, subscriptions, 300)
    get, ack = many.get / few.get, many.ack / few.ack
    reached = (
        f"get {get:.2f} times ({few.get:.2f} to {many.get:.2f} ms),"
        f" acknowledge {ack:.2f} times ({few.ack:.2f} to {many.ack:.2f} ms)"
    )
    what = f"cost with {messages:,} unacknowledged for {subscriptions:,} subscriptions"
    return Finding(what, "within 2 times", reached, max(get, ack) <= 2)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.once", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, less data")
    parser.add_argument("--only", action="append", metavar="NAME", help="(repeatable)")
    options = parser.parse_args()
    rounds, seconds = (1, 2.0) if options.quick else (3, 6.0)
    scale = 10 if options.quick else 1
    measures: dict[str, Callable[[], Finding]] = {
        "puts": lambda: puts(rounds, seconds),
        "postgres": lambda: puts_on_postgres(rounds, seconds),
        "gets": lambda: gets(rounds, 100_000 // scale),
        "latency": lambda: latency(rounds, 200),
        "recovery": lambda: recovery(5_000_000 // scale),
        "backlog": lambda: backlog(1_000_000 // scale, 1000),
    }
    found = []
    for name in options.only or measures:
        found.append(measures[name]())
        print(f"{name}\n{table(found[-1:])}\n", flush=True)
    missed = sum(finding.met is False for finding in found)
    print(f"{table(found)}\n{missed} of {len(found)} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
