"""Ten adapters under the same steady load, one of which takes its time in every second turn: how
long copies to the other nine take, with and without. Turns alternate in one process, so that a
disk or a machine that is slow for a while is so for both.
`python -m benchmarks.communication.slow '[…]'` prints what was found."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from benchmarks.communication.adapters import TAKEN, TAKEN_AT, Slowness
from benchmarks.communication.hub import Hub, running_hub
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.communication.settings import AdapterSettings

ADAPTERS = 10
_PEERS_OF_ADAPTER = 10
_TURN_SECONDS = 0.01
_SLOW = "p0."
"""Begins the names of the slow adapter's peers."""


class Load:
    """Sends to the peers of all adapters in turn, at a steady rate."""

    def __init__(self, hub: Hub, peers: list[str]) -> None:
        self._hub = hub
        self._peers = peers
        self._sent_at: dict[str, float] = {}
        self._sends: set[asyncio.Task[None]] = set()

    async def run(self, per_second: int, seconds: float) -> list[float]:
        """Milliseconds from before a send until one of the other nine adapters has the copy."""
        self._sent_at.clear()
        TAKEN.clear()
        TAKEN_AT.clear()
        began, sent, others = time.perf_counter(), 0, 0
        while (now := time.perf_counter() - began) < seconds:
            while sent < now * per_second:
                peer = self._peers[sent * 7 % len(self._peers)]
                others += not peer.startswith(_SLOW)
                task = asyncio.ensure_future(self._send(peer))
                self._sends.add(task)
                task.add_done_callback(self._sends.discard)
                sent += 1
            await asyncio.sleep(_TURN_SECONDS)
        await asyncio.gather(*self._sends)
        while len(found := self._delays()) < others:
            await asyncio.sleep(_TURN_SECONDS)
        return found

    async def _send(self, receiver: str) -> None:
        began = time.perf_counter()
        message = PeerMessage(
            type="TASK", subtype="DATA", sender="component:app", receiver=receiver
        )
        self._sent_at[await self._hub.send(message)] = began

    def _delays(self) -> list[float]:
        return [
            (at - self._sent_at[each.message.id]) * 1000
            for each, at in zip(TAKEN, TAKEN_AT, strict=True)
            if each.message.id in self._sent_at and not each.peer.startswith(_SLOW)
        ]

    async def drain(self) -> None:
        while self._hub.waiting:
            await asyncio.sleep(_TURN_SECONDS)


async def delays(
    slow_seconds: float, per_second: int, turns: int, seconds: float
) -> dict[str, dict[str, Any]]:
    """A turn begins with a second that does not count, in which queues of the slow adapter fill."""
    used = {f"a{n}": AdapterSettings("bench-taker", {"slow": n == 0}) for n in range(ADAPTERS)}
    async with running_hub(used) as hub:
        peers = [
            (f"p{n}.{peer}", PeerInfo((Address(f"a{n}"),)))
            for n in range(ADAPTERS)
            for peer in range(_PEERS_OF_ADAPTER)
        ]
        await hub.save_peers(peers)
        load = Load(hub, [name for name, _ in peers])
        await load.run(per_second, 1.0)
        found: dict[str, list[list[float]]] = {"calm": [], "slow": []}
        for turn in range(2 * turns):
            which = ("calm", "slow", "slow", "calm")[turn % 4]
            if which == "slow":
                Slowness.begin(slow_seconds)
            await load.run(per_second, 1.0)
            found[which].append(await load.run(per_second, seconds))
            Slowness.end()
            await load.drain()
        return {which: _figures(each) for which, each in found.items()}


def _figures(turns: list[list[float]]) -> dict[str, Any]:
    together = sorted(each for turn in turns for each in turn)
    return {
        "p50": _percentile(together, 50),
        "p99": _percentile(together, 99),
        "p99s": [_percentile(sorted(turn), 99) for turn in turns],
        "count": len(together),
    }


def _percentile(ordered: list[float], percent: int) -> float:
    return ordered[len(ordered) * percent // 100]


if __name__ == "__main__":
    print(json.dumps(uvloop.run(delays(*json.loads(sys.argv[1])))))
