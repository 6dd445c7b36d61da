"""Outages of chosen lengths, and their effect on a client of the JavaScript SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.cutting_proxy import CuttingProxy

SLACK_SECONDS = 3.0
"""For a busy machine."""
DIALLING_SECONDS = 8.0
"""Maximum duration of a handshake on a busy machine; a fallback to a stream costs 10 s and more."""


def lengths(count: int) -> list[float]:
    """From 0.1 to 30 s, evenly on a logarithmic scale."""
    return [round(0.1 * 300 ** (n / (count - 1)), 2) for n in range(count)]


@dataclass
class Outage:
    """`changes` are the states of the client since it was connected, with when the page said them
    (ms since 1970)."""

    seconds: float
    proxy: CuttingProxy
    changes: list[dict[str, Any]] = field(default_factory=list)

    async def happen(self, now: Callable[[], float]) -> None:
        """All connections are cut, and new ones refused for so long: by every other proxy without
        a listener, as at a machine that restarts, by the others after they were accepted."""
        listens = round(self.seconds * 100) % 2 == 0
        self.proxy.refusing = True
        if not listens:
            await self.proxy.stop_listening()
        self.proxy.cut_all()
        await asyncio.sleep(self.seconds)  # what is tested is the length
        self.proxy.refusing = False
        if not listens:
            await self.proxy.listen()
        self.over_at = now() * 1000

    def check(self) -> None:
        """The client is back at the next step of its backoff, over a WebSocket, with the session
        that it had."""
        first, last = self.changes[0], self.changes[-1]
        story = [(each["state"], each.get("retryInMs")) for each in self.changes]
        about = f"after {self.seconds} s: {story}"
        assert {each["transport"] for each in self.changes} == {"websocket"}, about
        assert last["state"] == "connected", about
        assert (last["session"], last["restored"]) == (first["session"], True), about
        steps = [each.get("retryInMs") or 0 for each in self.changes]
        dialled = [each["at"] for each in self.changes if each["state"] == "connecting"][-1]
        late, took = dialled - self.over_at, last["at"] - dialled
        assert late <= max(steps) + SLACK_SECONDS * 1000, f"dialled {late:.0f} ms late {about}"
        assert took <= DIALLING_SECONDS * 1000, f"dialled for {took:.0f} ms {about}"
