"""A stored channel: publishers that wait until their message is on disk, alone and in company."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.run import Exchange, exchange, fan_out
from benchmarks.load.subscribers import Audience

_PUBLISHERS = 100
_SIZE = 200
_REACH_ALONE = 15_000
_REACH_BESIDE = 8_000
_SUBSCRIBERS = 1_000
_FAN_OUT_PER_SECOND = 50


def stored(effort: Effort) -> list[Finding]:
    alone, beside = [], []
    for _ in range(effort.rounds):
        with hubbub() as server:
            alone.append(_measure(server, effort))
        with hubbub() as server, _fan_out_beside(server):
            beside.append(_measure(server, effort))
    company = f"beside a fan-out of {_FAN_OUT_PER_SECOND}/s to {_SUBSCRIBERS:,}"
    return [
        _finding("alone", alone, _REACH_ALONE),
        _finding(company, beside, _REACH_BESIDE),
    ]


def _measure(server: Hubbub, effort: Effort) -> Exchange:
    with exchange(server.stored("log:bench", _SIZE, _PUBLISHERS)) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(effort.seconds)
        return load.end()


@contextlib.contextmanager
def _fan_out_beside(server: Hubbub) -> Iterator[None]:
    audience = Audience(server.subscription("bench"), _SUBSCRIBERS)
    publication = server.publication("bench", _SIZE)
    with fan_out(audience, publication, Steady(_FAN_OUT_PER_SECOND)) as load:
        load.warm(0)
        yield


def _finding(company: str, runs: list[Exchange], reach: int) -> Finding:
    rates = [run.answered / run.seconds for run in runs]
    p99 = median(run.latency.p99 for run in runs) / 1e3
    odd = next((run.odd for run in runs if not run.answered), "")
    return Finding(
        f"stored, {_PUBLISHERS} publishers await their ack, {company}",
        f"at least {reach:,}/s",
        f"{spread(rates, '/s', 0)}, p99 {p99:,.1f} ms" + (f", answered {odd!r}" if odd else ""),
        median(rates) >= reach,
        {"runs": runs},
    )
