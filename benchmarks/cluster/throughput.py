"""What a delivery costs across nodes, and what a second worker brings, in CPU time: that hardly
depends on what else the machine does."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks.cluster.nodes import NAMES, bench_cluster, database_of
from benchmarks.findings import Finding, spread
from benchmarks.hub import HUB, Hubbub, configuration, hubbub
from benchmarks.load import processes
from benchmarks.load.publishers import Pace, Steady, Window
from benchmarks.load.run import FanOut, fan_out
from benchmarks.load.subscribers import Audience
from benchmarks.load.wire import Publication, Route
from benchmarks.postgres import local_postgres
from benchmarks.servers import Running, free_port, workplace
from hubbub.domain.names import partition_of
from hubbub.domain.ring import make_ring

SUBSCRIBERS = 900
SIZE = 200
OUTSTANDING = 256
_WARM_SECONDS = 1.0


@dataclass(frozen=True)
class Run:
    """`cpu` has the CPU seconds of each process that was watched."""

    load: FanOut
    cpu: tuple[float, ...]

    @property
    def per_cpu_second(self) -> float:
        return self.load.delivered / max(sum(self.cpu), 1e-9)


def _measure(
    route: Route,
    publication: Publication,
    pace: Pace,
    count: int,
    seconds: float,
    pids: Sequence[int],
) -> Run:
    with fan_out(Audience(route, count), publication, pace) as load:
        load.warm(_WARM_SECONDS)
        before = [processes.cpu_seconds(pid) for pid in pids]
        load.begin()
        time.sleep(seconds)
        used = [processes.cpu_seconds(pid) - was for pid, was in zip(pids, before, strict=True)]
        return Run(load.end(), tuple(used))


def across_nodes(rounds: int, seconds: float) -> Finding:
    """Subscribers on three nodes, published at the owner, against all of them on one node without
    a cluster. The cost of the cluster is that of its nodes and of NATS."""
    alone, together = [], []
    for _ in range(rounds):
        with hubbub() as server:
            alone.append(_one(server, seconds))
        together.append(asyncio.run(_three(seconds)))
    ratios = [t.per_cpu_second / a.per_cpu_second for a, t in zip(alone, together, strict=True)]
    reached = (
        f"{spread(ratios)} ({median(t.per_cpu_second for t in together):,.0f} against"
        f" {median(a.per_cpu_second for a in alone):,.0f} deliveries per CPU second,"
        f" {sum(t.load.lost for t in together)} lost)"
    )
    what = f"fan-out to {SUBSCRIBERS} on 3 nodes against 1 node, deliveries per CPU second"
    return Finding(what, "0.60", reached, median(ratios) >= 0.6)


def _one(server: Hubbub, seconds: float) -> Run:
    route, publication = server.subscription("bench"), server.publication("bench", SIZE)
    return _measure(
        route, publication, Window(OUTSTANDING), SUBSCRIBERS, seconds, [server.process.pid]
    )


async def _three(seconds: float) -> Run:
    owner = make_ring((name, "") for name in NAMES).owners[partition_of(HUB, "bench")]
    async with bench_cluster() as cluster:
        first, *others = (node.port for node in cluster.nodes.values())
        server = cluster.nodes[owner].server
        route = replace(server.subscription("bench"), port=first, others=tuple(others))
        pids = [*(node.pid for node in cluster.nodes.values()), cluster.nats.pid]
        publication = server.publication("bench", SIZE)
        return await asyncio.to_thread(
            _measure, route, publication, Window(OUTSTANDING), SUBSCRIBERS, seconds, pids
        )


# -- workers ------------------------------------------------------------------------------------


def two_workers(rounds: int, seconds: float, subscribers: int, per_second: float) -> Finding:
    """One worker with so many subscribers, and two with twice as many at the same rate. How much
    more they could do at equal load of the busiest core follows from its CPU time."""
    gains, shares = [], []
    for _ in range(rounds):
        one = _with_workers(1, subscribers, per_second, seconds)
        two = _with_workers(2, 2 * subscribers, per_second, seconds)
        load_of_one, load_of_two = max(one.cpu), max(two.cpu)
        gains.append((two.load.delivered / load_of_two) / (one.load.delivered / load_of_one))
        shares.append(max(two.cpu) / sum(two.cpu))
    reached = (
        f"{spread(gains)} times, the busier worker has {median(shares):.0%} of the CPU time"
        f" ({subscribers:,} and {2 * subscribers:,} connections)"
    )
    what = "two workers against one: connections and deliveries at equal load of a core"
    return Finding(what, "1.6 times", reached, median(gains) >= 1.6)


def _with_workers(workers: int, subscribers: int, per_second: float, seconds: float) -> Run:
    with _workers(workers) as (server, pids):
        route, publication = server.subscription("bench"), server.publication("bench", SIZE)
        return _measure(route, publication, Steady(per_second), subscribers, seconds, pids)


@contextmanager
def _workers(count: int) -> Iterator[tuple[Hubbub, list[int]]]:
    with local_postgres() as postgres, workplace() as folder:
        port = free_port()
        settings = configuration(port)
        settings["storage"] = {"path": str(folder / "data"), "postgres": database_of(postgres)}
        settings["sql"] = {"maxConnections": 4}
        settings["journal"] = {"enabled": False}
        config = folder / "hubbub.yaml"
        config.write_text(json.dumps(settings))
        serve = [sys.executable, "-m", "hubbub.cli.main", "serve", "--config", str(config)]
        log = folder / "output.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*serve, "--workers", str(count)], cwd=folder, stdout=output, stderr=output
            )
        try:
            _await_ready(process, log)
            yield Hubbub(Running(process.pid), port, config), _worker_pids(process.pid, count)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _await_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while "http://" not in log.read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the workers did not start: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def _worker_pids(pid: int, count: int) -> list[int]:
    """The direct children that are workers, not NATS; one worker alone has no supervisor."""
    if count == 1:
        return [pid]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [
        int(child)
        for child in children
        if b"--worker" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]
    assert len(found) == count, f"{len(found)} workers instead of {count}"
    return found
