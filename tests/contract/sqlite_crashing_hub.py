"""Run as a process by `test_sqlite_store.py`: appends until it is killed, and prints each serial
once it was acknowledged."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hubbub.domain.messages import Message
from hubbub.ports.storage.messages import Append
from hubbub.storage.sqlite.store import SqliteStore


async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    await store.open()
    term = (await store.acquire_partitions([7], "crashing"))[7]
    serial = 0
    while True:
        appends = []
        for _ in range(5):
            serial += 1
            message = Message(
                f"m{serial}", "demo", "news", "e", b"x" * 500, "text/plain", serial, serial
            )
            appends.append(Append(message, "epoch-1", 7, term))
        assert not any(await store.append(appends))
        print(serial, flush=True)


asyncio.run(main())
