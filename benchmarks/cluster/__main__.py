"""`python -m benchmarks.cluster`: the seed's experiment with a cluster; says what was missed."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from benchmarks.cluster import membership, throughput
from benchmarks.cluster.nodes import BenchCluster, bench_cluster
from benchmarks.findings import Finding, table
from benchmarks.load.connections import raise_file_limit
from benchmarks.scenarios.crowd import CONNECTIONS, HEARTBEATS, hold

_CLIENTS = 50


def _on_cluster(
    work: Callable[[BenchCluster], Coroutine[Any, Any, list[Finding]]], **settings: object
) -> list[Finding]:
    async def run() -> list[Finding]:
        async with bench_cluster(**settings) as cluster:
            return await work(cluster)

    return asyncio.run(run())


def members(lives: int) -> list[Finding]:
    async def work(cluster: BenchCluster) -> list[Finding]:
        killed = await membership.live_and_die(cluster, lives, signal.SIGKILL)
        frozen = await membership.live_and_die(cluster, lives, signal.SIGSTOP)
        return membership.membership_findings(killed, frozen)

    return _on_cluster(work)


def redistribution(channels: int, lives: int) -> list[Finding]:
    return _on_cluster(
        lambda cluster: membership.redistribution(cluster, channels, _CLIENTS, lives)
    )


def outage(lives: int) -> list[Finding]:
    async def work(cluster: BenchCluster) -> list[Finding]:
        return [await membership.outage(cluster, lives)]

    return _on_cluster(work)


def crowd(sessions: int) -> list[Finding]:
    async def work(cluster: BenchCluster) -> list[Finding]:
        servers = [node.server for node in cluster.nodes.values()]
        return [await asyncio.to_thread(hold, servers, sessions)]

    return _on_cluster(work, connection=HEARTBEATS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one life of each kind, less load")
    parser.add_argument("--lives", type=int, help="of the fourth node, for each figure")
    parser.add_argument("--only", action="append", metavar="NAME", help="(repeatable)")
    options = parser.parse_args()
    raise_file_limit()
    lives, rounds, seconds = (1, 1, 2.0) if options.quick else (5, 3, 6.0)
    lives = options.lives or lives
    many = 10_000 if options.quick else 100_000
    scenarios: dict[str, Callable[[], list[Finding]]] = {
        "spread": lambda: [membership.spread_of_channels()],
        "members": lambda: members(lives),
        "500": lambda: redistribution(500, lives),
        "1500": lambda: redistribution(1_500, lives),
        "4500": lambda: redistribution(4_500, lives),
        "many": lambda: redistribution(many, max(1, lives // 2)),
        "outage": lambda: outage(lives),
        "crowd": lambda: crowd(CONNECTIONS // 4 if options.quick else CONNECTIONS),
        "fanout": lambda: [throughput.across_nodes(rounds, seconds)],
        "workers": lambda: [throughput.two_workers(rounds, seconds, 400, 100)],
    }
    unknown = set(options.only or ()) - scenarios.keys()
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}; there is {list(scenarios)}")
    found: list[Finding] = []
    for name in options.only or scenarios:
        findings = scenarios[name]()
        found += findings
        load = os.getloadavg()[0]
        print(f"{name} (load average {load:.1f})\n{table(findings)}\n", flush=True)
    missed = sum(finding.met is False for finding in found)
    print(f"{table(found)}\n{missed} of {len(found)} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
