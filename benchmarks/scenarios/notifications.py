"""A full notification channel: marking a thousand as read, and a page of the unread ones."""

from __future__ import annotations

import http.client
import json
import time
from statistics import median
from typing import Any

from benchmarks.findings import Effort, Finding, spread
from benchmarks.hub import HUB, Hubbub, hubbub

_HELD = 100_000
_BATCH = 1_000
_PAGE = 100
_REACH_MS = 20.0
_TRIES = 15
_CHANNEL = "notification:bench"


def notifications(effort: Effort) -> list[Finding]:
    """Times of whole requests over HTTP; marks are synced to disk before the answer."""
    held = effort.scaled(_HELD)
    with hubbub({"channel": {"maxNotifications": held}}) as server:
        service = _Service(server)
        for first in range(0, held, _BATCH):
            service.create(first, min(_BATCH, held - first))
        marking = [service.mark(first * _BATCH) for first in range(_TRIES)]
        paging = [service.page(held) for _ in range(_TRIES)]
    return [
        _finding(f"marking {_BATCH:,} of {held:,} notifications as read", marking),
        _finding(f"a page of {_PAGE} unread of {held:,} notifications", paging),
    ]


def _finding(what: str, seconds: list[float]) -> Finding:
    times = [1000 * each for each in seconds]
    reached = median(times) < _REACH_MS
    return Finding(what, f"under {_REACH_MS:g} ms", spread(times, " ms", 1), reached, {"ms": times})


class _Service:
    """One connection of a service."""

    def __init__(self, server: Hubbub) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port)
        self._headers = {
            "Authorization": f"Bearer {server.token()}",
            "Content-Type": "application/json",
        }

    def create(self, first: int, count: int) -> None:
        items = [
            {"id": str(number), "event": "order", "payload": {"json": {"order": number}}}
            for number in range(first, first + count)
        ]
        path = f"/v1/admin/hubs/{HUB}/channels/{_CHANNEL}/notifications"
        self._ask("POST", path, {"notifications": items})

    def mark(self, first: int) -> float:
        """Seconds for a thousand by their ids."""
        ids = [str(number) for number in range(first, first + _BATCH)]
        seconds, answer = self._timed("POST", "/read", {"ids": ids})
        assert answer["marked"] == _BATCH, answer
        return seconds

    def page(self, held: int) -> float:
        seconds, answer = self._timed("GET", f"?unread=true&limit={_PAGE}", None)
        assert len(answer["notifications"]) == _PAGE, answer
        assert answer["total"] == held, answer
        return seconds

    def _timed(self, method: str, rest: str, body: object) -> tuple[float, Any]:
        path = f"/v1/hubs/{HUB}/channels/{_CHANNEL}/notifications{rest}"
        started = time.perf_counter()
        text = self._ask(method, path, body)
        return time.perf_counter() - started, json.loads(text)

    def _ask(self, method: str, path: str, body: object) -> bytes:
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, body=data, headers=self._headers)
        response = self._connection.getresponse()
        text = response.read()
        assert response.status == 200, text[:500]
        return text
