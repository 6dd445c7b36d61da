"""What the journal costs: the same load on hubs with and without one, in turns.

The figure is CPU of the hub's processes for each message taken in or delivered. Sealing is left out
there, since it can wait and has a process of its own; its speed is measured for itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.publishers import Pace, Steady, Window
from benchmarks.load.run import exchange
from benchmarks.scenarios.fanout import measure
from benchmarks.servers import workplace
from hubbub.domain.journal import PUBLISHED, JournalEvent
from hubbub.journal.folder import JournalFolder
from hubbub.journal.records import head_of

_REACH = 1.05
_SIZE = 200
_SUBSCRIBERS = 1_000
_CONNECTIONS = 32
_SEALED_EVENTS = 400_000
_EVENTS_PER_RECORD = 1000
_ROUNDS = 3
"""A few percent are to be seen: each comparison is made so many times as often as others."""

Measure = Callable[[Hubbub, Effort], float]


def journal_cost(effort: Effort) -> list[Finding]:
    return [
        _compare(effort, f"HTTP publish, {_CONNECTIONS} connections", _posts(1)),
        _compare(effort, "HTTP publish, 16 under way on each", _posts(16)),
        _compare(effort, "fan-out to 1,000, saturated", _fan_out(Window(256))),
        _compare(effort, "fan-out to 1,000 at 500/s", _fan_out(Steady(500))),
        _compare(effort, "stored, 100 publishers", _stored),
        _sealing(effort),
    ]


def _compare(effort: Effort, what: str, cost: Measure) -> Finding:
    ratios, with_journal, without = [], [], []
    for _ in range(effort.rounds * _ROUNDS):
        with _hub(enabled=False) as server:
            without.append(cost(server, effort))
        with _hub(enabled=True) as server:
            with_journal.append(cost(server, effort))
        ratios.append(with_journal[-1] / without[-1])
    overall = median(with_journal) / median(without)
    return Finding(
        f"journal on against off, {what}: CPU",
        f"at most {_REACH:g} x",
        f"{overall:.3f} x (pairs {spread(ratios, digits=3)}), "
        f"{median(without):.2f} to {median(with_journal):.2f} µs each",
        overall <= _REACH,
        {"with": with_journal, "without": without},
    )


@contextlib.contextmanager
def _hub(enabled: bool) -> Iterator[Hubbub]:
    with hubbub({"journal": {"enabled": enabled, "seal": False, "minFreeBytes": 0}}) as server:
        yield server


def _posts(depth: int) -> Measure:
    def cost(server: Hubbub, effort: Effort) -> float:
        with exchange(server.posts("bench", _SIZE, _CONNECTIONS, depth)) as load:
            load.warm(effort.warm_seconds)
            before = server.process.cpu_seconds()
            load.begin()
            time.sleep(effort.seconds)
            used = server.process.cpu_seconds() - before
            return used * 1e6 / max(1, load.end().answered)

    return cost


def _stored(server: Hubbub, effort: Effort) -> float:
    with exchange(server.stored("log:bench", _SIZE, 100)) as load:
        load.warm(effort.warm_seconds)
        before = server.process.cpu_seconds()
        load.begin()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        return used * 1e6 / max(1, load.end().answered)


def _fan_out(pace: Pace) -> Measure:
    def cost(server: Hubbub, effort: Effort) -> float:
        return measure(server, effort, pace, _SUBSCRIBERS).per_million

    return cost


def _sealing(effort: Effort) -> Finding:
    """In this process, as the sealer does it in its own."""
    from hubbub.journal.sealing import seal_all

    home = Path("data")
    home.mkdir(exist_ok=True)
    rates = []
    for _ in range(effort.rounds):
        with workplace(home) as directory:
            folder = JournalFolder(directory / "journal")
            folder.make()
            count = _fill(folder, effort.scaled(_SEALED_EVENTS))
            before = time.process_time()
            seal_all(folder.path)
            rates.append(count / (time.process_time() - before))
    return Finding("  sealing to Parquet: events per CPU s", "", spread(rates, digits=0))


def _fill(folder: JournalFolder, count: int) -> int:
    events = [
        JournalEvent(
            PUBLISHED,
            1_790_000_000_000_000 + number,
            "bench",
            "local",
            channel="news",
            session="0123456789abcdef",
            technology="websocket",
            message_id=f"abcdef{number:x}",
            epoch="01234567",
            serial=number,
            stored=False,
            event="m",
            content_type="application/json",
            size=_SIZE,
            published_at=1_790_000_000_000_000 + number,
        )
        for number in range(_EVENTS_PER_RECORD)
    ]
    body = msgspec.msgpack.encode(events)
    records = max(1, count // _EVENTS_PER_RECORD)
    raw = folder.closed / "bench-20260101T000000-00000000.hbj"
    raw.write_bytes(b"HBJRNL1\n" + (head_of(body) + body) * records)
    return records * _EVENTS_PER_RECORD
