"""`python -m benchmarks.turns --base PATH`: what an operation costs in this version and another.

Both versions run at the same time, each in its own process, and are measured in turns: one, then
the other, and the next time the other way round. Each turn has new processes, so that where the
system happened to put one does not count for a whole run. A cost is the CPU time of the hub's
processes for one operation; the verdict is the median of the ratios of all turns.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import quote

from benchmarks.findings import spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load import wire
from benchmarks.load.processes import Bystanders
from benchmarks.load.publishers import Pace, Steady, Window
from benchmarks.load.requesters import Requests
from benchmarks.load.run import exchange, fan_out
from benchmarks.load.stamp import json_payload
from benchmarks.load.subscribers import Audience
from benchmarks.load.wire import Framing, Publication, Route

_REACH = 1.05
_SIZE = 200
_SUBSCRIBERS = 1_000
_OUTSTANDING = 256
_CONNECTIONS = 32
_PUBLISHERS = 100
_TOPIC = "log:turns"
_SUBSCRIPTION = "turns"
_PACKAGE = Path("src")


@dataclass(frozen=True, slots=True)
class Span:
    """How long one measurement takes."""

    seconds: float
    warm_seconds: float


Measure = Callable[[Hubbub, Span], float]
"""CPU seconds of the hub's processes for one operation."""


def main() -> int:
    """0 when no operation became more expensive than is allowed."""
    options = _options()
    span = Span(options.seconds, options.seconds / 3)
    names = options.only or list(_MEASURES)
    before, after = (_package(path) for path in (options.base, options.head))
    bystanders = Bystanders()
    ratios: dict[str, list[float]] = {name: [] for name in names}
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for turn in range(options.turns):
        for name, (old, new) in _turn(before, after, names, span, backwards=turn % 2 == 1):
            ratios[name].append(new / old)
            costs[name].append((old, new))
        so_far = ", ".join(f"{name} {median(ratios[name]):.3f}" for name in names)
        print(f"turn {turn + 1} of {options.turns}: {so_far}", file=sys.stderr, flush=True)
    print(_table(ratios, costs))
    print(f"\nother programs used {bystanders.cores():.1f} cores meanwhile")
    if options.json:
        options.json.write_text(json.dumps(costs, indent=1))
    return 0 if all(median(values) <= _REACH for values in ratios.values()) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="a checkout of the other version")
    parser.add_argument("--head", type=Path, default=_PACKAGE, help="this version (default ./src)")
    parser.add_argument("--turns", type=int, default=20, help="repetitions (default 20)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement (default 1)")
    parser.add_argument(
        "--only", action="append", choices=list(_MEASURES), metavar="NAME", help="(repeatable)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure there")
    return parser.parse_args()


def _package(path: Path) -> Path:
    """The folder to import `hubbub` from; `path` is that folder or a checkout."""
    for folder in (path, path / "src"):
        if (folder / "hubbub" / "__init__.py").is_file():
            return folder.resolve()
    raise SystemExit(f"there is no package `hubbub` in {path} or {path / 'src'}")


def _turn(
    before: Path, after: Path, names: list[str], span: Span, backwards: bool
) -> list[tuple[str, tuple[float, float]]]:
    """The costs of each operation, before and after."""
    with (
        hubbub(source=before, name="before") as old,
        hubbub(source=after, name="after") as new,
    ):
        found = []
        for name in names:
            order = (new, old) if backwards else (old, new)
            cost = {server.name: _MEASURES[name](server, span) for server in order}
            found.append((name, (cost["before"], cost["after"])))
        return found


def _fan_out(pace: Pace, subscribers: int) -> Measure:
    def measure(server: Hubbub, span: Span) -> float:
        audience = Audience(server.subscription("turns"), subscribers)
        with fan_out(audience, server.publication("turns", _SIZE), pace) as load:
            load.warm(span.warm_seconds)
            before = server.process.scheduled_seconds()
            load.begin()
            time.sleep(span.seconds)
            used = server.process.scheduled_seconds() - before
            return _each(used, load.end().delivered, server)

    return measure


def _exchange(requests: Callable[[Hubbub], Requests]) -> Measure:
    def measure(server: Hubbub, span: Span) -> float:
        with exchange(requests(server)) as load:
            load.warm(span.warm_seconds)
            before = server.process.scheduled_seconds()
            load.begin()
            time.sleep(span.seconds)
            used = server.process.scheduled_seconds() - before
            ended = load.end()
            return _each(used, ended.answered, server, ended.odd)

    return measure


def _each(cpu_seconds: float, operations: int, server: Hubbub, odd: str = "") -> float:
    if not operations:
        raise SystemExit(f"{server.name}: nothing was answered {odd}")
    return cpu_seconds / operations


def _puts(server: Hubbub) -> Requests:
    return _posts(server, "messages", json_payload(_SIZE), _SIZE)


def _gets(server: Hubbub) -> Requests:
    """Each gets the same message, which nobody acknowledges."""
    _ask(server, "POST", "messages", b'"' + b"x" * (_SIZE - 2) + b'"')
    _ask(server, "PUT", f"subscriptions/{_SUBSCRIPTION}?start=first", b"")
    return _posts(server, f"subscriptions/{_SUBSCRIPTION}/get", b"", 0)


def _posts(server: Hubbub, path: str, body: bytes, size: int) -> Requests:
    message = wire.post(_path(server, path), body, size, *_headers(server))
    publication = Publication(Route(server.port), message, Framing.RAW)
    return Requests(publication, b"HTTP/1.1 20", _CONNECTIONS)


def _ask(server: Hubbub, method: str, path: str, body: bytes) -> None:
    headers = dict(line.split(": ", 1) for line in _headers(server))
    url = f"http://127.0.0.1:{server.port}{_path(server, path)}"
    request = urllib.request.Request(url, body, headers, method=method)
    with contextlib.closing(urllib.request.urlopen(request, timeout=10)):
        pass


def _path(server: Hubbub, rest: str) -> str:
    return f"/v1/hubs/{server.hub}/topics/{quote(_TOPIC, safe='')}/{rest}"


@functools.cache
def _headers(server: Hubbub) -> tuple[str, ...]:
    return f"Authorization: Bearer {server.token()}", "Content-Type: application/json"


_MEASURES: dict[str, Measure] = {
    "fan-out": _fan_out(Window(_OUTSTANDING), _SUBSCRIBERS),
    "fan-out-500": _fan_out(Steady(500), _SUBSCRIBERS),
    "one-to-one": _fan_out(Steady(1_000), 1),
    "http-publish": _exchange(lambda server: server.posts("turns", _SIZE, _CONNECTIONS, 1)),
    "http-pipelined": _exchange(lambda server: server.posts("turns", _SIZE, _CONNECTIONS, 16)),
    "stored-publish": _exchange(lambda server: server.stored("log:turns", _SIZE, _PUBLISHERS)),
    "topic-put": _exchange(_puts),
    "topic-get": _exchange(_gets),
}


def _table(
    ratios: Mapping[str, list[float]], costs: Mapping[str, list[tuple[float, float]]]
) -> str:
    """Markdown. Costs are medians of all turns, in microseconds of CPU. Other programs only ever
    add to a cost, so the ratio of the least costs says the most on a busy machine."""
    lines = [
        "| operation | before, us | after, us | after / before, median (least-most) "
        "| of the least costs | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for name, values in ratios.items():
        before, after = (median(pair[which] for pair in costs[name]) * 1e6 for which in (0, 1))
        least = min(new for _, new in costs[name]) / min(old for old, _ in costs[name])
        verdict = "held" if median(values) <= _REACH else "NOT HELD"
        cells = (
            name,
            f"{before:.2f}",
            f"{after:.2f}",
            spread(values, digits=3),
            f"{least:.3f}",
            verdict,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
