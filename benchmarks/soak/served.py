"""The hub under the soak, in a process of its own: a server whose rules change every second."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from pathlib import Path

from benchmarks.soak.plan import HUB
from hubbub.domain.errors import StoreUnavailable
from hubbub.domain.rules import Rules
from hubbub.engine.directory import Directory
from hubbub.server.lifecycle import run
from hubbub.server.logs import configure
from hubbub.server.settings import load
from hubbub.server.wiring import Server

_tasks: set[asyncio.Task[None]] = set()


async def keep_changing_rules(server: Server, every_seconds: float = 1.0) -> None:
    """Until the store closes."""
    with contextlib.suppress(StoreUnavailable):
        for turn in itertools.count():
            await asyncio.sleep(every_seconds)
            await change_rules(server.directory, turn)


async def change_rules(directory: Directory, turn: int) -> None:
    """Open and close the gate, add and drop rules, switch presence on and off."""
    gate = Rules(public=turn % 2 == 0, client_publish=True, allow_anonymous=True)
    await directory.put(HUB, "rules", "gate", gate)
    crowd = Rules(
        public=True,
        client_publish=True,
        allow_anonymous=True,
        presence=turn % 3 == 0,
        occupancy=turn % 4 == 0,
        live_history=turn % 5 == 0,
    )
    await directory.put(HUB, "rules", "crowd", crowd)
    await directory.put(HUB, "namespace", f"passing-{turn % 7}", "crowd")
    await directory.delete(HUB, "namespace", f"passing-{(turn + 3) % 7}")


def main() -> None:
    settings = load(Path(sys.argv[1]), os.environ)
    configure("warning", "json")

    def started(server: Server) -> None:
        task = asyncio.get_running_loop().create_task(keep_changing_rules(server))
        _tasks.add(task)
        print("ready", flush=True)

    run(settings, started)


if __name__ == "__main__":
    main()
