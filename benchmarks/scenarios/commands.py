"""Commands: round trips of hEcho against a publish and its acknowledgement, and of a plugin."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub, open_hub
from benchmarks.load.requesters import Requests
from benchmarks.load.run import Exchange, exchange

_SESSIONS = 100
_SIZE = 200
_REACH = 0.8
_TURNS = 2
_REACH_PLUGIN_MS = 2.0
_COMMANDS = {"hubs": {HUB: open_hub(commands=True)}}
_AT_ONCE = "async def run(command, context):\n    return 1\n"


def commands(effort: Effort) -> list[Finding]:
    return [_echo(effort), _plugin(effort)]


def _plugin(effort: Effort) -> Finding:
    """One client, one after the other: what the way to a worker process and back takes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "atOnce.py").write_text(_AT_ONCE)
        runs = []
        for _ in range(effort.rounds):
            with hubbub({**_COMMANDS, "hcommands": {"path": folder}}) as server:
                runs.append(_measure(server.echoes(_SIZE, 1, "atOnce"), effort))
    p50 = [run.latency.p50 / 1e3 for run in runs]
    return Finding(
        "a command of a plugin that returns at once, p50",
        f"below {_REACH_PLUGIN_MS:g} ms",
        spread(p50, " ms", 2),
        median(p50) < _REACH_PLUGIN_MS,
        {"runs": runs},
    )


def _echo(effort: Effort) -> Finding:
    """In turns on one hub, each of the two first as often as the other: what else the machine does
    meanwhile weighs more than the difference between them."""
    echoes, publishes = [], []
    with hubbub(_COMMANDS) as server:
        plain, echo = server.acknowledged("bench", _SIZE, _SESSIONS), _echoes(server)
        for _ in range(_TURNS * effort.rounds):
            publishes.append(_with_cpu(server, plain, effort))
            echoes += [_with_cpu(server, echo, effort), _with_cpu(server, echo, effort)]
            publishes.append(_with_cpu(server, plain, effort))
    pairs = list(zip(echoes, publishes, strict=True))
    by_cpu = [
        (publish_cpu / publish.answered) / (echo_cpu / echo.answered)
        for (echo, echo_cpu), (publish, publish_cpu) in pairs
    ]
    by_clock = [
        (echo.answered / echo.seconds) / (publish.answered / publish.seconds)
        for (echo, _), (publish, _) in pairs
    ]
    return Finding(
        f"hEcho round trips of {_SESSIONS} sessions in a second of CPU, against publish and ack",
        f"at least {_REACH:g}",
        f"{spread(by_cpu, '', 2)}; by the clock {spread(by_clock, '', 2)}",
        min(median(by_cpu), median(by_clock)) >= _REACH,
        {"echoes": echoes, "publishes": publishes},
    )


def _echoes(server: Hubbub) -> Requests:
    return server.echoes(_SIZE, _SESSIONS)


def _with_cpu(server: Hubbub, requests: Requests, effort: Effort) -> tuple[Exchange, float]:
    """With the server's CPU seconds: steadier than the clock where others use the machine."""
    with exchange(requests) as load:
        load.warm(effort.warm_seconds)
        before = server.process.cpu_seconds()
        load.begin()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        return load.end(), used


def _measure(requests: Requests, effort: Effort) -> Exchange:
    with exchange(requests) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(effort.seconds)
        return load.end()
