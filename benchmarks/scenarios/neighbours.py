"""One hub publishes to 10,000 subscribers as fast as it can: another hub must not notice."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import OTHER_HUB, Hubbub, hubbub
from benchmarks.load.publishers import Flood, Pace, Steady, Window
from benchmarks.load.run import FanOut, fan_out
from benchmarks.load.subscribers import Audience

_LOUD = 10_000
_QUIET = 10
_QUIET_PER_SECOND = 100
_SIZE = 200
_REACH_MS = 20.0
_OUTSTANDING = 16
_BEHIND = 10  # niceness: the loud hub's clients must not keep the quiet hub's from the CPU


def neighbours(effort: Effort) -> list[Finding]:
    return [_finding(effort, "as fast as they take it", Window(_OUTSTANDING))]


def flood(effort: Effort) -> list[Finding]:
    """All load comes from one address: the hub's bound on what waits for clients may end it."""
    return [_finding(effort, "without waiting for deliveries", Flood())]


def _finding(effort: Effort, how: str, pace: Pace) -> Finding:
    runs = []
    for _ in range(effort.rounds):
        with hubbub() as server:
            runs.append(_measure(server, effort, pace))
    p99s = [quiet.latency.p99 / 1e3 if quiet.delivered else inf for quiet, _ in runs]
    rate = median(loud.delivered / loud.seconds for _, loud in runs)
    lost = sum(quiet.lost for quiet, _ in runs)
    return Finding(
        f"a hub publishes to {effort.scaled(_LOUD):,}, {how}: another hub's p99",
        f"under {_REACH_MS:g} ms",
        f"{spread(p99s, ' ms', 1)}, {lost} lost; the loud one delivers {rate:,.0f}/s",
        median(p99s) < _REACH_MS and not lost,
        {"runs": runs},
    )


def _measure(server: Hubbub, effort: Effort, pace: Pace) -> tuple[FanOut, FanOut]:
    other = replace(server, hub=OTHER_HUB)
    crowd = Audience(server.subscription("bench"), effort.scaled(_LOUD), niceness=_BEHIND)
    few = Audience(other.subscription("bench"), _QUIET)
    with (
        fan_out(crowd, server.publication("bench", _SIZE), pace) as loud,
        fan_out(few, other.publication("bench", _SIZE), Steady(_QUIET_PER_SECOND)) as quiet,
    ):
        loud.warm(effort.warm_seconds)
        quiet.warm(effort.warm_seconds)
        loud.begin()
        quiet.begin()
        time.sleep(effort.seconds)
        return quiet.end(), loud.end()
