"""A few of many subscribers, the first ones, stop reading: the others must not notice."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.run import FanOut, fan_out
from benchmarks.load.subscribers import Audience

_SUBSCRIBERS = 1_000
_STALLED = 20
_SIZE = 8_000  # so that what the system buffers for the one who does not read fills up
_PER_SECOND = 50
_REACH = 2.0
_LEAST_SECONDS = 20.0
_SETTINGS = {
    "connection": {
        "ws": {"maxMessageBytes": 65_536, "sendBufferBytes": 131_072, "pingInterval": 3600}
    }
}


def stalled(effort: Effort) -> list[Finding]:
    without, beside = [], []
    for _ in range(effort.rounds):
        with hubbub(_SETTINGS) as server:
            without.append(_measure(server, effort, 0))
        with hubbub(_SETTINGS) as server:
            beside.append(_measure(server, effort, _STALLED))
    ratios = [
        late.latency.p99 / early.latency.p99 for early, late in zip(without, beside, strict=True)
    ]
    lost = sum(run.lost for run in beside)
    closed = sum(run.closed for run in beside)
    cut = sum(run.cut for run in beside)
    return [
        Finding(
            f"{_STALLED} of {_SUBSCRIBERS:,} stop reading: p99 of the others",
            f"less than {_REACH:g} x",
            spread(ratios, " x")
            + f", {median(run.latency.p99 for run in beside) / 1e3:.1f} ms; "
            + f"{cut} cut off in {len(beside)} runs",
            median(ratios) < _REACH,
            {"without": without, "beside": beside},
        ),
        Finding(
            "  what the others lost",
            "nothing",
            f"{lost:,} deliveries, {closed:,} connections",
            not lost and not closed,
        ),
    ]


def _measure(server: Hubbub, effort: Effort, stops_reading: int) -> FanOut:
    audience = Audience(server.subscription("bench"), _SUBSCRIBERS - stops_reading, stops_reading)
    publication = server.publication("bench", _SIZE)
    with fan_out(audience, publication, Steady(_PER_SECOND)) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(max(effort.seconds, _LEAST_SECONDS))
        return load.end()
