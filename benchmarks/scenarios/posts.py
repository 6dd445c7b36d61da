"""HTTP publishes on connections that stay open: how many a second of the server's CPU pays for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import hubbub
from benchmarks.load.run import Exchange, exchange

_REACH = 40_000
_SIZE = 200
_CONNECTIONS = 32
_DEPTH = 16


@dataclass(frozen=True, slots=True)
class _Run:
    cpu_seconds: float
    exchange: Exchange

    @property
    def per_cpu_second(self) -> float:
        return self.exchange.answered / max(0.01, self.cpu_seconds)


def posts(effort: Effort) -> list[Finding]:
    plain = [_measure(effort, 1) for _ in range(effort.rounds)]
    piped = [_measure(effort, _DEPTH) for _ in range(effort.rounds)]
    rates = [run.per_cpu_second for run in plain]
    return [
        Finding(
            f"HTTP publish, {_CONNECTIONS} connections, token checked",
            f"at least {_REACH:,} per CPU s",
            spread(rates, digits=0) + _remarks(plain),
            median(rates) >= _REACH,
            {"runs": plain},
        ),
        Finding(
            f"  the same, {_DEPTH} requests under way on each",
            "",
            spread([run.per_cpu_second for run in piped], digits=0) + _remarks(piped),
            None,
            {"runs": piped},
        ),
    ]


def _measure(effort: Effort, depth: int) -> _Run:
    with (
        hubbub() as server,
        exchange(server.posts("bench", _SIZE, _CONNECTIONS, depth)) as load,
    ):
        load.warm(effort.warm_seconds)
        before = server.process.cpu_seconds()
        load.begin()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        return _Run(used, load.end())


def _remarks(runs: list[_Run]) -> str:
    remarks = f", {median(r.exchange.answered / r.exchange.seconds for r in runs):,.0f}/s"
    if any(run.exchange.client_was_bottleneck for run in runs):
        remarks += ", clients at their limit"
    odd = next((run.exchange.odd for run in runs if not run.exchange.answered), "")
    return remarks + (f", answered {odd!r}" if odd else "")
