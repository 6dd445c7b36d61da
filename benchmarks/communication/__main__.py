"""`python -m benchmarks.communication`: the evaluation of the SmartCom report again, and what slow
adapters, many rules and many peers cost; says what was missed."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import uvloop

from benchmarks.communication import activemq
from benchmarks.communication.hub import in_process_of_its_own
from benchmarks.findings import Finding, spread, table
from benchmarks.load.processes import Bystanders
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.routing import RoutingIndex, RoutingRule

WORKERS = (1, 5, 10, 20, 50, 100)
REPORT = {
    1: (4034, 4356, 4347, 4387, 4482, 4472),
    10: (4459, 4370, 4254, 4291, 4131, 4222),
    100: (4421, 4386, 4245, 4227, 4402, 4429),
    1000: (3004, 3052, 3030, 3098, 3069, 3115),
}
"""Requests and replies each second: by peers, for each number of workers."""
_FALLING = 0.85
"""Below this part of the cells with fewer peers, 1,000 peers would be slower."""
_BESIDE = ((1, 1, False), (10, 100, False), (100, 1000, False), (10, 100, True))
"""Workers, peers, and whether in memory."""
Cells = dict[tuple[int, int], dict[str, Any]]


def evaluate(transient: bool, chosen: list[tuple[int, int]], seconds: float) -> Cells:
    found: Cells = {}
    for workers, peers in chosen:
        arguments = (workers, peers, transient, seconds, seconds / 3)
        cell = found[workers, peers] = in_process_of_its_own("evaluation", *arguments)
        print(f"{workers} workers, {peers} peers: {cell['rate']:,.0f}/s", flush=True)
    return found


def _grid(cells: Mapping[tuple[int, int], float]) -> str:
    """As the report's table: a row for each number of peers."""
    workers = sorted({worker for worker, _ in cells})
    lines = ["peers \\ workers" + "".join(f"{each:>16}" for each in workers)]
    for peers in sorted({peers for _, peers in cells}):
        row = []
        for each in workers:
            ours, theirs = cells.get((each, peers)), REPORT[peers][WORKERS.index(each)]
            row.append("" if ours is None else f"{ours:,.0f} ({theirs:,})")
        lines.append(f"{peers:<15}" + "".join(f"{cell:>16}" for cell in row))
    return "\n".join(lines)


def _against_fewer(found: Mapping[tuple[int, int], float]) -> list[float]:
    """For each number of workers, 1,000 peers against the fewer ones."""
    ratios = []
    for workers in sorted({worker for worker, _ in found}):
        fewer = [each for (w, peers), each in found.items() if w == workers and peers < 1000]
        many = found.get((workers, 1000))
        if fewer and many:
            ratios.append(many / median(fewer))
    return ratios


def durable(chosen: list[tuple[int, int]], seconds: float) -> list[Finding]:
    cells = evaluate(False, chosen, seconds)
    rates = {key: cell["rate"] for key, cell in cells.items()}
    print(f"everything durable, in brackets the report's\n{_grid(rates)}")
    against = [rate / REPORT[peers][WORKERS.index(w)] for (w, peers), rate in rates.items()]
    ratios = _against_fewer(rates)
    costs = _against_fewer({key: cell["cpu_us"] for key, cell in cells.items()})
    latencies = [cell["p50"] for cell in cells.values()], [cell["p99"] for cell in cells.values()]
    cpu = spread([cell["cpu_us"] for cell in cells.values()], " µs", 0)
    return [
        Finding(
            f"the report's evaluation, {len(cells)} cells, everything durable",
            "above its table in every cell",
            f"{spread(list(rates.values()), '/s', 0)}, {spread(against)} times its; CPU {cpu}",
            min(against) > 1,
        ),
        Finding(
            "1,000 peers against fewer",
            "not falling",
            f"{spread(ratios)} times; CPU a message {spread(costs)} times",
            median(ratios) >= _FALLING,
        ),
        Finding(
            "one send at a time, until it is on disk, its reply meanwhile",
            "-",
            f"p50 {spread(latencies[0], ' ms')}, p99 {spread(latencies[1], ' ms')}",
        ),
    ]


def transient(chosen: list[tuple[int, int]], seconds: float) -> list[Finding]:
    cells = evaluate(True, chosen, seconds)
    rates = {key: cell["rate"] for key, cell in cells.items()}
    print(f"in memory, in brackets the report's\n{_grid(rates)}")
    reached = f"{spread(list(rates.values()), '/s', 0)}, CPU "
    reached += spread([cell["cpu_us"] for cell in cells.values()], " µs", 0)
    what = f"the same in memory, {len(cells)} cells"
    return [Finding(what, "10,000/s in every cell", reached, min(rates.values()) >= 10_000)]


def beside_activemq(seconds: float) -> list[Finding]:
    """Both in turns, in cells of the evaluation."""
    if not activemq.is_installed():
        return [Finding("ActiveMQ beside it", "-", "not measured: it is not installed")]
    found = []
    for workers, peers, in_memory in _BESIDE:
        arguments = (workers, peers, in_memory, seconds, seconds / 2)
        with activemq.broker() as port:
            theirs = uvloop.run(activemq.evaluate(port, *arguments))["rate"]
        ours = in_process_of_its_own("evaluation", *arguments)["rate"]
        how = "in memory" if in_memory else "durable"
        what = f"{workers} workers, {peers:,} peers, {how}: against ActiveMQ alone"
        reached = f"{ours / theirs:.2f} times ({ours:,.0f}/s against {theirs:,.0f}/s)"
        found.append(Finding(what, "-", reached))
    return found


def slow(turns: int, seconds: float) -> list[Finding]:
    found = in_process_of_its_own("slow", 5.0, 1000, turns, seconds)
    before, after = found["calm"], found["slow"]
    ratio = median(after["p99s"]) / median(before["p99s"])  # of turns: a pause hits one of them
    medians = after["p50"] / before["p50"]
    reached = (
        f"{ratio:.2f} times ({spread(before['p99s'], ' ms')} to {spread(after['p99s'], ' ms')};"
        f" of all {after['count']:,} copies {before['p99']:.1f} to {after['p99']:.1f} ms),"
        f" p50 {medians:.2f} times"
    )
    what = "one adapter of ten takes 5 s a message, 1,000 messages/s: p99 of the others"
    return [Finding(what, "below 2 times", reached, ratio < 2)]


def routing(messages: int) -> list[Finding]:
    index = RoutingIndex(_rules(10_000))
    sent = [
        PeerMessage(
            type=f"t{n % 500}", subtype=f"s{n % 7}", sender=f"p{n % 997}", receiver=f"q{n % 1009}"
        )
        for n in range(1000)
    ]
    found = sum(len(index.receivers(message)) for message in sent) / len(sent)
    began = time.process_time()
    for number in range(messages):
        index.receivers(sent[number % 1000])
    microseconds = (time.process_time() - began) / messages * 1e6
    reached = f"{microseconds:.2f} µs, {found:.1f} receivers each"
    what = "routing over 10,000 rules of all 15 shapes, a message"
    return [Finding(what, "20 µs", reached, microseconds < 20)]


def _rules(number: int) -> list[RoutingRule]:
    """Of every shape there is."""
    rules = []
    for n in range(number):
        shape = n % 15 + 1
        rules.append(
            RoutingRule(
                (f"r{n % 2000}",),
                type=f"t{n % 500}" if shape & 1 else "",
                subtype=f"s{n % 7}" if shape & 2 else "",
                receiver=f"q{n % 1009}" if shape & 4 else "",
                sender=f"p{n % 997}" if shape & 8 else "",
            )
        )
    return rules


def large(peers: int, sends: int) -> list[Finding]:
    groups, members = peers // 100, 1000
    found = in_process_of_its_own("large", peers, groups, members, sends)
    took, resident = found["seconds"], found["megabytes"]
    settled = resident[len(resident) // 4]
    return [
        Finding(
            f"{peers:,} peers, {groups:,} collectives: message to one of {members:,}, verdict",
            "2 s",
            f"{spread(took, ' s')}",
            max(took) <= 2,
        ),
        Finding(
            f"memory after {sends} such messages",
            "bounded",
            f"{resident[-1]:.0f} MB, after a quarter of them {settled:.0f} MB",
            resident[-1] < settled * 1.1,
        ),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.communication", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="corners of the tables, short runs")
    parser.add_argument("--only", action="append", metavar="NAME", help="(repeatable)")
    parser.add_argument(
        "--workers", action="append", type=int, choices=WORKERS, help="of the table (repeatable)"
    )
    options = parser.parse_args()
    cells = [(workers, peers) for workers in options.workers or WORKERS for peers in REPORT]
    corners = [(workers, peers) for peers in (1, 1000) for workers in (1, 100)]
    chosen, seconds = (corners, 1.5) if options.quick else (cells, 2.5)
    turns, peers, sends = (2, 10_000, 20) if options.quick else (14, 100_000, 200)
    scenarios: dict[str, Callable[[], list[Finding]]] = {
        "durable": lambda: durable(chosen, seconds),
        "transient": lambda: transient(chosen, seconds),
        "activemq": lambda: beside_activemq(2.0),
        "slow": lambda: slow(turns, 3.0),
        "routing": lambda: routing(200_000),
        "large": lambda: large(peers, sends),
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
