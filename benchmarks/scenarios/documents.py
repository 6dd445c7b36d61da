"""A shared document: many clients change it and wait, many follow it, it is large, it is loaded."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
import zlib
from statistics import median

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub
from benchmarks.load.publishers import Steady
from benchmarks.load.run import Exchange, exchange, fan_out
from benchmarks.load.subscribers import Audience
from benchmarks.load.wire import Publication
from hubbub.engine.documents.reader import built_document
from hubbub.ports.storage.documents import DocumentHead, StoredChange, StoredDocument

_EDITORS = 100
_REACH_CHANGES, _REACH_P99_MS = 3_000, 80.0
_FOLLOWERS = 1_000
_PER_SECOND = 50
_SIZE = 200
_REACH_DELIVERY = 1.3
_MEMBERS, _LARGE = 10_000, 1_000_000
_REACH_LARGE = 3.0
_CHANGES = 1_000
_REACH_LOADING_MS = 20.0


def documents(effort: Effort) -> list[Finding]:
    return [_edited(effort), _followed(effort), _large(effort), _loaded()]


def _edited(effort: Effort) -> Finding:
    """Each change is synced to disk before its answer; every editor gets every change."""
    runs = []
    for _ in range(effort.rounds):
        with hubbub() as server:
            runs.append(_measure(server, "doc:edited", _EDITORS, effort, follow=True))
    rates = [run.answered / run.seconds for run in runs]
    p99 = [run.latency.p99 / 1e3 for run in runs]
    return Finding(
        f"a document that {_EDITORS} clients change, waiting for their answers, and follow",
        f"{_REACH_CHANGES:,} changes/s, p99 below {_REACH_P99_MS:g} ms",
        f"{spread(rates, '/s', 0)} ({median(rates) * _EDITORS:,.0f} deliveries/s),"
        f" p99 {spread(p99, ' ms', 1)}",
        median(rates) >= _REACH_CHANGES and median(p99) <= _REACH_P99_MS,
        {"runs": runs},
    )


def _followed(effort: Effort) -> Finding:
    """CPU for each delivery of a change against that of a message, in turns on one hub."""
    ratios = []
    for _ in range(effort.rounds):
        with hubbub() as server:
            message = _delivery_cost(server, "plain", server.publication("plain", _SIZE), effort)
            change = server.changes("doc:followed", _SIZE, 1).publication
            ratios.append(_delivery_cost(server, "doc:followed", change, effort) / message)
    return Finding(
        f"a change to {_FOLLOWERS:,} followers: CPU per delivery against a plain message's",
        f"at most {_REACH_DELIVERY:g}",
        spread(ratios),
        median(ratios) <= _REACH_DELIVERY,
        {"ratios": ratios},
    )


def _delivery_cost(server: Hubbub, channel: str, what: Publication, effort: Effort) -> float:
    crowd = Audience(server.subscription(channel), _FOLLOWERS)
    with fan_out(crowd, what, Steady(_PER_SECOND)) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        before = server.process.cpu_seconds()
        time.sleep(effort.seconds)
        used = server.process.cpu_seconds() - before
        run = load.end()
    assert not run.lost, run
    return used / run.delivered


def _large(effort: Effort) -> Finding:
    """CPU for a change, in turns on one hub."""
    ratios = []
    for _ in range(effort.rounds):
        with hubbub() as server:
            _fill(server, "doc:small", 10, 1_000)
            _fill(server, "doc:large", _MEMBERS, _LARGE)
            small = _change_cost(server, "doc:small", effort)
            ratios.append(_change_cost(server, "doc:large", effort) / small)
    return Finding(
        f"a change to a document of 1 MB with {_MEMBERS:,} members: CPU against one of 1 KB",
        f"at most {_REACH_LARGE:g} times",
        f"{spread(ratios)} times",
        median(ratios) <= _REACH_LARGE,
        {"ratios": ratios},
    )


def _fill(server: Hubbub, channel: str, members: int, size: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    headers = {
        "Authorization": f"Bearer {server.token()}",
        "Content-Type": "application/merge-patch+json",
    }
    text = "x" * (size // members - 12)
    for first in range(0, members, 1000):
        part = {f"m{number}": text for number in range(first, min(first + 1000, members))}
        path = f"/v1/hubs/{HUB}/channels/{channel}/document"
        connection.request("PATCH", path, json.dumps(part), headers)
        response = connection.getresponse()
        said = response.read()
        assert response.status == 200, said[:500]


def _change_cost(server: Hubbub, channel: str, effort: Effort) -> float:
    before = server.process.cpu_seconds()
    run = _measure(server, channel, 10, effort)
    return (server.process.cpu_seconds() - before) / run.answered


def _measure(
    server: Hubbub, channel: str, editors: int, effort: Effort, follow: bool = False
) -> Exchange:
    with exchange(server.changes(channel, _SIZE, editors, follow)) as load:
        load.warm(effort.warm_seconds)
        load.begin()
        time.sleep(effort.seconds)
        return load.end()


def _loaded() -> Finding:
    """Of what lies in the store, without reading it from the disk."""
    members = {f"m{number}": {"text": "x" * 40, "done": False} for number in range(_CHANGES)}
    changes = tuple(
        StoredChange(
            number,
            number,
            "ann",
            str(number),
            b'[{"op":"replace","path":"/m%d/done","value":true}]' % (number - 1),
        )
        for number in range(1, _CHANGES + 1)
    )
    head = DocumentHead("e", _CHANGES, _CHANGES, 0, 1, 0)
    stored = StoredDocument(
        head, _CHANGES, zlib.compress(json.dumps(members).encode()), 0, 0, changes
    )
    times = []
    for _ in range(15):
        began = time.perf_counter()
        asyncio.run(built_document(stored))
        times.append(1000 * (time.perf_counter() - began))
    return Finding(
        f"loading a document with {_CHANGES:,} changes since its snapshot",
        f"below {_REACH_LOADING_MS:g} ms",
        spread(times, " ms", 1),
        median(times) < _REACH_LOADING_MS,
        {"ms": times},
    )
