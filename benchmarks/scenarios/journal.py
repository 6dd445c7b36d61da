"""What the journal costs: the same load on hubs with and without one, at the same time.

The figure is CPU of the hub's processes for each message taken in or delivered. Sealing is left out
there, since it can wait and has a process of its own; its speed is measured for itself.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import Hubbub, hubbub
from benchmarks.load.publishers import Pace, Steady, Window
from benchmarks.load.run import ExchangeLoad, FanOutLoad, exchange, fan_out
from benchmarks.load.subscribers import Audience
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

Begin = Callable[[Hubbub], AbstractContextManager[FanOutLoad | ExchangeLoad]]


def journal_cost(effort: Effort) -> list[Finding]:
    return [
        _compare(effort, f"HTTP publish, {_CONNECTIONS} connections", _posts(1)),
        _compare(effort, "HTTP publish, 16 under way on each", _posts(16)),
        _compare(effort, "fan-out to 1,000, saturated", _fan_out(Window(256))),
        _compare(effort, "fan-out to 1,000 at 500/s", _fan_out(Steady(500))),
        _compare(effort, "stored, 100 publishers", _stored),
        _sealing(effort),
    ]


def _compare(effort: Effort, what: str, begin: Begin) -> Finding:
    rounds = [_measure(effort, begin) for _ in range(effort.rounds)]
    ratios = [on / off for off, on in rounds]
    return Finding(
        f"journal on against off, {what}: CPU",
        f"at most {_REACH:g} x",
        f"{spread(ratios, ' x', 3)}, {median(off for off, _ in rounds):.2f} to "
        f"{median(on for _, on in rounds):.2f} µs each",
        median(ratios) <= _REACH,
        {"rounds": rounds},
    )


def _measure(effort: Effort, begin: Begin) -> tuple[float, float]:
    """Microseconds of CPU for each message without a journal and with one, at the same time: what
    disturbs one of them disturbs the other."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(_hub(enabled)) for enabled in (False, True)]
        loads = [stack.enter_context(begin(server)) for server in servers]
        for load, seconds in zip(loads, (0.0, effort.warm_seconds), strict=True):
            load.warm(seconds)
        before = [server.process.cpu_seconds() for server in servers]
        for load in loads:
            load.begin()
        time.sleep(effort.seconds)
        off, on = (
            (server.process.cpu_seconds() - start) * 1e6 / max(1, load.counted()[2])
            for server, load, start in zip(servers, loads, before, strict=True)
        )
        return off, on


@contextlib.contextmanager
def _hub(enabled: bool) -> Iterator[Hubbub]:
    with hubbub({"journal": {"enabled": enabled, "seal": False, "minFreeBytes": 0}}) as server:
        yield server


def _posts(depth: int) -> Begin:
    return lambda server: exchange(server.posts("bench", _SIZE, _CONNECTIONS, depth))


def _stored(server: Hubbub) -> AbstractContextManager[ExchangeLoad]:
    return exchange(server.stored("log:bench", _SIZE, 100))


def _fan_out(pace: Pace) -> Begin:
    return lambda server: fan_out(
        Audience(server.subscription("bench"), _SUBSCRIBERS),
        server.publication("bench", _SIZE),
        pace,
    )


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
