"""The AppSockets experiment: connections of a node with 0.5 GB and a quarter of a CPU."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.findings import Effort, Finding
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.residents import residents
from benchmarks.load.stamp import INDEX
from benchmarks.load.subscribers import Audience

CONNECTIONS = 15_000
"""Of one node, in the experiment."""
HEARTBEATS = {"ws": {"pingInterval": 25, "pongTimeout": 10}}
"""As they are shipped; `benchmarks.hub` switches them off for other measurements."""
_OWN_CHANNEL = f"user-{INDEX.decode()}"
_GIGABYTES = 0.5
_CORES = 0.25
_WINDOW_SECONDS = 50.0  # two heartbeats of each session


def crowd(effort: Effort) -> list[Finding]:
    count = effort.scaled(CONNECTIONS)
    with hubbub({"connection": HEARTBEATS}) as server:
        return [hold([server], count)]


def hold(servers: Sequence[Hubbub], each: int) -> Finding:
    """Memory and CPU of the fullest and the busiest of the nodes, with so many sessions each."""
    audiences = [Audience(server.subscription(_OWN_CHANNEL), each) for server in servers]
    with residents(audiences) as end:
        before = [server.process.cpu_seconds() for server in servers]
        began = time.monotonic()
        time.sleep(_WINDOW_SECONDS)
        seconds = time.monotonic() - began
        cores = max(
            (server.process.cpu_seconds() - was) / seconds
            for server, was in zip(servers, before, strict=True)
        )
        gigabytes = max(server.process.resident_kilobytes() for server in servers) * 1024 / 1e9
        answered, closed = end()
    nodes = f"{len(servers)} nodes with " if len(servers) > 1 else ""
    return Finding(
        f"{nodes}{each:,} sessions, a channel each, with heartbeats",
        f"{_GIGABYTES} GB, {_CORES} of a core for each node",
        f"{gigabytes:.2f} GB, {cores:.3f} cores ({answered:,} heartbeats, {closed} closed)",
        gigabytes <= _GIGABYTES and cores <= _CORES and not closed and answered > 0,
        {"gigabytes": gigabytes, "cores": cores, "heartbeats": answered, "closed": closed},
    )
