"""One cell of the report's evaluation: workers send to peers that answer at once, until the time is
over and every answer is back. `python -m benchmarks.communication.evaluation '[…]'` prints what was
found."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from itertools import count
from typing import Any

import uvloop

from benchmarks.communication.adapters import INPUTS
from benchmarks.communication.hub import Hub, running_hub
from benchmarks.load import processes
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.communication.settings import AdapterSettings
from hubbub.domain.errors import QuotaExceeded

UNDER_WAY = 100
"""Sends of one worker."""
_SINGLE = 300
CONTENT = "x" * 100


class _Replies:
    """A notification callback that counts."""

    def __init__(self) -> None:
        self.count = 0

    async def notify(self, hub: str, message: PeerMessage) -> None:
        self.count += 1


class Cell:
    def __init__(self, hub: Hub, workers: int, peers: int, transient: bool) -> None:
        self._hub = hub
        self._workers = workers
        self._peers = peers
        self._transient = transient
        self._numbers = count()
        self._until = 0.0
        self.sent = 0
        self.refused = 0
        self.replies = _Replies()
        hub.server.communication.callbacks.append(self.replies)

    async def single(self) -> list[float]:
        """Milliseconds of sends, one at a time."""
        took = []
        for _ in range(_SINGLE):
            began = time.perf_counter()
            await self._send("component:app")
            took.append((time.perf_counter() - began) * 1000)
        await self.answered()
        return sorted(took)

    async def run(self, seconds: float) -> None:
        self._until = time.perf_counter() + seconds
        each = [
            self._work(f"component:{n}") for n in range(self._workers) for _ in range(UNDER_WAY)
        ]
        await asyncio.gather(*each)
        await self.answered()

    async def answered(self) -> None:
        """Until every request has its reply."""
        while self.replies.count < self.sent:
            await asyncio.sleep(0.005)

    async def _work(self, sender: str) -> None:
        while time.perf_counter() < self._until:
            try:
                await self._send(sender)
                if self._transient:
                    await asyncio.sleep(0)  # answered at once: the others have their turn
            except QuotaExceeded:
                self.refused += 1
                await asyncio.sleep(0.05)

    async def _send(self, sender: str) -> None:
        peer = f"p{next(self._numbers) % self._peers}"
        message = PeerMessage(
            type="TASK", subtype="DATA", sender=sender, receiver=peer, content=CONTENT
        )
        await self._hub.send(message, self._transient)
        self.sent += 1


async def evaluate(
    workers: int, peers: int, transient: bool, seconds: float, warm_seconds: float
) -> dict[str, Any]:
    inputs = {
        f"in{n}": AdapterSettings("bench-replies", {"number": n}, transient=transient)
        for n in range(INPUTS)
    }
    async with running_hub({"out": AdapterSettings("bench-peers"), **inputs}) as hub:
        address = PeerInfo((Address("out"),))
        await hub.save_peers([(f"p{n}", address) for n in range(peers)])
        cell = Cell(hub, workers, peers, transient)
        single = await cell.single()
        await cell.run(warm_seconds)
        before, began = cell.replies.count, time.perf_counter()
        cpu = processes.cpu_seconds(os.getpid())
        await cell.run(seconds)
        took = time.perf_counter() - began
        replies = cell.replies.count - before
        cpu = processes.cpu_seconds(os.getpid()) - cpu
        return {
            "rate": 2 * replies / took,
            "cpu_us": cpu / (2 * replies) * 1e6,
            "p50": single[_SINGLE // 2],
            "p99": single[_SINGLE * 99 // 100],
            "refused": cell.refused,
        }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(evaluate(*json.loads(sys.argv[1])))))
