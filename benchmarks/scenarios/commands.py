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
    """In turns on one hub."""
    echoes, publishes = [], []
    for _ in range(effort.rounds):
        with hubbub(_COMMANDS) as server:
            publishes.append(_measure(server.acknowledged("bench", _SIZE, _SESSIONS), effort))
            echoes.append(_measure(_echoes(server), effort))
    rates = [run.answered / run.seconds for run in echoes]
    ratios = [
        (echo.answered / echo.seconds) / (publish.answered / publish.seconds)
        for echo, publish in zip(echoes, publishes, strict=True)
    ]
    return Finding(
        f"hEcho round trips of {_SESSIONS} sessions, against publish and ack",
        f"at least {_REACH:g}",
        f"{spread(ratios, '', 2)}, {median(rates):,.0f}/s",
        median(ratios) >= _REACH,
        {"echoes": echoes, "publishes": publishes},
    )


def _echoes(server: Hubbub) -> Requests:
    return server.echoes(_SIZE, _SESSIONS)


def _measure(requests: Requests, effort: Effort) -> Exchange:
    with exchange(requests) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(effort.seconds)
        return load.end()
