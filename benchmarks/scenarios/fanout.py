"""One channel, 1,000 WebSocket subscribers, 200-byte messages: what a delivery costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from benchmarks.findings import Effort, Finding, Start, spread
from benchmarks.hub import hubbub
from benchmarks.load.publishers import Pace, Steady, Window
from benchmarks.load.run import FanOut, fan_out
from benchmarks.load.subscribers import Audience
from benchmarks.servers import Server

T = TypeVar("T")

SUBSCRIBERS = 1_000
SIZE = 200
OUTSTANDING = 256
NATS_SATURATED = 0.25
NATS_STEADY = 0.8
NCHAN_STEADY = 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """A fan-out and the server's CPU for it."""

    cpu_seconds: float
    fan_out: FanOut

    @property
    def per_million(self) -> float:
        return self.cpu_seconds * 1e6 / max(1, self.fan_out.delivered)


def measure(server: Server, effort: Effort, pace: Pace, subscribers: int, size: int = SIZE) -> Cost:
    """One fan-out on a running server."""
    audience = Audience(server.subscription("bench"), subscribers)
    with fan_out(audience, server.publication("bench", size), pace) as load:
        load.warm(effort.warm_seconds)
        before = server.process.cpu_seconds()
        load.begin()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        return Cost(used, load.end())


def side_by_side(
    effort: Effort, servers: Mapping[str, Start], measure_one: Callable[[Server], T]
) -> dict[str, list[T]]:
    """Each server in turn, as many times as there are rounds: A, B, A, B."""
    results: dict[str, list[T]] = {name: [] for name in servers}
    for _ in range(effort.rounds):
        for name, start in servers.items():
            with start() as server:
                results[name].append(measure_one(server))
    return results


def saturated(effort: Effort) -> list[Finding]:
    """As fast as the subscribers take it."""
    costs = _compare(effort, Window(OUTSTANDING))
    return [
        _against(costs, "nats-server", "fan-out to 1,000, saturated: CPU", NATS_SATURATED),
        *_figures(costs, "fan-out to 1,000, saturated"),
    ]


def steady(effort: Effort) -> list[Finding]:
    """The same number of messages a second for everyone."""
    findings = []
    for rate in (50, 500):
        what = f"fan-out to 1,000 at {rate}/s"
        costs = _compare(effort, Steady(rate))
        findings.append(_against(costs, "nats-server", f"{what}: CPU", NATS_STEADY))
        if rate == 50 and "nchan" in costs:
            findings.append(_against(costs, "nchan", f"{what}: CPU", NCHAN_STEADY))
        findings += _figures(costs, what)
    return findings


def _compare(effort: Effort, pace: Pace) -> dict[str, list[Cost]]:
    def one(server: Server) -> Cost:
        return measure(server, effort, pace, SUBSCRIBERS)

    return side_by_side(effort, {"hubbub": hubbub, **effort.peers}, one)


def _against(costs: Mapping[str, list[Cost]], peer: str, what: str, reach: float) -> Finding:
    ratios = [
        ours.per_million / theirs.per_million
        for ours, theirs in zip(costs["hubbub"], costs[peer], strict=True)
    ]
    return Finding(
        f"{what} against {peer}",
        f"at most {reach:g} x",
        spread(ratios, " x"),
        median(ratios) <= reach,
        {"ratios": ratios},
    )


def _figures(costs: Mapping[str, list[Cost]], what: str) -> list[Finding]:
    return [
        Finding(
            f"  {what}: {name}",
            "",
            f"{spread([cost.per_million for cost in runs])} CPU s per million, "
            f"{median(cost.fan_out.delivered / cost.fan_out.seconds for cost in runs):,.0f}/s, "
            f"p99 {median(cost.fan_out.latency.p99 for cost in runs) / 1e3:,.1f} ms"
            + _remarks(runs),
            None,
            {"runs": runs},
        )
        for name, runs in costs.items()
    ]


def _remarks(runs: list[Cost]) -> str:
    lost = sum(cost.fan_out.lost for cost in runs)
    remarks = f", {lost:,} not delivered in time" if lost else ""
    if any(cost.fan_out.client_was_bottleneck for cost in runs):
        remarks += ", clients at their limit"
    return remarks
