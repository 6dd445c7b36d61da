"""One publisher and one subscriber: how long a message takes when nothing else happens."""

from __future__ import annotations

from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import hubbub
from benchmarks.load.publishers import Steady
from benchmarks.scenarios.fanout import Cost, measure, side_by_side
from benchmarks.servers import Server

_PER_SECOND = 200
_REACH = 1.5


def latency(effort: Effort) -> list[Finding]:
    def one(server: Server) -> Cost:
        return measure(server, effort, Steady(_PER_SECOND), 1)

    costs = side_by_side(effort, {"hubbub": hubbub, **effort.peers}, one)
    p50s = {name: [cost.fan_out.latency.p50 for cost in runs] for name, runs in costs.items()}
    findings = [
        Finding(
            f"  one to one: {name}",
            "",
            f"p50 {spread(values, ' us', 0)}, "
            f"p99 {median(cost.fan_out.latency.p99 for cost in costs[name]):,.0f} us",
            None,
            {"runs": costs[name]},
        )
        for name, values in p50s.items()
    ]
    if "nchan" in p50s:
        ratios = [ours / theirs for ours, theirs in zip(p50s["hubbub"], p50s["nchan"], strict=True)]
        met = median(ratios) <= _REACH
        reached = spread(ratios, " x")
    else:
        ratios, met, reached = [], None, "nchan is not installed"
    first = Finding(
        "one to one: p50 against nchan",
        f"at most {_REACH:g} x",
        reached,
        met,
        {"ratios": ratios},
    )
    return [first, *findings]
