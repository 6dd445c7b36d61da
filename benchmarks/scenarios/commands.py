"""Commands: round trips of hEcho against those of a publish and its acknowledgement."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.requesters import Requests
from benchmarks.load.run import Exchange, exchange

_SESSIONS = 100
_SIZE = 200
_REACH = 0.8


def commands(effort: Effort) -> list[Finding]:
    """In turns on one hub."""
    echoes, publishes = [], []
    for _ in range(effort.rounds):
        with hubbub() as server:
            publishes.append(_measure(server.acknowledged("bench", _SIZE, _SESSIONS), effort))
            echoes.append(_measure(_echoes(server), effort))
    rates = [run.answered / run.seconds for run in echoes]
    ratios = [
        (echo.answered / echo.seconds) / (publish.answered / publish.seconds)
        for echo, publish in zip(echoes, publishes, strict=True)
    ]
    return [
        Finding(
            f"hEcho round trips of {_SESSIONS} sessions, against publish and ack",
            f"at least {_REACH:g}",
            f"{spread(ratios, '', 2)}, {median(rates):,.0f}/s",
            median(ratios) >= _REACH,
            {"echoes": echoes, "publishes": publishes},
        )
    ]


def _echoes(server: Hubbub) -> Requests:
    return server.echoes(_SIZE, _SESSIONS)


def _measure(requests: Requests, effort: Effort) -> Exchange:
    with exchange(requests) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(effort.seconds)
        return load.end()
