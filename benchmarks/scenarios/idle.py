"""Sessions that are subscribed and quiet: how much memory each takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.findings import Effort, Finding
from benchmarks.hub import hubbub
from benchmarks.load.board import Board, Phase, Worker
from benchmarks.load.stamp import INDEX
from benchmarks.load.subscribers import Audience, subscribe
from benchmarks.servers import Server

_SESSIONS = 10_000
_FIRST = 200
_REACH_KILOBYTES = 4.0
_SETTLE_SECONDS = 2.0


def idle(effort: Effort) -> list[Finding]:
    sessions = effort.scaled(_SESSIONS)
    findings = []
    for where, channel in (
        ("one channel", "bench"),
        ("a channel each", f"bench-{INDEX.decode()}"),
    ):
        with hubbub() as server:
            each = kilobytes_each(server, channel, sessions)
        findings.append(
            Finding(
                f"{sessions:,} idle sessions, {where}",
                f"at most {_REACH_KILOBYTES:g} KB each",
                f"{each:.2f} KB",
                each <= _REACH_KILOBYTES,
            )
        )
    for name, start in effort.peers.items():
        with start() as server:
            each = kilobytes_each(server, "bench", sessions)
        findings.append(
            Finding(f"  {sessions:,} idle sessions, one channel: {name}", "", f"{each:.2f} KB")
        )
    return findings


def kilobytes_each(server: Server, channel: str, sessions: int) -> float:
    """Growth of the server's memory, not counting what the first sessions need."""
    with _subscribed(server, channel, _FIRST):
        time.sleep(_SETTLE_SECONDS)
    time.sleep(_SETTLE_SECONDS)
    before = server.process.resident_kilobytes()
    with _subscribed(server, channel, sessions):
        time.sleep(_SETTLE_SECONDS)
        return (server.process.resident_kilobytes() - before) / sessions


@contextmanager
def _subscribed(server: Server, channel: str, sessions: int) -> Iterator[None]:
    board = Board()
    worker = Worker(board, subscribe, Audience(server.subscription(channel), sessions))
    try:
        worker.wait_ready()
        yield
        board.phase = Phase.EXIT
        worker.result()
    finally:
        worker.stop()
