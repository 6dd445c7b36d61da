"""Run as a process by `test_crash.py`: changes settings until it is killed, and prints the number
of each once it was answered."""

from __future__ import annotations

import asyncio
import sys
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.running_hub import hub_settings, open_hub
from hubbub.domain.rules import Rules
from hubbub.server.wiring import Server


async def main() -> None:
    server = Server(hub_settings(Path(sys.argv[1]), open_hub()))
    await server.start()
    for number in count(1):
        rules = Rules(public=True, occupancy=number % 2 == 0)
        await server.directory.put("acme", "rules", f"r{number}", rules)
        print(number, flush=True)


asyncio.run(main())
