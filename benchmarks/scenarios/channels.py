"""Channels that are used once and left: their memory must come back."""

from __future__ import annotations

import time

from benchmarks.findings import Effort, Finding
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.run import exchange
from benchmarks.servers import Running

_CHANNELS = 100_000
_CONNECTIONS = 50
_SIZE = 200
_REACH = 0.05
_IDLE_SECONDS = 30.0  # longer than a round takes, so that all channels are there at once
_SWEEP_SECONDS = 15.0
_PATIENCE_SECONDS = 300.0
_SETTINGS = {"channel": {"idleTimeout": _IDLE_SECONDS}}


def channels(effort: Effort) -> list[Finding]:
    """The second round uses other names, so that nothing of the first can serve it."""
    count = effort.scaled(_CHANNELS)
    with hubbub(_SETTINGS) as server:
        start = server.process.resident_kilobytes()
        _use(server, "first", count)
        peak = server.process.resident_kilobytes()
        once = _settled_kilobytes(server.process)
        _use(server, "second", count)
        twice = _settled_kilobytes(server.process)
    growth = (twice - once) / once
    return [
        Finding(
            f"{count:,} channels used and left, twice: growth by the second time",
            f"less than {_REACH:.0%}",
            f"{growth:.1%} ({start / 1024:,.0f} MB at start, {peak / 1024:,.0f} in use, "
            f"{once / 1024:,.0f} after, {twice / 1024:,.0f} after the second)",
            growth < _REACH,
            {"start": start, "peak": peak, "once": once, "twice": twice},
        )
    ]


def _use(server: Hubbub, name: str, count: int) -> None:
    with exchange(server.uses(name, _SIZE, _CONNECTIONS, count)) as load:
        load.begin()
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while load.counted()[2] < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{load.counted()[2]:,} of {count:,} channels: {load.end().odd}")
            time.sleep(0.1)
        load.end()


def _settled_kilobytes(process: Running) -> int:
    """The memory after the channels have left it."""
    time.sleep(_IDLE_SECONDS + _SWEEP_SECONDS)
    return process.resident_kilobytes()
