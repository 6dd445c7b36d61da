"""A hub with very many peers: messages to collectives, until each has its verdict, and the memory
that this takes. `python -m benchmarks.communication.large '[…]'` prints what was found."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import uvloop

from benchmarks.communication.adapters import TAKEN, TAKEN_AT
from benchmarks.communication.hub import running_hub
from benchmarks.load import processes
from hubbub.domain.communication.messages import PeerMessage
from hubbub.domain.communication.peers import Address, PeerInfo
from hubbub.domain.communication.settings import AdapterSettings


class _Verdicts:
    """A notification callback that keeps what is said of a message."""

    def __init__(self) -> None:
        self.subtype = ""
        self.heard = asyncio.Event()

    async def notify(self, hub: str, message: PeerMessage) -> None:
        if message.type == "CONTROL":
            self.subtype = message.subtype
            self.heard.set()


async def collectives(peers: int, groups: int, members: int, sends: int) -> dict[str, Any]:
    """Each send goes to another collective and waits for its verdict, which is on disk when it is
    told."""
    async with running_hub({"out": AdapterSettings("bench-taker")}) as hub:
        began = time.perf_counter()
        address = PeerInfo((Address("out", ("x" * 30,)),))
        await hub.save_peers([(f"peer-{n:06}", address) for n in range(peers)])
        for group in range(groups):
            chosen = (f"peer-{(group * 97 + n * 101) % peers:06}" for n in range(members))
            await hub.save_collective(f"c{group}", tuple(chosen))
        prepared = time.perf_counter() - began
        verdicts = _Verdicts()
        hub.server.communication.callbacks.append(verdicts)
        took, resident = [], []
        for number in range(sends):
            verdicts.heard.clear()
            began = time.perf_counter()
            await hub.send(
                PeerMessage(
                    type="TASK",
                    subtype="DATA",
                    sender="component:app",
                    receiver=f"collective:c{number % groups}",
                    delivery_policy="ACKNOWLEDGED",
                )
            )
            await verdicts.heard.wait()
            took.append(time.perf_counter() - began)
            if verdicts.subtype != "ACK" or len(TAKEN) != members:
                raise AssertionError(f"{verdicts.subtype}, {len(TAKEN)} deliveries")
            TAKEN.clear()
            TAKEN_AT.clear()
            resident.append(processes.resident_kilobytes(os.getpid()) / 1024)
        return {"seconds": took, "megabytes": resident, "prepared": prepared}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(collectives(*json.loads(sys.argv[1])))))
